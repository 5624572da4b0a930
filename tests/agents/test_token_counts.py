"""What the first request of a run takes, counted before the run; and a bound for the tokens of requests."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiktoken

from agentkit import DefinitionError, Image, JsonAgent, Limits, Session
from agentkit.events import Compacted
from agentkit.testing import ScriptedModel, answer, call


def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


class Counting(ScriptedModel):
    """A model whose tokenizer counts words."""

    context_window = 8_000

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]


def test_each_share_of_the_first_request_is_counted_and_nothing_is_sent():
    model = Counting(call("look", place="Rome"), answer("one two three"), answer("later"))
    agent = JsonAgent(look, model=model, description="You look.")
    first = agent.count_tokens("Where is it now?")
    assert (first.query, first.history, first.window, first.is_estimate) == (4, 0, 8_000, False)
    assert first.instruction == len(agent.instruction.split())
    assert first.tools > 0
    assert first.total == first.instruction + first.tools + first.query
    assert (model.requests, agent.session.messages) == ([], [])

    agent("Where is it now?")
    sent = len(model.requests)
    later = agent.count_tokens("And where now, please?")
    assert later.history == sum(
        len(str(message["content"] or "").split())
        + sum(1 + len(one["function"]["arguments"].split()) for one in message.get("tool_calls", ()))
        for message in agent.session.messages[1:]
    )
    assert (later.instruction, later.tools, later.query) == (first.instruction, first.tools, 4)
    assert len(model.requests) == sent
    assert agent("And?") == "later"


def test_without_a_tokenizer_the_count_is_an_estimate():
    agent = JsonAgent(look, model=ScriptedModel(answer("x")))
    count = agent.count_tokens("x" * 400)
    assert (count.query, count.window, count.is_estimate) == (100, None, True)
    with_image = agent.count_tokens(["x" * 400, Image(b"\x89PNG\r\n\x1a\n" + b"0" * 60)])
    assert with_image.query == 1_100


def test_litellm_counts_by_the_tokenizer_of_the_model(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    count = JsonAgent(look, model="openai/gpt-4o-mini").count_tokens("hello world, how are you today?")
    assert (count.query, count.is_estimate, count.window) == (8, False, 128_000)


def test_the_journal_the_listeners_and_the_fallbacks_see_nothing(tmp_path):
    events = []
    other = ScriptedModel(answer("other"))
    agent = JsonAgent(
        look,
        model=ScriptedModel(answer("x")),
        fallback_models=[other],
        listeners=[events.append],
        journal=tmp_path / "runs.db",
    )
    assert agent.count_tokens("hello").query == 1
    assert (events, other.requests, (tmp_path / "runs.db").exists()) == ([], [], False)


def test_a_named_session_is_counted_and_stays(tmp_path):
    agent = JsonAgent(look, model=Counting(answer("one two"), answer("three")))
    agent("First question here.", session=Session.open("ada", tmp_path / "runs.db"))
    session = Session.open("ada", tmp_path / "runs.db")
    before = len(session.messages)
    assert agent.count_tokens("Second?", session=session).history > 4
    assert len(session.messages) == before
    assert agent("Second?", session=session) == "three"


def test_a_model_that_a_function_chooses_cannot_be_counted():
    agent = JsonAgent(look, model=lambda run: ScriptedModel(answer("x")))
    with pytest.raises(DefinitionError, match="the model is a function of the run"):
        agent.count_tokens("hello")
    assert agent.count_tokens("hello", model=Counting()).query == 1


def pages(number: int) -> str:
    """Read a page."""
    return f"page {number} " * 400


def test_a_limit_of_tokens_of_a_request_shortens_it(world):
    turns = [call("pages", number=number) for number in range(20)]
    model = ScriptedModel(*turns, answer("done"))
    events = []
    agent = JsonAgent(pages, model=model, limits=Limits(context_tokens=4_000), listeners=[events.append])
    assert world.run(agent, "Read all.").answer == "done"
    assert any(isinstance(event, Compacted) for event in events)
    longest = max(sum(len(str(message["content"])) for message in request.messages) for request in model.requests)
    assert longest < 4_000 * 3
    free = ScriptedModel(*turns, answer("done"))
    world.run(JsonAgent(pages, model=free), "Read all.", limits=Limits(context_tokens=2_000))
    assert sum(len(str(message["content"])) for message in free.requests[-1].messages) < 2_000 * 3


SUM = """
def add_{0}(a: int, b: int) -> int:
    '''Adds two numbers and returns their sum, for tests of the speed of a loop.

    Args:
        a: The first number to be added.
        b: The second number to be added.
    '''
    return a + b
"""


def test_twenty_turns_with_twenty_tools_take_few_tokens_more_than_by_hand(monkeypatch):
    """The answer tool and the instruction are in each request; with cl100k_base, which litellm brings."""
    folder = Path(find_spec("litellm").submodule_search_locations[0], "litellm_core_utils", "tokenizers")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    encode = tiktoken.get_encoding("cl100k_base").encode
    space = {}
    for number in range(20):
        exec(SUM.format(number), space)
    model = ScriptedModel(*(call("add_1", a=turn, b=2) for turn in range(19)), answer("done"))
    agent = JsonAgent([space[f"add_{number}"] for number in range(20)], model=model)
    agent("Go on.")

    def count(messages, tools):
        return sum(len(encode(json.dumps(part, separators=(",", ":")))) for part in (messages, tools))

    def by_hand(tool):
        parameters = tool["function"]["parameters"]
        written = {"type": "object", "properties": parameters["properties"], "required": parameters["required"]}
        return {**tool, "function": {**tool["function"], "parameters": written}}

    ours = other = 0
    for request in model.requests:
        kept = ("role", "content", "tool_calls", "tool_call_id")
        sent = [{name: message[name] for name in kept if name in message} for message in request.messages]
        tools = request.tools.schemas("openai")
        ours += count(sent, tools)
        other += count([{"role": "system", "content": "Use the tools."}, *sent[1:]], [*map(by_hand, tools[1:])])
    assert len(model.requests) == 20
    assert ours <= 1.10 * other
