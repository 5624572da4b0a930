"""Conversations longer than the window: what is sent shorter, what stays, what is learnt, and what it costs."""

import itertools
import json

import pytest

from agentkit import JsonAgent, Limits, ModelError, ToolRegistry
from agentkit.core.messages import ToolCall, Usage, assistant, system, tool_message, user
from agentkit.engine.history import check_history
from agentkit.engine.history.size import RunningSize, count_characters
from agentkit.engine.model import Reply
from agentkit.policies import compaction as shortening
from agentkit.policies.compaction import KNOWN_WINDOWS, Compacted, PinnedMessages, ShortenedHistory, compact
from agentkit.testing import ScriptedModel, call
from agentkit.tools.final_answer import make_answer_tool

END = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "ready"}}]}
INSTRUCTION = "Fetch what is asked for, as often as it takes. " * 7
TOLD = "This model's maximum context length is {} tokens. However, your messages resulted in {} tokens."


@pytest.fixture(autouse=True)
def _nothing_known():
    KNOWN_WINDOWS.clear()


def overflow(text="the input is too long") -> ModelError:
    return ModelError(text, kind="context", status=400)


def fetch(size: int) -> str:
    """Fetches `size` characters.

    Args:
        size: How many.
    """
    return "x" * size


def loop_compacted(world, model, query="Fetch.", history=None, **more):
    """Run the loop under this policy alone; return the answer and the events."""
    history = [system(INSTRUCTION)] if history is None else history
    history.append(user(query))
    tools = ToolRegistry(fetch, answer=make_answer_tool())
    answer, events = world.loop(model, tools, history, compact(**more))
    return answer.value, events


def size_of(request) -> int:
    return sum(map(count_characters, request.messages))


def compacted(events) -> list[Compacted]:
    return [event for event in events if isinstance(event, Compacted)]


