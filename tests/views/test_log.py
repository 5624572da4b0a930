"""What people see of a run."""

import asyncio
import io
import subprocess
import sys
from dataclasses import dataclass

import pytest
from loguru import logger

import agentkit
from agentkit import DefinitionError, ExceptionInfo, JsonAgent, ModelError, ToolCall, Usage
from agentkit.core.context import Progress
from agentkit.core.flow import Event, WarningEvent
from agentkit.engine.result import HandedOver, RunStarted, SubRun
from agentkit.policies.answer_checks import AnswerDoubted
from agentkit.policies.approval import ApprovalAsked, ApprovalGiven
from agentkit.policies.compaction import Compacted
from agentkit.policies.final_request import FinalRequest
from agentkit.policies.incomplete_replies import ReplyDropped
from agentkit.policies.limits import PriceUnknown
from agentkit.policies.loop_detection import ToolsWithdrawn
from agentkit.policies.rate_limit import Throttled
from agentkit.policies.retries import FallenBack
from agentkit.policies.text_tool_mode import TextCallFound
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.execution.call import BoundCall, ToolRetried
from agentkit.tools.execution.call_tools import ToolAbandoned
from agentkit.tools.execution.turn import ToolBlockedLoop
from agentkit.views.history import render_messages
from agentkit.views.lines import Line, format_call, format_usage, render_event
from agentkit.views.log import make_printer


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def shout(text: str) -> str:
    """Shouts."""
    if text == "fail":
        raise ValueError("<red>{not markup}</red>")
    return f"<b>{text}</b> {{braces}} <level>"


