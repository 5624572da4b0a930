"""The log of a run: what `agentkit.log.show` prints, and what loguru receives."""

import asyncio
import io
import subprocess
import sys

import pytest
from loguru import logger

import agentkit
from agentkit import DefinitionError, JsonAgent, ModelError
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.views.history import render_messages
from agentkit.views.lines import Line
from agentkit.views.log import make_printer


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def shout(text: str) -> str:
    """Shouts."""
    if text == "fail":
        raise ValueError("<red>{not markup}</red>")
    return f"<b>{text}</b> {{braces}} <level>"


SUM = [call("add", a=2, b=3), answer("5")]
SCRIPT = [
    {"content": "Let me <see>.", **calls(call("shout", text="</red> <x>"), call("shout", text="fail"))},
    ModelError("busy", transient=True, retry_after=0),
    answer("done <i>"),
]


@pytest.fixture
def shown():
    out = io.StringIO()
    agentkit.log.show(out, colour=False)
    yield out
    agentkit.log.hide()


@pytest.fixture
def logged():
    """The lines that loguru receives, as "LEVEL message"."""
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line)), format="{level} {message}", level="DEBUG", diagnose=False)
    logger.enable("agentkit")
    yield lines
    logger.disable("agentkit")
    logger.remove(sink)


class Screen(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_show_prints_the_run_for_people(shown):
    JsonAgent(shout, model=ScriptedModel(SCRIPT))("What <now>?")
    lines = shown.getvalue().splitlines()
    lines[4:6] = sorted(lines[4:6], reverse=True)  # the calls of a turn end in any order
    assert lines == [
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
def test_the_lines_are_the_same_however_the_run_is_driven(shown, run):
    JsonAgent(add, model=ScriptedModel(SUM))("?")
    once = shown.getvalue()
    run(JsonAgent(add, model=ScriptedModel(SUM)), "?")
    assert shown.getvalue() == once * 2
    assert "call     add(a=2, b=3)" in once


def test_a_terminal_shows_roles_in_colours(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
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


def test_there_is_no_colour_with_no_color_or_without_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not agentkit.log.make_printer(Screen()).colour
    assert agentkit.log.make_printer(Screen(), colour=True).colour
    monkeypatch.setenv("NO_COLOR", "")
    assert agentkit.log.make_printer(Screen()).colour
    assert not agentkit.log.make_printer(io.StringIO()).colour
    monkeypatch.setenv("TERM", "dumb")
    assert not agentkit.log.make_printer(Screen()).colour


@pytest.mark.parametrize(("longest", "length", "hint"), [(None, 5000, False), (200, 200, True), (1000, 1000, True)])
def test_long_values_are_truncated_with_a_note_unless_all_is_wanted(longest, length, hint):
    out = io.StringIO()
    agentkit.log.show(out, longest=longest)
    try:
        JsonAgent(shout, model=ScriptedModel([answer("x" * 5000)]))("?")
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
    JsonAgent(shout, model=ScriptedModel(call("shout", text=text), SUM[-1]))(text)
    for place in (shown.getvalue(), "".join(logged)):
        assert "***" in place
        assert "tr0ub" not in place


def test_the_log_is_silent_until_it_is_enabled():
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line)), level="DEBUG", diagnose=False)
    try:
        JsonAgent(shout, model=ScriptedModel(SCRIPT))("quiet")
    finally:
        logger.remove(sink)
    assert lines == []


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


def test_a_query_cannot_forge_a_line_of_the_log(logged):
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
    with pytest.raises(DefinitionError, match=r"file must be a stream, got 'DEBUG'. A level is show\(level='DEBUG'\)"):
        agentkit.log.show("DEBUG")


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


def test_without_a_model_the_log_names_the_offline_model(shown):
    JsonAgent(add)("What is the weather?")
    assert shown.getvalue().count("note     no model is named") == 1


def test_the_events_of_an_agent_inside_a_tool_are_shown_once(shown):
    inner = JsonAgent(add, model=ScriptedModel(SUM), description="Adds.")
    outer = ScriptedModel(call("inner", query="2 and 3?"), SUM[-1])
    JsonAgent(inner.as_tool("inner"), model=outer)("?")
    assert shown.getvalue().count("add(a=2, b=3)") == 1


@pytest.mark.parametrize("how", ["run", "arun"])
def test_the_lines_of_agents_inside_tools_have_their_names(shown, logged, how):
    def asking(name, text="2 and 3?"):
        return ScriptedModel(call(name, query=text), SUM[-1])

    deepest = JsonAgent(add, model=ScriptedModel(SUM), description="Adds.")
    middle = JsonAgent(deepest.as_tool("deep"), model=asking("deep"), description="Asks.")
    agent = JsonAgent(middle.as_tool("middle"), model=asking("middle", "All of it?"))
    agent.run("?") if how == "run" else asyncio.run(agent.arun("?"))
    for line in ("query    ?", "query    [middle] All of it?", "call     [middle] [deep] add(a=2, b=3)", "answer   5"):
        assert f"{line}\n" in shown.getvalue()
        assert f"INFO {line}\n" in logged
    JsonAgent(add, model=ScriptedModel(SUM))("Later?")
    assert shown.getvalue().endswith("answer   5\ntotal    2 requests\n"), "the names end with the agents"


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


def test_a_stored_conversation_has_the_lines_of_its_run(shown):
    script = [{**SUM[0], "content": "I add."}, SUM[1]]
    result = JsonAgent(add, model=ScriptedModel(script)).run("How much?")
    stored = [*render_messages(result.messages)]
    ran = shown.getvalue().splitlines()
    assert (stored[0].role, [line.role for line in stored[1:]]) == (
        "system",
        ["query", "model", "call", "result", "answer"],
    )
    assert [f"{line.role:<9}{line.format()}" for line in stored[1:]] == ran[:-1]


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
agentkit.JsonAgent(len, model=ScriptedModel(answer("3")))("What is the length of 'tea'?")
"""
ENABLE = "from loguru import logger; logger.enable('agentkit')"


@pytest.mark.parametrize(
    ("when", "is_shown"),
    [({}, False), ({"before": ENABLE}, True), ({"after": ENABLE}, True), ({"later": ENABLE}, True)],
)
def test_the_log_is_silent_until_it_is_enabled_before_or_after_the_import(when, is_shown):
    program = PROGRAM.format(**{"before": "", "after": "", "later": "", **when})
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert bool(done.stdout) is is_shown
