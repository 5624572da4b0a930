"""One stream of frames: from a live run, lines of a file or a journal, to each view."""

import asyncio
import io
import json
from contextlib import suppress

import pytest
from rich.console import Console

import agentkit
from agentkit import JsonAgent, JsonTool, LimitExceeded, Limits, Paused, Session
from agentkit.acp.editor_session import UpdateEncoder
from agentkit.extend import (
    CallClosed,
    CallOpened,
    LiveView,
    Remark,
    ReplyPiece,
    RequestClosed,
    RunClosed,
    RunOpened,
    ThoughtPiece,
    astream_frames,
    decode_frame,
    draw_frames,
    encode_frame,
    find_conversation,
    frames_of_journaled_run,
    render_result_data,
    result_of_frames,
    stream_frames,
)
from agentkit.journal import runs, show
from agentkit.testing import ScriptedModel, answer, call
from agentkit.web.encode import AguiEncoder


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(word: str) -> str:
    """Fail."""
    raise ValueError(f"no {word}")


def an_agent():
    inner = JsonAgent(add, model=ScriptedModel(call("add", a=2, b=3), answer("five")), description="Adds.")
    replies = (
        {**call("sums", query="2 and 3?"), "content": "I ask."},
        call("fail", word="luck"),
        answer("It is five."),
    )
    return JsonAgent(inner.as_tool("sums"), fail, model=ScriptedModel(*replies))


def live(tmp_path):
    return list(stream_frames(an_agent(), "How much?"))


def from_file(tmp_path):
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(json.dumps(encode_frame(frame)) + "\n" for frame in live(tmp_path)))
    return [decode_frame(json.loads(line)) for line in file.read_text().splitlines()]


def from_journal(tmp_path):
    session = Session.open("mine", tmp_path / "runs.db")
    an_agent().run("How much?", session=session)
    found = find_conversation("mine", tmp_path / "runs.db")
    assert found is not None
    return [frame for _, frame in frames_of_journaled_run(found.runs[0])]


SOURCES = [live, from_file, from_journal]


@pytest.fixture(params=SOURCES, ids=lambda source: source.__name__)
def frames(request, tmp_path):
    return request.param(tmp_path)


def test_the_terminal_draws_them(frames):
    view = LiveView(Console(file=io.StringIO(), width=200))
    for frame in frames:
        view.draw(frame)
    shown = view.console.file.getvalue()
    for text in ("model    I ask.", "query    [sums] 2 and 3?", "call     [sums] add(a=2, b=3)", "error    fail: "):
        assert text in shown, text
    assert "total    " in shown


def test_the_page_draws_them(frames):
    encoder = AguiEncoder("thread", "run")
    kinds = [event["type"] for frame in frames for event in encoder.encode(frame)]
    assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert kinds.count("TOOL_CALL_RESULT") == 3
    assert kinds.count("SUBAGENT_FINISHED") == 1


def test_an_editor_draws_them(frames):
    encoder = UpdateEncoder()
    updates = [update for frame in frames for update in encoder.encode(frame)]
    assert len(updates) > 6
    assert encoder.closed is not None
    assert encoder.closed.answer == "It is five."


def test_they_are_lines_of_json(frames):
    lines = [json.loads(json.dumps(encode_frame(frame, 1.5))) for frame in frames]
    assert [decode_frame(line) for line in lines] == frames
    assert {line["at"] for line in lines} == {1.5}


def test_they_make_a_result(frames):
    data = result_of_frames((number * 0.1, frame) for number, frame in enumerate(frames))
    lines = [(line.role, line.text) for line in render_result_data(data)]
    assert lines[0] == ("query", "How much?")
    assert ("call", 'sums(query="2 and 3?")') in lines
    assert ("answer", "It is five.") in lines
    assert data["messages"][-1]["role"] == "tool"
    (failed,) = [span for span in data["trace"]["spans"] if span.get("error")]
    assert failed["name"] == "fail"
    assert "It is five." in agentkit.extend.result_page(data)


def kinds_of(world, agent, **how):
    """Return the kinds of the frames of a run in a world, and what it raised."""
    kinds = []

    async def collect():
        async for frame in astream_frames(agent, "How much?", **how):
            kinds.append(type(frame).__name__)

    try:
        if world.name == "sync":
            kinds.extend(type(frame).__name__ for frame in stream_frames(agent, "How much?", **how))
        else:
            asyncio.run(collect())
    except Exception as error:
        return kinds, error
    return kinds, None


