"""A journaled run is replayed without model and tools, or the first difference is named."""

import asyncio
import json

import pytest

from agentkit import Document, Image, JsonAgent, Session, ToolError, ask_question, tool
from agentkit.core.errors import Paused
from agentkit.journal import JournalError, export, runs
from agentkit.testing import ReplayDiffers, ScriptedModel, answer, call, calls

MADE: list[str] = []
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def _nothing_made():
    MADE.clear()


@tool(effect="write")
def book(place: str) -> str:
    """Books a place."""
    MADE.append(place)
    if place == "nowhere":
        raise ToolError("there is no such place")
    return f"booked {place}"


@tool(effect="danger")
def pay(euros: int) -> str:
    """Pays."""
    MADE.append(f"{euros} euros")
    return f"paid {euros}"


def agent_of(path, *replies, tools=(book, pay), **settings) -> JsonAgent:
    return JsonAgent([*tools], model=ScriptedModel(*replies), journal=path, retries=0, **settings)


def replayed(world, agent, run_id, path, **how):
    if world.name == "sync":
        return agent.replay(run_id, journal=path, **how)
    return asyncio.run(agent.areplay(run_id, journal=path, **how))


REPLIES = (calls(call("book", place="a"), call("book", place="nowhere")), call("book", place="b"), answer("done"))


def test_it_has_the_same_answer_messages_and_usage(world, path):
    result = world.run(agent_of(path, *REPLIES), "Go")
    MADE.clear()
    again = replayed(world, agent_of(None), result.run_id, path)
    assert (again.answer, again.messages, again.usage, MADE) == ("done", result.messages, result.usage, [])
    assert again.run_id != result.run_id
    assert len(runs(path)) == 1, "a replay is not journaled"


@pytest.mark.parametrize("name", ["book", "unknown"])
def test_arguments_that_are_no_json_are_replayed(world, path, name):
    wrong = {"tool_calls": [{"name": name, "arguments": '{"place": "a'}]}
    result = world.run(agent_of(path, wrong, answer("done")), "Go")
    assert replayed(world, agent_of(None), result.run_id, path).messages == result.messages


@pytest.mark.parametrize("is_inside", [True, False])
def test_a_run_that_paused_for_a_question_pauses_again(world, path, tmp_path, is_inside):
    def order(drink: str) -> str:
        """Orders a drink."""
        MADE.append(drink)
        return ask_question("How many?")

    waiter = JsonAgent(order, model=ScriptedModel(call("order", drink="tea")), description="A waiter.")
    tools = [waiter.as_tool("waiter") if is_inside else order, book]
    asks = call("waiter", query="tea") if is_inside else call("order", drink="tea")
    file = tmp_path / "run.jsonl"
    with pytest.raises(Paused) as paused:
        world.run(agent_of(path, calls(asks, call("book", place="a")), tools=tools), "Go", record=file)
    assert sorted(MADE) == ["a", "tea"]
    for source, how in ((file, {}), (paused.value.run_id, {"journal": path})):
        with pytest.raises(Paused) as again:
            JsonAgent(tools, model=ScriptedModel(), on_question=lambda _: "two").replay(source, **how)
        assert [one.id for one in again.value.pending] == [one.id for one in paused.value.pending]
        assert [*again.value.history] == [*paused.value.history]
    assert sorted(MADE) == ["a", "tea"]


def test_images_and_documents_of_results_are_replayed(world, path, tmp_path):
    def show(what: str) -> object:
        """Shows something."""
        MADE.append(what)
        return {"pdf": Document(b"%PDF-1.4"), "seen": [Image(PNG), Image(PNG)]} if what == "all" else Image(PNG)

    def agent(*replies):
        return agent_of(path if replies else None, *replies, tools=[show])

    script = calls(call("show", what="all"), call("show", what="one")), call("show", what="one"), answer("done")
    result = world.run(agent(*script), "Go", record=tmp_path / "recorded.jsonl")
    export(result.run_id, tmp_path / "exported.jsonl", store=path)
    MADE.clear()
    assert replayed(world, agent(), result.run_id, path).messages == result.messages
    for file in ("recorded.jsonl", "exported.jsonl"):
        again = replayed(world, agent(), tmp_path / file, None)
        assert again.messages == result.messages, file
    assert sorted(len(one.images) for one in again.calls) == [0, 1, 1, 3]
    assert MADE == []


