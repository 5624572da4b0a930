"""The live view, the plain one, and records: what is shown while a run works."""

import asyncio
import io
import json

import pytest
from rich.console import Console

from agentkit import JsonAgent, ModelError, tool
from agentkit.core.ask_person import Person
from agentkit.core.masking import MAX_SECRET_CHARS, MaskedStream
from agentkit.core.messages import ToolCall, Usage
from agentkit.engine.model import ModelAsked, ModelReplied, Reply, Request, TextDelta, ToolCallDelta
from agentkit.engine.result import RunStarted, SubRun
from agentkit.extend import draw_frames, stream_frames
from agentkit.policies.retries import Retrying
from agentkit.testing import ScriptedModel
from agentkit.tools.execution.call_tools import ToolStarted
from agentkit.tools.registry import ToolRegistry
from agentkit.views.json_lines import EventEncoder, encode_event
from agentkit.views.log import PlainView, SilentView
from agentkit.views.terminal import LiveView

HIDE_CURSOR = "\x1b[?25l"
SHOW_CURSOR = "\x1b[?25h"
KEY = "sk-abcdefghij0123456789ABCDEFGH"


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool(effect="danger")
def send(to: str) -> str:
    """Sends."""
    return f"sent to {to}"


SUM = {"tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}
DONE = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "It is five."}}]}


def live(width=60, **more):
    console = Console(file=io.StringIO(), width=width, height=24, force_terminal=True, color_system=None)
    return LiveView(console, **more)


def text_of(view):
    return view.console.file.getvalue()


def now(view):
    """What the view shows under its lines at this moment."""
    with view.console.capture() as capture:
        view.console.print(view.render())
    return capture.get()


def is_moving(view):
    """Whether the view draws over its lines: the terminal's cursor is hidden meanwhile."""
    return text_of(view).rfind(HIDE_CURSOR) > text_of(view).rfind(SHOW_CURSOR)


def asked(model="m"):
    return ModelAsked(model, Request([{"role": "user", "content": "?"}], ToolRegistry([add])))


def events_of(agent, how):
    if how == "stream":
        return list(agent.stream("How much?"))

    async def collected():
        return [event async for event in agent.astream("How much?")]

    return asyncio.run(collected())


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_the_animation_has_letters_that_the_terminal_can_show(encoding):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    view = LiveView(Console(file=file, width=60, force_terminal=True, color_system=None))
    draw_frames(view.draw)(asked())
    assert now(view).isascii() == (encoding == "ascii")


def test_the_live_view_shows_calls_results_and_figures(world):
    view = live()
    with view:
        agent = JsonAgent(add, model=ScriptedModel({**SUM, "content": "I add."}, DONE))
        world.run(agent, "How much?", listeners=[draw_frames(view.draw)])
    for text in ("model    I add.", "call     add(a=2, b=3)", "result   add: 5", "total    2 requests"):
        assert text in text_of(view)
    assert "It is five." not in text_of(view).rpartition("total")[2], "the answer is for the caller"


def test_the_live_view_shows_what_is_in_progress():
    view = live()
    listen = draw_frames(view.draw)
    listen(asked("groq/llama"))
    listen(TextDelta("Let me "))
    listen(TextDelta("see. "))
    listen(ToolCallDelta(0, "add", '{"a": 2, '))
    assert "Let me see." in now(view)
    assert 'add {"a": 2, ' in now(view)
    assert "groq/llama  0 s" in now(view)
    listen(Retrying(ModelError("busy"), 1.0))
    assert "Let me see." not in now(view), "what was streamed is withdrawn"
    listen(ModelReplied(Reply({"role": "assistant", "content": "x"}, Usage(1, 1000, 200, cost=0.5))))
    listen(asked())
    assert "1 request, 1,200 tokens, $0.5000" in now(view)