def test_a_run_is_a_stream_of_frames(world, tmp_path):
    events = []
    kinds, error = kinds_of(world, an_agent(), listeners=[events.append])
    assert error is None
    assert kinds == [type(frame).__name__ for frame in live(tmp_path)]
    assert kinds[-1] == "RunClosed"
    assert events, "other listeners get the events, too"


def test_the_last_frame_of_a_failed_run_is_its_end(world):
    tool = JsonTool(fail, on_error="raise")
    kinds, error = kinds_of(world, JsonAgent(tool, model=ScriptedModel(call("fail", word="luck"))))
    assert kinds[-1] == "RunClosed"
    assert isinstance(error, ValueError)


def wipe(path: str) -> str:
    """Wipe a folder."""
    return path


WIPE = JsonTool(wipe, effect="danger")
ASK_CLERK = call("clerk", query="2 and 3?")


def with_clerk(*replies, **settings):
    """A tool that is an agent with these replies, and the replies of the agent that asks it."""

    def make():
        return JsonAgent(add, WIPE, model=ScriptedModel(*replies), retries=0, **settings).as_tool("clerk", "Adds.")

    return make, [ASK_CLERK, answer("It is five.")]


@pytest.mark.parametrize(
    ("make", "replies", "ends"),
    [
        (lambda: add, [answer("It is five.")], [("", "answer", "")]),
        (lambda: JsonTool(fail, on_error="raise"), [call("fail", word="luck")], [("", "error", "ValueError")]),
        (lambda: add, [call("add", a=2, b=3)] * 3, [("", "limit", "LimitExceeded")]),
        (lambda: WIPE, [call("wipe", path="/")], [("", "paused", "Paused")]),
        (*with_clerk(answer("five")), [("call_1_1", "answer", ""), ("", "answer", "")]),
        (*with_clerk(call("add", a=2, b=3), "", max_steps=1), [("call_1_1", "error", ""), ("", "answer", "")]),
        (*with_clerk(call("wipe", path="/")), [("call_1_1", "paused", ""), ("", "paused", "Paused")]),
    ],
    ids=["answer", "error", "limit", "paused", "inner answer", "inner error", "inner pause"],
)
def test_the_end_of_a_stored_run_is_that_of_the_live_one(world, tmp_path, make, replies, ends):
    frames = []
    path = tmp_path / "runs.db"
    agent = JsonAgent(make(), model=ScriptedModel(*replies), journal=path, limits=Limits(steps=2), retries=0)
    with suppress(Paused, LimitExceeded, ValueError):
        world.run(agent, "How much?", listeners=[draw_frames(frames.append)])
    (run,) = [run for run in runs(path) if run.query == "How much?"]
    stored = [frame for _, frame in frames_of_journaled_run(show(run.id, store=path))]
    assert [(frame.agent, frame.outcome, frame.kind) for frame in stored if isinstance(frame, RunClosed)] == ends
    last = frames[-1]
    assert (last.outcome, last.kind, last.answer) == (stored[-1].outcome, stored[-1].kind, stored[-1].answer)
    assert last.kind == "Paused" or last.error == stored[-1].error


@pytest.mark.parametrize("is_called", [False, True])
def test_a_stored_run_that_waits_shows_the_agents_inside_its_calls_as_the_live_one_did(world, tmp_path, is_called):
    path = tmp_path / "runs.db"
    replies = [call("add", a=2, b=3), answer("five"), call("add", a=3, b=3), call("wipe", path="/")]
    clerk = JsonAgent(add, WIPE, model=ScriptedModel(*replies), description="Adds.", memory=False)

    def ask_twice(query: str) -> str:
        """Ask the clerk twice."""
        return f"{clerk(query)} {clerk('Again, and wipe.')}"

    asking = [call("clerk", query="2 and 3?"), call("clerk", query="Again, and wipe.")]
    if is_called:
        asking = [call("ask_twice", query="2 and 3?")]
    middle = JsonAgent(clerk.as_tool("clerk"), ask_twice, model=ScriptedModel(*asking), description="Asks.")
    agent = JsonAgent(middle.as_tool("desk"), model=ScriptedModel(call("desk", query="?")), journal=path)
    frames = []
    with pytest.raises(Paused) as pause:
        world.run(agent, "How much?", listeners=[draw_frames(frames.append)])
    run = show(pause.value.run_id, store=path)
    stored = [frame for _, frame in frames_of_journaled_run(run, pause.value.pending)]
    assert len(ends_of(frames)) > 5
    assert [end for end in ends_of(stored) if end in ends_of(frames)] == ends_of(frames)