def test_each_run_of_a_conversation_is_replayed_for_itself(world, path):
    agent = agent_of(path, call("book", place="a"), answer("one"), call("book", place="b"), answer("two"))
    first = world.run(agent, "Q1")
    second = world.run(agent, "Q2")
    MADE.clear()
    for run in (first, second):
        assert replayed(world, agent_of(None), run.run_id, path).answer == run.answer
    assert MADE == []


def test_a_run_that_was_approved_in_pieces_is_replayed_in_one(world, path):
    with pytest.raises(Paused) as paused:
        world.run(agent_of(path, calls(call("book", place="a"), call("pay", euros=4)), answer("done")), "Go")
    (run,) = runs(path)
    session = Session.resumed(run.id, path)
    approvals = {paused.value.calls[0].id: {"euros": 5}}
    result = world.run(agent_of(path, answer("done")), None, session=session, approvals=approvals)
    assert MADE == ["a", "5 euros"]
    MADE.clear()
    again = replayed(world, agent_of(None), run.id, path)
    assert (again.answer, MADE) == ("done", [])
    contents = [message["content"] for message in again.messages if message["role"] == "tool"]
    assert contents == [message["content"] for message in result.messages if message["role"] == "tool"]


def test_a_refused_call_is_refused_again(world, path):
    replies = (calls(call("pay", euros=1), call("pay", euros=2)), answer("done"))
    decide = {1: "too much", 2: False}
    agent = agent_of(path, *replies, approve=lambda call: decide[json.loads(call.arguments)["euros"]])
    result = world.run(agent, "Go")
    again = replayed(world, agent_of(None), result.run_id, path)
    assert (again.answer, again.messages, MADE) == ("done", result.messages, [])


@pytest.mark.parametrize("decision", [False, "not there", {"place": "b"}])
def test_what_a_function_decides_about_any_call_is_replayed_without_it(world, path, tmp_path, decision):
    def decide(asked):
        return decision if '"a"' in asked.arguments else True

    script = calls(call("book", place="a"), call("book", place="c")), answer("done")
    result = world.run(agent_of(path, *script, approve=decide), "Go", record=tmp_path / "run.jsonl")
    made = sorted(MADE)
    MADE.clear()
    for source, store in ((result.run_id, path), (tmp_path / "run.jsonl", None)):
        assert replayed(world, agent_of(None), source, store).messages == result.messages
    assert (made, MADE) == (["b", "c"] if isinstance(decision, dict) else ["c"], [])


def test_calls_of_unknown_outcome_stay_unknown(world, path):
    def stop(place: str) -> str:
        """Books a place."""
        raise KeyboardInterrupt

    stopping = tool(name="book", effect="write")(stop)
    with pytest.raises(KeyboardInterrupt):
        world.run(agent_of(path, call("book", place="a"), tools=[stopping, pay]), "Go")
    (run,) = runs(path)
    agent = agent_of(path, answer("unsure"))
    agent.resume(run.id, changed="go on")
    again = replayed(world, agent_of(None, tools=[stopping, pay]), run.id, path)
    assert again.answer == "unsure"
    assert any(str(message["content"]).startswith("OutcomeUnknown") for message in again.messages)


@pytest.mark.parametrize("execute", [False, True])
def test_the_first_difference_is_named(world, path, execute):
    result = world.run(agent_of(path, *REPLIES), "Go")

    @tool(name="book", effect="write")
    def other(place: str, when: str = "now") -> str:
        """Books a place."""
        return "booked"

    with pytest.raises(ReplayDiffers, match="request 1 differs: the tools: book"):
        replayed(world, agent_of(None, tools=[other, pay]), result.run_id, path, execute=execute)
    with pytest.raises(ReplayDiffers, match="request 1 differs: message 0"):
        replayed(world, agent_of(None, description="You are another."), result.run_id, path, execute=execute)