def test_a_streamed_text_has_no_secret_and_fits_into_the_terminal():
    view = live(40)
    listen = draw_frames(view.draw)
    listen(asked())
    for piece in ("word " * 400, "the key ", KEY[:10], KEY[10:20], KEY[20:], " is mine ", "\033[2J "):
        listen(TextDelta(piece))
        assert "sk-" not in now(view)
        assert now(view).count("\n") <= 12
    assert "the key *** is mine" in " ".join(now(view).split())
    assert "\033[2J" not in now(view)


def test_an_agent_inside_a_tool_is_shown_with_its_name():
    inner = JsonAgent(add, model=ScriptedModel(SUM, DONE), description="Adds.")
    outer = {"tool_calls": [{"name": "sums", "arguments": {"query": "2 and 3?"}}]}
    view = live()
    with view:
        for frame in stream_frames(JsonAgent(inner.as_tool("sums"), model=ScriptedModel(outer, DONE)), "?"):
            view.draw(frame)
        left = now(view)
    for text in (
        "query    [sums] 2 and 3?",
        "call     [sums] add(a=2, b=3)",
        "answer   [sums] It is five.",
        "4 requests",
    ):
        assert text in text_of(view)
    assert "scripted" not in left, "no reply is in progress"
    assert "add" not in left, "no call is in progress"


def test_an_inner_reply_is_shown_beside_the_outer_one():
    view = live()
    listen = draw_frames(view.draw)
    call = ToolCall("c", "sums", "{}")
    listen(SubRun("sums", call, asked("inner-model")))
    listen(SubRun("sums", call, TextDelta("inner words ")))
    assert "inner words" in now(view)
    assert "inner-model" in now(view)
    listen(SubRun("sums", call, ModelReplied(Reply({"role": "assistant", "content": "x"}, Usage(1)))))
    assert "inner-model" not in now(view)


def test_more_calls_than_fit_are_counted():
    agent = JsonAgent(add, model=ScriptedModel({"tool_calls": [SUM["tool_calls"][0]] * 30}, DONE))
    view = live()
    most = 0
    for frame in stream_frames(agent, "?"):
        view.draw(frame)
        most = max(most, now(view).count("\n"))
    assert most <= 10


@pytest.mark.parametrize("nested", [False, True])
def test_the_view_stands_still_while_a_person_is_asked(nested):
    moving = []

    def read(prompt):
        moving.append(is_moving(view))
        assert "wants to call send" in prompt
        return "y\n"

    view = live(ask=read)
    call = {"tool_calls": [{"name": "send", "arguments": {"to": "ann"}}]}
    agent = JsonAgent(
        send, model=ScriptedModel(call, DONE), description="Sends.", approve=None if nested else Person(view.read)
    )
    if nested:
        outer = ScriptedModel({"tool_calls": [{"name": "post", "arguments": {"query": "Send."}}]}, DONE)
        agent = JsonAgent(agent.as_tool("post"), model=outer, approve=Person(view.read))
    with view:
        for frame in stream_frames(agent, "Send it."):
            view.draw(frame)
        assert is_moving(view)
    assert moving == [False]
    assert not is_moving(view)
    assert "send: sent to ann" in text_of(view)


def test_the_plain_view_writes_lines_and_silence_none(capsys):
    for view, lines in ((PlainView(), 4), (SilentView(), 0)):
        with view:
            for frame in stream_frames(JsonAgent(add, model=ScriptedModel(SUM, DONE)), "How much?"):
                view.draw(frame)
        shown = capsys.readouterr()
        assert shown.out == ""
        assert len(shown.err.splitlines()) == lines
        with pytest.raises(EOFError):
            view.read("Allow it?")


