"""What people see of a run."""

import io
import subprocess
import sys

import pytest
from loguru import logger

import agentkit
from agentkit import ExceptionInfo, JsonAgent, ModelError, ToolCall
from agentkit.calls import BoundCall, ToolRetried
from agentkit.context import Progress
from agentkit.listeners.log import lines
from agentkit.policies.approve import ApprovalAsked, ApprovalGiven
from agentkit.policies.compact import Compacted
from agentkit.policies.ends import ReplyDropped
from agentkit.policies.fallback import FallenBack
from agentkit.policies.prices import PriceUnknown
from agentkit.policies.throttle import Throttled
from agentkit.run import HandedOver, RunStarted, SubRun
from agentkit.running import ToolAbandoned
from agentkit.testing import ScriptedModel


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def shout(text: str) -> str:
    """Shouts."""
    if text == "fail":
        raise ValueError("<red>{not markup}</red>")
    return f"<b>{text}</b> {{braces}} <level>"


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


def test_show_prints_the_run_for_people(shown):
    JsonAgent(shout, model=ScriptedModel(SCRIPT))("What <now>?")
    text = shown.getvalue()
    order = [
        "🖋️ Query: What <now>?",
        "[SELF]",
        "📝 Content: Let me <see>.",
        "⚙️ Tool: shout",
        '⌨️ Arguments: {"text": "</red> <x>"}',
        "✅ shout: <b></red> <x></b> {braces} <level>",
        "🔁 busy; asking again in 0.0 s",
        "📌 Final answer: done <i>",
    ]
    places = [text.index(line) for line in order]
    assert places == sorted(places)
    assert "❌ shout: ValueError: <red>{not markup}</red>" in text
    assert "\033" not in text


def test_colour_is_for_terminals():
    out = io.StringIO()
    agentkit.log.show(out, colour=True)
    try:
        JsonAgent(shout, model=ScriptedModel(SCRIPT))("?")
    finally:
        agentkit.log.hide()
    assert "\033[7m[SELF]\033[0m" in out.getvalue()


def test_long_values_are_cut(shown):
    JsonAgent(
        shout, model=ScriptedModel([{"tool_calls": [{"name": "final_answer", "arguments": {"text": "x" * 5000}}]}])
    )("?")
    assert len(shown.getvalue()) < 2500
    assert "more characters" in shown.getvalue()


def test_the_log_is_silent_until_it_is_enabled():
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line)), format="{level} {message}", level="DEBUG", diagnose=False)
    try:
        JsonAgent(shout, model=ScriptedModel(SCRIPT))("quiet")
        assert lines == []
        logger.enable("agentkit")
        JsonAgent(shout, model=ScriptedModel(SCRIPT))("loud")
    finally:
        logger.disable("agentkit")
        logger.remove(sink)
    text = "".join(lines)
    assert "INFO 🖋️ Query: loud" in text
    assert "<b></red> <x></b> {braces} <level>" in text
    assert "WARNING 🔁 busy" in text
    assert "the tool raised" in text, "the traceback is for the log only"


def test_importing_and_running_adds_and_removes_no_sink():
    code = (
        "from loguru import logger; before = set(logger._core.handlers)\n"
        "import agentkit\nfrom agentkit import JsonAgent\nfrom agentkit.testing import ScriptedModel\n"
        "def f() -> None:\n    'Does.'\n"
        "JsonAgent(f, model=ScriptedModel('a', 'b'))('?')\n"
        "agentkit.log.show()\n"
        "assert set(logger._core.handlers) == before"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr == ""


def test_without_a_model_the_log_says_who_answers(shown):
    JsonAgent(add)("What is the weather?")
    assert shown.getvalue().count("offline model") == 1


CALL = ToolCall("c", "send", '{"to": "me"}')
INFO = ExceptionInfo("Busy", "no time")


@pytest.mark.parametrize(
    ("event", "level", "text"),
    [
        (RunStarted("", "m"), "INFO", "going on"),
        (ApprovalAsked(CALL, "it is dangerous"), "WARNING", "send waits for a decision: it is dangerous"),
        (ApprovalGiven(CALL, True), "INFO", "send: allowed"),
        (ApprovalGiven(CALL, False), "INFO", "send: refused"),
        (ApprovalGiven(CALL, "not now"), "INFO", "send: refused: not now"),
        (ApprovalGiven(CALL, {"to": "you"}), "INFO", 'send: allowed with other arguments: {"to":"you"}'),
        (HandedOver("billing", "money"), "INFO", "handed over to billing: money"),
        (Progress(CALL, {"done": 3}), "INFO", 'send: {"done":3}'),
        (Progress(None, "half"), "INFO", "a tool: half"),
        (FallenBack(ModelError("down"), "other"), "WARNING", "down; going on with other"),
        (Throttled("m"), "INFO", "waiting until m may be asked"),
        (Compacted("m", 3, 2, (100, 50)), "WARNING", "too long for m: 3 messages left out, 2 results shrunk"),
        (PriceUnknown("m"), "WARNING", "price of m"),
        (ReplyDropped("empty"), "WARNING", "the reply was empty; asking again"),
        (ToolRetried(CALL, INFO, 1), "WARNING", "send: Busy: no time; calling it again"),
        (ToolAbandoned(BoundCall.impossible(CALL, INFO), 2), "WARNING", "send goes on in vain; 2 such threads"),
    ],
)  # fmt: skip
def test_each_event_has_its_line(event, level, text):
    (line,) = lines(event)
    assert line.level == level
    assert text in line.text


def test_the_events_of_an_agent_inside_a_tool_are_its_own_affair():
    assert list(lines(SubRun("inner", CALL, RunStarted("query", "m")))) == []