def test_tools_that_are_executed_and_answer_otherwise_are_named(world, path):
    result = world.run(agent_of(path, *REPLIES), "Go")

    @tool(name="book", effect="write")
    def other(place: str) -> str:
        """Books a place."""
        return "no"

    assert replayed(world, agent_of(None), result.run_id, path, execute=True).answer == "done"
    with pytest.raises(ReplayDiffers, match=r"request 2 differs: message 3 \(tool\).*recorded 'booked a', now 'no'"):
        replayed(world, agent_of(None, tools=[other, pay]), result.run_id, path, execute=True)


def test_it_is_exported_into_a_file_that_has_no_secrets(world, path, tmp_path):
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz012345"
    replies = (call("book", place=key), call("book", place="b"), answer("done"))
    result = world.run(agent_of(path, *replies), "Go")
    file = tmp_path / "run.jsonl"
    export(result.run_id, file, store=path)
    assert key not in file.read_text()
    MADE.clear()
    agent = agent_of(None)
    again = agent.replay(file) if world.name == "sync" else asyncio.run(agent.areplay(file))
    assert (again.answer, again.usage, len(again.messages), MADE) == ("done", result.usage, len(result.messages), [])
    with pytest.raises(ReplayDiffers, match=r"run\.jsonl: request 1 differs: message 0"):
        agent_of(None, description="You are another.").replay(file)


def test_the_beginning_of_an_id_names_the_run(world, path, tmp_path):
    result = world.run(agent_of(path, *REPLIES), "Go")
    whole = tmp_path / "whole.jsonl"
    short = tmp_path / "short.jsonl"
    export(result.run_id, whole, store=path)
    export(result.run_id[:6], short, store=path)
    assert short.read_text() == whole.read_text()
    again = replayed(world, agent_of(None), result.run_id[:6], path)
    assert (again.answer, again.messages) == ("done", result.messages)


def test_many_steps_are_exported_in_linear_size(path, tmp_path):
    sizes = []
    for number in (50, 100):
        replies = [*[call("book", place=f"place {place} {'x' * 200}") for place in range(number)], answer("done")]
        run = agent_of(path, *replies, max_steps=200).run("Go")
        file = tmp_path / f"{number}.jsonl"
        export(run.run_id, file, store=path)
        sizes.append(file.stat().st_size)
    assert sizes[1] < 2.2 * sizes[0]


def test_an_id_without_its_journal_is_answered_with_what_to_write():
    with pytest.raises(FileNotFoundError, match=r"agent\.replay\(run_id, journal=\.\.\.\): '1f'"):
        JsonAgent(len, model="offline").replay("1f")


def test_an_unknown_id_is_named(path):
    agent_of(path, answer("x"))("Go")
    with pytest.raises(JournalError, match="no run has the id 'nothing'"):
        agent_of(None).replay("nothing", journal=path)


@pytest.mark.parametrize(
    "settings",
    [{"tools": lambda run: [book]}, {"tools": (book, pay), "tool_mode": "text"}],
    ids=["tools of a function", "tools in the text"],
)
def test_tools_that_are_not_part_of_the_requests_are_not_compared_with_them(world, path, settings):
    def agent(*replies):
        return JsonAgent(model=ScriptedModel(*replies), retries=0, **settings)

    text = '<tool_call>{"name": "final_answer", "arguments": {"text": "done"}}</tool_call>'
    reply = text if "tool_mode" in settings else answer("done")
    result = world.run(agent(reply), "Go", journal=path)
    assert replayed(world, agent(), result.run_id, path).answer == "done"


def test_changed_tools_of_the_agent_are_named(world, path):
    result = world.run(agent_of(path, answer("done")), "Go")
    with pytest.raises(ReplayDiffers, match="request 1 differs: the tools: pay: removed"):
        replayed(world, agent_of(None, tools=(book,)), result.run_id, path)