def ends_of(frames):
    """Return the ids of the calls that began, and how runs ended, each with the path of its agent."""
    known = [frame for frame in frames if isinstance(frame, CallOpened | RunClosed)]
    return [(frame.agent, frame.id if isinstance(frame, CallOpened) else frame.outcome) for frame in known]


def test_a_call_that_failed_before_it_began_has_failed_in_the_stored_run_too(world, tmp_path):
    path = tmp_path / "runs.db"
    frames = []
    clerk = JsonAgent(add, model=ScriptedModel(answer("five")), description="Adds.")
    replies = (
        call("add", a="two"),
        call("subtract", a=2),
        call("transfer_to_clerk", reason="it adds"),
        answer("five"),
    )
    agent = JsonAgent(add, model=ScriptedModel(*replies), journal=path, handoffs={"clerk": clerk})
    world.run(agent, "How much?", listeners=[draw_frames(frames.append)])
    shown = show(runs(path)[0].id, store=path)
    failed = [frame.id for frame in frames if isinstance(frame, CallClosed) and frame.is_error]
    stored = [frame for _, frame in frames_of_journaled_run(shown)]
    assert failed == ["call_1_1", "call_2_1"]
    assert [frame.id for frame in stored if isinstance(frame, CallClosed) and frame.is_error] == failed
    assert [line.partition(":")[0] for line in str(shown).splitlines() if line.startswith("error")] == [
        "error    add",
        "error    subtract",
    ]


def test_a_text_that_is_no_answer_is_a_remark(world):
    model = ScriptedModel("Let me think.", answer("done"))
    frames = []
    world.run(JsonAgent(add, model=model), "How much?", listeners=[draw_frames(frames.append)])
    assert [frame.text for frame in frames if isinstance(frame, Remark)] == ["Let me think."]
    assert frames[-1].answer == "done"


@pytest.mark.parametrize("line", [{}, {"frame": "Nothing"}, {"frame": "CallOpened"}, {"frame": "Remark", "text": 3}])
def test_what_is_no_frame_is_refused(line):
    with pytest.raises(ValueError, match=r"unknown|CallOpened|Remark"):
        decode_frame(line)


def test_what_a_paused_run_waits_for_is_read_back(tmp_path):
    def send(to: str) -> str:
        """Send."""
        return to

    tool = JsonTool(send, effect="danger")
    frames = []
    with pytest.raises(Paused):
        JsonAgent(tool, model=ScriptedModel(call("send", to="ann"))).run("?", listeners=[draw_frames(frames.append)])
    assert frames[-1].pending[0].is_approval
    assert [decode_frame(json.loads(json.dumps(encode_frame(frame)))) for frame in frames] == frames


def test_a_thought_on_the_page_is_one_text_while_another_agent_writes():
    encoder = AguiEncoder("thread", "run")
    frames = [
        RunOpened("", "1", "?", "m"),
        ThoughtPiece("", "I "),
        ReplyPiece("sums", "words"),
        ThoughtPiece("", "see"),
    ]
    kinds = [event["type"] for frame in frames for event in encoder.encode(frame)]
    assert kinds.count("REASONING_START") == 1


def test_the_thoughts_of_two_agents_that_think_side_by_side_are_two_texts_on_the_page():
    encoder = AguiEncoder("thread", "run")
    frames = [
        RunOpened("", "1", "?", "m"),
        ThoughtPiece("sums", "One "),
        ThoughtPiece("words", "A "),
        ThoughtPiece("sums", "two"),
        RequestClosed("words", 1),
        ThoughtPiece("sums", " three"),
        RunClosed("", "answer"),
    ]
    events = [event for frame in frames for event in encoder.encode(frame)]
    texts: dict = {}
    for event in events:
        if event["type"] == "REASONING_MESSAGE_CONTENT":
            key = event["messageId"], event["subagentRunId"]
            texts[key] = texts.get(key, "") + event["delta"]
    assert {agent: text for (_, agent), text in texts.items()} == {"sums": "One two three", "words": "A "}
    assert len(texts) == 2
    kinds = [event["type"] for event in events]
    assert [kinds.count(kind) for kind in ("REASONING_START", "REASONING_MESSAGE_END", "REASONING_END")] == [2, 2, 2]