class Small(ScriptedModel):
    """A model with a window: it refuses more characters than that, in the words of its provider."""

    def __init__(self, *script, room: int, told: str = "", name: str = "small") -> None:
        super().__init__(*script, name=name)
        self.room = room
        self.told = told
        self.refused: list[int] = []
        self.sizes: list[int] = []

    def ask(self, request):
        size = size_of(request)
        assert check_history(request.messages) == []
        if size > self.room:
            self.refused.append(size)
            raise overflow(self.told.format(self.room // 4, size // 4) if self.told else "the input is too long")
        self.sizes.append(size)
        for piece in super().ask(request):
            if isinstance(piece, Reply):
                piece = Reply(piece.message, Usage(1, size // 4, 5), piece.finish_reason, piece.model)
            yield piece


def test_the_oldest_results_are_shrunk_first(world):
    model = Small([*[call("fetch", size=2000)] * 4, END], room=8_000, told=TOLD)
    answer, events = loop_compacted(world, model)
    assert answer == "ready"
    tools = [message["content"] for message in model.requests[-1].messages if message["role"] == "tool"]
    assert len(tools) == 4
    assert tools[0].startswith("x" * shortening.HEAD_CHARS + "\n[... 1,500 more characters of this result are left out")
    assert tools[-1] == "x" * 2000
    (event,) = compacted(events)
    assert (event.left_out, event.model, event.error.kind) == (0, "small", "context")
    assert event.shrunk == sum(len(text) < 2000 for text in tools)
    assert event.characters[1] < event.characters[0]
    assert len(model.refused) == 1


def test_then_whole_steps_are_left_out_and_the_query_stays(world):
    model = Small([*[call("fetch", size=800)] * 12, END], room=6_000)
    _, events = loop_compacted(world, model, "Fetch what I need.")
    sent = model.requests[-1].messages
    assert [message["role"] for message in sent[:3]] == ["system", "user", "assistant"]
    note, _, query = sent[1]["content"].partition("\n\n")
    left_out = compacted(events)[-1].left_out
    assert left_out > 0
    assert left_out == 1 + 1 + 24 - len(sent), "the rest is there"
    assert note.startswith(f"[{left_out} earlier messages of this conversation are left out")
    assert query == "Fetch what I need."
    assert sent[-1]["content"] == "x" * 800, "the last step stays as it is"


def test_earlier_turns_go_before_steps_of_this_run(world):
    history = [system(INSTRUCTION)]
    model = Small([call("fetch", size=3000), END, call("fetch", size=3000), END], room=100_000)
    loop_compacted(world, model, "The first question.", history)
    loop_compacted(world, model, "The second question.", history)
    small = Small([call("fetch", size=400), call("fetch", size=400), END], room=2_300, name="smaller")
    loop_compacted(world, small, "The third question.", history)
    texts = json.dumps(small.requests[-1].messages)
    assert "The first question" not in texts
    assert texts.count("The third question") == 1
    assert texts.count("x" * 400) >= 2


def test_the_history_is_not_touched(world):
    history = [system(INSTRUCTION)]
    model = Small([*[call("fetch", size=2000)] * 4, END], room=9_000)
    loop_compacted(world, model, history=history)
    assert [len(message["content"]) for message in history if message["role"] == "tool"][:4] == [2000] * 4
    assert history[1] == user("Fetch.")


def test_the_results_of_the_last_step_are_shrunk_when_nothing_else_helps(world):
    model = Small([call("fetch", size=50_000), END], room=4_000)
    loop_compacted(world, model)
    assert len(model.requests[-1].messages[-1]["content"]) < 1_000


@pytest.mark.parametrize("steps", [0, 1])
def test_the_same_request_is_never_made_again(world, steps):
    model = ScriptedModel([*[call("fetch", size=10)] * steps, overflow(), "not asked for"])
    with pytest.raises(ModelError, match="too long") as caught:
        loop_compacted(world, model)
    assert caught.value.kind == "context"
    assert len(model.requests) == steps + 1


def test_after_two_retries_the_error_is_raised(world):
    model = ScriptedModel([*[call("fetch", size=2000)] * 10, *[overflow()] * 4])
    with pytest.raises(ModelError, match="too long"):
        loop_compacted(world, model)
    assert len(model.requests) == 10 + 3
    sizes = [size_of(request) for request in model.requests[10:]]
    assert sizes[0] > sizes[1] > sizes[2]


def test_other_errors_are_not_ours(world):
    model = ScriptedModel(call("fetch", size=2000), ModelError("no", kind="bad_request"))
    with pytest.raises(ModelError, match="no"):
        loop_compacted(world, model)
    assert len(model.requests) == 2


@pytest.mark.parametrize("told", ["", TOLD], ids=["window untold", "window told"])
def test_a_run_continues_for_many_steps_beyond_the_window(world, told):
    model = Small([*[call("fetch", size=1500)] * 60, END], room=20_000, told=told)
    answer, _ = loop_compacted(world, model)
    assert answer == "ready"
    assert model.sizes[-1] > 0.5 * model.room, "as much as fits is sent"
    if told:
        assert len(model.refused) == 1, "once the window is known, nothing is refused any more"


def test_a_measured_window_holds_for_others_with_the_same_model(world):
    model = Small([*[call("fetch", size=2000)] * 8, END], room=9_000, told=TOLD)
    loop_compacted(world, model)
    again = Small([*[call("fetch", size=2000)] * 8, END], room=9_000, told=TOLD)
    _, events = loop_compacted(world, again)
    assert again.refused == []
    assert all(event.error is None for event in compacted(events))
    assert compacted(events)
    other = Small([*[call("fetch", size=2000)] * 8, END], room=9_000, told=TOLD, name="other")
    loop_compacted(world, other)
    assert len(other.refused) == 1


def test_places_stay_for_some_steps_so_that_prompt_caches_keep_their_use(world):
    model = Small([*[call("fetch", size=1000)] * 60, END], room=20_000, told=TOLD)
    _, events = loop_compacted(world, model)
    requests = [[json.dumps(message) for message in request.messages] for request in model.requests]
    grown = sum(after[: len(before)] == before for before, after in itertools.pairwise(requests))
    assert grown >= len(requests) - 1 - len(compacted(events))
    assert len(compacted(events)) < 20


def test_a_window_can_be_given_for_servers_that_report_none(world):
    model = Small([*[call("fetch", size=1000)] * 30, END], room=100_000)
    loop_compacted(world, model, window=3_000)
    assert max(model.sizes[5:]) <= 3_000 * 6


@pytest.mark.parametrize("results", [1, 3])
def test_results_too_long_by_themselves_are_shrunk_before_steps_are_left_out(world, results):
    turn = {"tool_calls": call("fetch", size=10_000)["tool_calls"] * results}
    model = ScriptedModel(*[turn] * 4, END)
    _, events = loop_compacted(world, model, window=4_000)
    room = 0.7 * 3 * 4_000
    assert [event.left_out for event in compacted(events)][:3] == [0, 0, 0]
    assert all(0.8 * room < size_of(request) < room for request in model.requests[1:])
    newest = [len(request.messages[-1]["content"]) for request in model.requests[1:]]
    assert min(newest) > room / 3 / results - 200
    assert newest == sorted(newest, reverse=True), "the heads of the older ones take their part"


def test_images_of_old_results_are_left_out():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    history = [system("s"), user("q")]
    for number in range(3):
        one = ToolCall(f"c{number}", "look", "{}")
        history += [assistant(None, [one]), tool_message(one, "seen", [image])]
    text = ShortenedHistory(PinnedMessages.of(history[:2]))
    text.shorten(history, 5_000)
    sent = text.of(history)
    assert [message["content"] for message in sent if message["role"] == "tool"][:2] == ["seen", "seen"]
    assert sent[-1]["content"][1] == image
    assert text.count_shrunk(history) == 2


def test_a_query_in_parts_keeps_them():
    query = {"role": "user", "content": [{"type": "text", "text": "what is this?"}]}
    history = [user("old"), assistant("yes " * 500), query]
    text = ShortenedHistory(PinnedMessages.of(history))
    text.shorten(history, 100)
    (sent,) = text.of(history)
    assert [part["text"].strip() for part in sent["content"]][1:] == ["what is this?"]
    assert len(sent["content"]) == 2
    assert history[-1] is query
    assert query["content"] == [{"type": "text", "text": "what is this?"}]


def test_a_resumed_run_keeps_the_last_message_of_the_user():
    one = ToolCall("c1", "fetch", "{}")
    history = [system("s"), user("old"), assistant("yes"), user("new"), assistant(None, [one]), tool_message(one, "r")]
    assert PinnedMessages.of(history).query == range(3, 4)
    assert PinnedMessages.of(history[:4]).query == range(3, 4)
    assert PinnedMessages.of([*history[:4], user("and"), user("more")]).query == range(3, 6)
    assert PinnedMessages.of(history[:1]).query == range(1, 1)
    assert PinnedMessages.of([]).query == range(0)


def test_only_what_is_new_is_counted():
    counted = []

    def measure(message):
        counted.append(message)
        return 1

    size = RunningSize(measure)
    history = [user("a"), user("b")]
    assert size.of(history) == 2
    history.append(user("c"))
    assert size.of(list(history)) == 3
    assert counted == history
    assert size.of([*history[:2], user("d")]) == 3, "another conversation is counted anew"
    assert size.of([]) == 0


def test_nothing_is_counted_before_something_was_refused(world):
    def never(message):
        raise AssertionError("counted")

    assert (
        loop_compacted(world, ScriptedModel(call("fetch", size=2000), call("fetch", size=2000), END), measure=never)[0]
        == "ready"
    )


def test_an_agent_shortens_what_its_model_refuses(world):
    script = [*[call("fetch", size=1_000 + number) for number in range(8)], END]
    agent = JsonAgent(fetch, model=Small(script, room=5_000), retries=0, limits=Limits(result_chars=100_000))
    events = world.stream(agent, "Fetch.")
    assert events[-1].result.answer == "ready"
    assert compacted(events)