class TestPieces:
    @pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
    def test_no_part_of_a_secret_is_shown(self, size):
        text = f"Here: {KEY}, \n-----BEGIN RSA PRIVATE KEY-----\n{'QUJD' * 16}\n{'QUJD' * 3}\n-----END RSA PRIVATE KEY-----\nend {KEY}"
        pieces = MaskedStream()
        shown = ""
        for start in range(0, len(text), size):
            shown += pieces.feed(text[start : start + size])
            assert "sk-" not in shown
            assert "QUJD" not in shown
        shown += pieces.flush()
        assert shown.startswith("Here: ***, \n-----BEGIN RSA PRIVATE KEY-----***")
        assert shown.endswith("-----END RSA PRIVATE KEY-----\nend ***")

    def test_a_text_without_spaces_is_shown_before_its_end(self):
        pieces = MaskedStream()
        text = ("x" * 999 + "/") * 20
        shown = "".join(pieces.feed(text[start : start + 100]) for start in range(0, len(text), 100))
        assert len(shown) >= len(text) - MAX_SECRET_CHARS
        assert shown + pieces.flush() == text

    def test_words_of_other_scripts_are_not_held_back(self):
        assert MaskedStream().feed("東京の天気は晴れです") == "東京の天気は晴れです"


class TestRecords:
    @pytest.mark.parametrize("how", ["stream", "astream"])
    def test_each_event_is_json_and_the_pieces_make_the_text(self, how):
        agent = JsonAgent(add, model=ScriptedModel({**SUM, "content": "Let me see what it is."}, DONE))
        recorder = EventEncoder()
        entries = [entry for event in events_of(agent, how) for entry in recorder.encode(event)]
        json.dumps(entries)
        names = [entry["event"] for entry in entries]
        assert (names[0], names[-1]) == ("RunStarted", "RunFinished")
        text = "".join(entry["text"] for entry in entries if entry["event"] == "TextDelta")
        assert text == "Let me see what it is."
        answer = "".join(entry["added"] for entry in entries if entry["event"] == "AnswerForming")
        assert answer == "It is five."
        assert names.index("TextDelta") < names.index("ModelReplied")

    def test_a_secret_in_pieces_is_masked_also_of_an_agent_inside(self):
        call = ToolCall("c", "sums", "{}")
        recorder = EventEncoder()
        entries = []
        for wrap in (lambda event: event, lambda event: SubRun("sums", call, event)):
            for event in (
                asked(),
                TextDelta("key "),
                TextDelta(KEY[:12]),
                TextDelta(KEY[12:]),
                ModelReplied(Reply({"role": "assistant", "content": KEY})),
            ):
                entries += recorder.encode(wrap(event))
        text = json.dumps(entries)
        assert "sk-" not in text
        assert KEY[12:] not in text
        assert text.count("***") == 4

    def test_an_agent_whose_call_runs_again_begins_with_no_text(self):
        recorder = EventEncoder()
        replied = ModelReplied(Reply({"role": "assistant", "content": "whole"}))
        inner = (RunStarted("a", "m"), TextDelta(KEY[:12]), RunStarted("a", "m"), TextDelta("whole"), replied)
        entries = [entry for event in inner for entry in recorder.encode(SubRun("s", ToolCall("c", "s", "{}"), event))]
        pieces = [entry["inner"]["text"] for entry in entries if entry["inner"]["event"] == "TextDelta"]
        assert "".join(pieces) == "whole"

    def test_a_withdrawn_text_is_not_recorded(self):
        recorder = EventEncoder()
        entries = [
            entry
            for event in (asked(), TextDelta("half"), asked(), TextDelta("whole"))
            for entry in recorder.encode(event)
        ]
        entries += recorder.encode(ModelReplied(Reply({"role": "assistant", "content": "whole"})))
        assert [entry["text"] for entry in entries if entry["event"] == "TextDelta"] == ["whole"]

    def test_arguments_that_are_not_an_object_are_recorded_as_written(self):
        bound = ToolRegistry([add]).bind(ToolCall("c", "add", '{"a": 2'))
        assert encode_event(ToolStarted(bound))["call"]["raw"] == '{"a": 2'
        assert "raw" not in encode_event(ToolStarted(ToolRegistry([add]).bind(ToolCall("c", "add", "{}"))))["call"]

    def test_notices_are_recorded(self):
        assert encode_event(Retrying(ModelError("busy"), 1.0))["notice"] == "busy; asking again in 1.0 s"