SUM = [
    {"tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]},
    {"tool_calls": [{"name": "final_answer", "arguments": {"text": "5"}}]},
]
SCRIPT = [
    {"content": "Let me <see>.", "tool_calls": [{"name": "shout", "arguments": {"text": "</red> <x>"}}, {"name": "shout", "arguments": {"text": "fail"}}]},
    ModelError("busy", transient=True, retry_after=0),
    {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done <i>"}}]},
]  # fmt: skip


@pytest.fixture
def shown():
    out = io.StringIO()
    agentkit.log.show(out, colour=False)
    yield out
    agentkit.log.hide()


@pytest.fixture
def logged():
    """What loguru is given, as "LEVEL message"."""
    said: list[str] = []
    sink = logger.add(lambda line: said.append(str(line)), format="{level} {message}", level="DEBUG", diagnose=False)
    logger.enable("agentkit")
    yield said
    logger.disable("agentkit")
    logger.remove(sink)


class Screen(io.StringIO):
    """A terminal, as far as one can tell."""

    def isatty(self) -> bool:
        return True


def test_show_prints_the_run_for_people(shown):
    JsonAgent(shout, model=ScriptedModel(SCRIPT))("What <now>?")
    told = shown.getvalue().splitlines()
    told[4:6] = sorted(told[4:6], reverse=True)  # the calls of a turn end in any order
    assert told == [
        "query    What <now>?",
        "model    Let me <see>.",
        'call     shout(text="</red> <x>")',
        'call     shout(text="fail")',
        "result   shout: <b></red> <x></b> {braces} <level>",
        "error    shout: ValueError: <red>{not markup}</red>",
        "warning  busy; asking again in 0.0 s",
        "answer   done <i>",
        "total    2 requests",
    ]


async def _arun(agent, query):
    return await agent.arun(query)


async def _astream(agent, query):
    async for _ in agent.astream(query):
        pass


@pytest.mark.parametrize(
    "run",
    [
        lambda agent, query: list(agent.stream(query)),
        lambda agent, query: asyncio.run(_arun(agent, query)),
        lambda agent, query: asyncio.run(_astream(agent, query)),
    ],
)
def test_it_is_the_same_however_the_run_is_driven(shown, run):
    JsonAgent(add, model=ScriptedModel(SUM))("?")
    once = shown.getvalue()
    run(JsonAgent(add, model=ScriptedModel(SUM)), "?")
    assert shown.getvalue() == once * 2
    assert "call     add(a=2, b=3)" in once


def test_colour_is_for_terminals_and_goes_by_the_role(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Screen()
    agentkit.log.show(out)
    try:
        JsonAgent(shout, model=ScriptedModel(SCRIPT))("?")
    finally:
        agentkit.log.hide()
    text = out.getvalue()
    assert "\033[1mquery    \033[0m?" in text
    assert "\033[34mcall     \033[0mshout(" in text
    assert "\033[33mwarning  busy; asking again in 0.0 s\033[0m" in text
    assert "\033[1;32manswer   \033[0mdone <i>" in text


def test_no_colour_where_it_is_not_wanted(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert not agentkit.log.make_printer(Screen()).colour
    assert agentkit.log.make_printer(Screen(), colour=True).colour
    monkeypatch.setenv("NO_COLOR", "")
    assert agentkit.log.make_printer(Screen()).colour
    assert not agentkit.log.make_printer(io.StringIO()).colour


def test_long_values_are_cut_with_a_hint_unless_all_is_wanted():
    script = [{"tool_calls": [{"name": "final_answer", "arguments": {"text": "x" * 5000}}]}]
    for longest, length, hint in ((None, 5000, False), (200, 200, True), (1000, 1000, True)):
        out = io.StringIO()
        agentkit.log.show(out, longest=longest)
        try:
            JsonAgent(shout, model=ScriptedModel(script))("?")
        finally:
            agentkit.log.hide()
        assert ("x" * length in out.getvalue(), "x" * (length + 1) in out.getvalue()) == (True, False)
        assert (f"... ({5000 - length:,} more characters)" in out.getvalue()) == hint


def test_rows_stand_under_each_other_and_fit_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    out = Screen()
    agentkit.log.make_printer(out, colour=False).write(
        Line("INFO", "result", f"first\n    second {'word ' * 30}\n\nlast")
    )
    rows = out.getvalue().splitlines()
    assert rows[:2] == ["result   first", f"             second {('word ' * 8).strip()}"]
    assert rows[-2:] == ["", "         last"]
    assert all(len(row) <= 60 and row[:9] in ("result   ", " " * 9, "") for row in rows)


def test_nothing_that_a_model_or_a_tool_writes_moves_the_cursor(shown):
    text = "a\033[2Jb\a\tc\r\x9bd\u202ee"
    JsonAgent(
        shout,
        model=ScriptedModel({"content": text, "tool_calls": [{"name": "final_answer", "arguments": {"text": text}}]}),
    )("?")
    assert shown.getvalue().count(r"a\x1b[2Jb\x07") == 2
    assert not set("\033\a\r\x9b\u202e") & set(shown.getvalue())


def test_a_traceback_in_the_log_moves_no_cursor_either(logged):
    def leak(text: str) -> str:
        """Leaks."""
        raise ValueError(f"{text}\033[2J\x9b\u202e")

    JsonAgent(leak, model=ScriptedModel(call("leak", text="a\033]0;b"), answer("done")))("?")
    text = "".join(logged)
    assert r"a\x1b]0;b\x1b[2J\x9b\u202e" in text
    assert "the tool raised\nTraceback" in text
    assert not set("\033\x9b\u202e") & set(text)


def test_secrets_are_masked_also_where_a_long_value_is_cut(shown, logged, monkeypatch):
    monkeypatch.setenv("MY_SERVICE_TOKEN", "tr0ub4dor-and-3-and-4")
    text = "tr0ub4dor-and-3-and-4 " + "x" * 970 + " tr0ub4dor-and-3-and-4"
    JsonAgent(shout, model=ScriptedModel({"tool_calls": [{"name": "shout", "arguments": {"text": text}}]}, SUM[-1]))(
        text
    )
    for place in (shown.getvalue(), "".join(logged)):
        assert "***" in place
        assert "tr0ub" not in place


def test_the_log_is_silent_until_it_is_enabled():
    said: list[str] = []
    sink = logger.add(lambda line: said.append(str(line)), level="DEBUG", diagnose=False)
    try:
        JsonAgent(shout, model=ScriptedModel(SCRIPT))("quiet")
    finally:
        logger.remove(sink)
    assert said == []


def test_the_levels_of_the_log(logged):
    JsonAgent(shout, model=ScriptedModel(SCRIPT))("loud")
    text = "".join(logged)
    assert "INFO query    loud" in text
    assert "INFO result   shout: <b></red> <x></b> {braces} <level>" in text
    assert "WARNING error    shout: ValueError: <red>{not markup}</red>" in text
    assert "WARNING warning  busy" in text
    assert "DEBUG request  to scripted: 2 messages, 2 tools; the last message: {" in text
    assert "DEBUG reply    from scripted (1 request, no finish reason): {" in text
    assert "DEBUG the tool raised\nTraceback" in text
    assert {line.split()[0] for line in logged} == {"DEBUG", "INFO", "WARNING"}


def test_what_is_logged_of_a_run_forges_no_line(logged):
    JsonAgent(add, model=ScriptedModel(SUM))("one\nINFO query    forged")
    assert "INFO query    one ⏎ INFO query    forged\n" in logged
    assert not any(line.startswith("INFO query    forged") for line in logged)


@pytest.mark.parametrize(("level", "first"), [("DEBUG", "query"), ("INFO", "query"), ("WARNING", "error")])
def test_show_prints_from_a_level_on(level, first):
    out = io.StringIO()
    agentkit.log.show(out, level=level)
    try:
        JsonAgent(shout, model=ScriptedModel(SCRIPT))("?")
    finally:
        agentkit.log.hide()
    roles = [row.split()[0] for row in out.getvalue().splitlines()]
    assert roles[0] == first
    assert ("request" in roles) == (level == "DEBUG")
    with pytest.raises(DefinitionError, match="level must be one of DEBUG, INFO, WARNING, not 'LOUD'"):
        agentkit.log.show(out, level="LOUD")


def test_importing_and_running_adds_and_removes_no_sink():
    code = (
        "from loguru import logger; before = set(logger._core.handlers)\n"
        "import agentkit\nfrom agentkit import JsonAgent\nfrom agentkit.testing import ScriptedModel, answer, call\n"
        "def f() -> None:\n    'Does.'\n"
        "JsonAgent(f, model=ScriptedModel('a', 'b'))('?')\n"
        "agentkit.log.show()\n"
        "assert set(logger._core.handlers) == before"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr == ""


def test_without_a_model_the_log_says_who_answers(shown):
    JsonAgent(add)("What is the weather?")
    assert shown.getvalue().count("note     no model is named") == 1


CALL = ToolCall("c", "send", '{"to": "me"}')
INFO = ExceptionInfo("Busy", "no time")


@pytest.mark.parametrize(
    ("event", "level", "text"),
    [
        (RunStarted("", "m"), "INFO", "continuing the stopped run"),
        (ApprovalAsked(CALL, "it is dangerous"), "WARNING", "send waits for a decision: it is dangerous"),
        (ApprovalGiven(CALL, True), "INFO", "send: allowed"),
        (ApprovalGiven(CALL, False), "INFO", "send: refused"),
        (ApprovalGiven(CALL, "not now"), "INFO", "send: refused: not now"),
        (ApprovalGiven(CALL, {"to": "you"}), "INFO", 'send: allowed with other arguments: {"to": "you"}'),
        (HandedOver("billing", "money"), "INFO", "handed over to billing: money"),
        (Progress(CALL, {"done": 3}), "INFO", 'send: {"done":3}'),
        (Progress(None, "half"), "INFO", "a tool: half"),
        (FallenBack(ModelError("down"), "other"), "WARNING", "down; continuing with other"),
        (Throttled("m"), "INFO", "waiting until m may be asked"),
        (Compacted("m", 3, 2, (100, 50)), "WARNING", "too long for m: 3 messages left out, 2 results shrunk"),
        (PriceUnknown("m"), "WARNING", "price of m"),
        (ReplyDropped("empty"), "WARNING", "the reply was empty; asking again"),
        (ToolRetried(CALL, INFO, 1), "WARNING", "send: Busy: no time; retrying"),
        (FinalRequest("max_steps"), "WARNING", "(max_steps); asking for the final answer"),
        (ToolsWithdrawn(("find", "search")), "WARNING", "find, search: withdrawn for the rest of the run"),
        (TextCallFound((CALL,)), "WARNING", "written as text, run as a call: send"),
        (AnswerDoubted("no source"), "WARNING", "although a check failed: no source"),
        (ToolAbandoned(BoundCall.impossible(CALL, INFO), 2), "WARNING", "send still runs after its timeout; 2 such threads"),
        (ToolBlockedLoop(BoundCall.impossible(CALL, INFO), 2.5), "WARNING", "send blocked the event loop for 2.5 seconds"),
    ],
)  # fmt: skip
def test_each_event_has_its_line(event, level, text):
    (line,) = render_event(event)
    assert line.level == level
    assert text in line.text
    if not isinstance(event, Progress) and event != RunStarted("", "m"):
        assert event.notice == line.text, "what a report and a live view show is the same"


@dataclass(frozen=True)
class Sampled(WarningEvent):
    """What somebody's own policy tells."""

    @property
    def notice(self) -> str:
        return "asked\ntwice"


def test_the_events_of_ones_own_policies_are_shown_by_what_they_say_of_themselves():
    assert list(render_event(Sampled())) == [Line("WARNING", "warning", "asked twice")]
    assert list(render_event(SubRun("inner", CALL, Sampled()))) == [
        Line("WARNING", "warning", "asked twice", agents=("inner",))
    ]
    assert (SubRun("inner", CALL, Sampled()).notice, SubRun("inner", CALL, Event()).notice) == (
        "inner: asked\ntwice",
        "",
    )
    assert SubRun("inner", CALL, Sampled()).level == "WARNING"


def test_the_events_of_an_agent_inside_a_tool_are_shown_once(shown):
    inner = JsonAgent(add, model=ScriptedModel(SUM), description="Adds.")
    outer = ScriptedModel({"tool_calls": [{"name": "inner", "arguments": {"query": "2 and 3?"}}]}, SUM[-1])
    JsonAgent(inner.as_tool("inner"), model=outer)("?")
    assert shown.getvalue().count("add(a=2, b=3)") == 1


@pytest.mark.parametrize("how", ["run", "arun"])
def test_the_lines_of_agents_inside_tools_bear_their_names(shown, logged, how):
    def asking(name, text="2 and 3?"):
        return ScriptedModel({"tool_calls": [{"name": name, "arguments": {"query": text}}]}, SUM[-1])

    deepest = JsonAgent(add, model=ScriptedModel(SUM), description="Adds.")
    middle = JsonAgent(deepest.as_tool("deep"), model=asking("deep"), description="Asks.")
    agent = JsonAgent(middle.as_tool("middle"), model=asking("middle", "All of it?"))
    agent.run("?") if how == "run" else asyncio.run(agent.arun("?"))
    for said in ("query    ?", "query    [middle] All of it?", "call     [middle] [deep] add(a=2, b=3)", "answer   5"):
        assert f"{said}\n" in shown.getvalue()
        assert f"INFO {said}\n" in logged
    JsonAgent(add, model=ScriptedModel(SUM))("Later?")
    assert shown.getvalue().endswith("answer   5\ntotal    2 requests\n"), "the names are gone with the agents"


@pytest.mark.parametrize("raw", ['{"a": 2, "b', "2 and 3", "[2, 3]"])
@pytest.mark.parametrize("name", ["add", "no_such_tool"])
def test_a_call_that_cannot_be_read_is_shown_as_it_was_written(shown, name, raw):
    JsonAgent(add, model=ScriptedModel({"tool_calls": [{"name": name, "arguments": raw}]}, SUM[-1]))("?")
    assert f"call     {name}({raw})\n" in shown.getvalue()


def test_a_line_is_written_at_once():
    class Pieces(io.StringIO):
        def write(self, text):
            pieces.append(text)
            return super().write(text)

    pieces: list[str] = []
    make_printer(Pieces()).write(Line("INFO", "result", "two\nrows"))
    assert pieces == ["result   two\n         rows\n"]


def test_where_an_event_comes_from_is_said():
    (line,) = render_event(SubRun("outer", CALL, SubRun("inner", CALL, RunStarted("query", "m"))))
    assert line.format() == "[outer] [inner] query"


def test_a_kept_conversation_has_the_lines_of_its_run(shown):
    script = [{**SUM[0], "content": "I add."}, SUM[1]]
    result = JsonAgent(add, model=ScriptedModel(script)).run("How much?")
    said, ran = [*render_messages(result.messages)], shown.getvalue().splitlines()
    assert (said[0].role, [line.role for line in said[1:]]) == (
        "system",
        ["query", "model", "call", "result", "answer"],
    )
    assert [f"{line.role:<9}{line.format()}" for line in said[1:]] == ran[:-1]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ('{"answer": {"item": "tea"}}', ("answer", '{"item":"tea"}')),
        ('{"text": "two\\nlines"}', ("answer", "two\nlines")),
        ('{"a": 1, "b": 2}', ("call", "final_answer(a=1, b=2)")),
        ('{"text": "cu', ("call", 'final_answer({"text": "cu)')),
    ],
)
def test_the_answer_of_a_kept_conversation_is_shown_as_such(arguments, line):
    call = {"id": "1", "type": "function", "function": {"name": "final_answer", "arguments": arguments}}
    refused = {"role": "tool", "tool_call_id": "1", "name": "final_answer", "content": "no"}
    (first, second) = render_messages([{"role": "assistant", "content": None, "tool_calls": [call]}, refused])
    assert (first.role, first.text) == line
    assert (second.role, second.text) == ("result", "final_answer: no")


def test_calls_are_written_as_one_writes_them():
    assert format_call(ToolCall("1", "f", '{"a": 2, "b": "x", "c": null}')) == 'f(a=2, b="x", c=null)'
    assert format_call(ToolCall("1", "f", "{}")) == "f()"
    assert format_call(ToolCall("1", "f", "[1")) == "f([1)"


@pytest.mark.parametrize(
    ("usage", "seconds", "text"),
    [
        (Usage(), None, ""),
        (Usage(1), 0.04, "1 request, 0.0 s"),
        (Usage(2, 1000, 200, cost=0.0123), 3.21, "2 requests, 1,200 tokens, $0.0123, 3.2 s"),
        (Usage(2, 1000, 200, cost=None), None, "2 requests, 1,200 tokens, price unknown"),
    ],
)
def test_figures_tell_what_there_is_to_tell(usage, seconds, text):
    assert format_usage(usage, seconds) == text


PROGRAM = """
import sys
{before}
import agentkit
assert "loguru" not in sys.modules or {before!r}
{after}
from loguru import logger
logger.remove()
logger.add(sys.stdout, format="{{message}}")
{later}
from agentkit.testing import ScriptedModel, answer, call
answer = {{"tool_calls": [{{"name": "final_answer", "arguments": {{"text": "3"}}}}]}}
agentkit.JsonAgent(len, model=ScriptedModel([answer]))("What is the length of 'tea'?")
"""
ENABLE = "from loguru import logger; logger.enable('agentkit')"


@pytest.mark.parametrize(
    ("when", "is_heard"),
    [({}, False), ({"before": ENABLE}, True), ({"after": ENABLE}, True), ({"later": ENABLE}, True)],
)
def test_the_log_is_silent_until_it_is_asked_for_whenever_that_is(when, is_heard):
    program = PROGRAM.format(**{"before": "", "after": "", "later": "", **when})
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert bool(done.stdout) is is_heard
