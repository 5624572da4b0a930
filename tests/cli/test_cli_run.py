"""`agentkit run`: one question, one answer."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit import Session
from agentkit.cli.run import _read_query
from agentkit.core.messages import Label


def test_run_answers_on_stdout_and_shows_the_run_on_stderr(run):
    result = run("run", "Add 2 and 3", "--tools", "mytools.py")
    assert result.exit_code == 0, result.output
    assert "5" in result.stdout
    assert result.stdout == "5\n"
    assert "call     add(a=2, b=3)" in result.stderr
    assert "result   add: 5" in result.stderr


def test_quiet_shows_nothing_but_the_answer(run):
    result = run("run", "-q", "Add 2 and 3", "--tools", "mytools.py")
    assert (result.exit_code, result.stderr) == (0, "")


def test_the_question_may_stand_on_standard_input(run):
    for arguments in (("run",), ("run", "-")):
        result = run(*arguments, "--tools", "mytools.py", input="Add 20 and 3\n")
        assert result.exit_code == 0
        assert "23" in result.stdout


def test_json_is_the_whole_result(run):
    result = run("run", "Add 2 and 3", "--tools", "mytools:add", "--json", "--model", "offline")
    data = json.loads(result.stdout)
    assert "5" in data["answer"]
    assert data["stopped"] == "answer"
    assert data["messages"][1]["content"] == "Add 2 and 3"
    assert data["usage"]["requests"] == data["steps"] == 2


def test_what_a_tool_and_its_file_print_is_not_part_of_the_answer(run, tmp_path):
    lines = ["print('loaded')", "def add(a: int, b: int) -> int:", "    'Add two numbers.'", "    print('adding')"]
    (tmp_path / "loud.py").write_text("\n".join([*lines, "    return a + b", ""]))
    queries = tmp_path / "queries.txt"
    queries.write_text("Add 2 and 3\n")
    for words in (["run", "Add 2 and 3", "--json"], ["run", "Add 2 and 3", "--jsonl"], ["map", str(queries)]):
        result = run(*words, "--tools", str(tmp_path / "loud.py"))
        assert "adding" in result.stderr
        entries = [json.loads(line) for line in result.stdout.splitlines()] if "--json" not in words else []
        assert (entries or [json.loads(result.stdout)])[-1]["answer"] == "5"
    assert run("run", "Add 2 and 3", "--tools", str(tmp_path / "loud.py")).stdout == "5\n"


def test_without_tools_the_bundled_ones_are_used(run):
    result = run("run", "Calculate 6 * 7")
    assert result.exit_code == 0
    assert "42" in result.stdout


@pytest.mark.parametrize("question", ["", "   "])
def test_no_question_is_wrong_usage(run, question):
    result = run("run", "--tools", "mytools.py", question, input="")
    assert result.exit_code == 2
    assert "no question" in result.stderr


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("missing.py", "no such file"),
        ("missing_module", "No module named"),
        ("broken.py", "SyntaxError"),
        ("raising.py", "RuntimeError: at import (raising.py, line 2)"),
        ("leaving.py", "leaving.py: cannot be imported: SystemExit: 0 (leaving.py, line 1)"),
        ("relative.py", "(relative.py, line 1). Name the module in place of its file: package.module"),
        ("mytools.py:nope", "has no 'nope'"),
        ("empty.py", "defines no public function"),
        ("bare.py", "'bare' has no description"),
        (
            "bare.py",
            "If it is no tool, rename it _bare, list the tools of the file in __all__, or mark them with @tool.",
        ),
    ],
)
def test_tools_that_cannot_be_had_are_wrong_usage(run, tmp_path, target, said):
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "raising.py").write_text("import json\nraise RuntimeError('at import')\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "relative.py").write_text("from .prices import TEA\n")
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "bare.py").write_text("def bare(a: int) -> int:\n    return a\n")
    result = run("run", "hello", "--tools", target)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_failed_run_is_exit_code_1(run, monkeypatch):
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    result = run("run", "hello", "--tools", "mytools.py", "--model", "groq/llama-3.1-8b-instant")
    assert result.exit_code == 1
    assert "GROQ_API_KEY" in result.stderr
    assert result.stdout == ""


def test_words_need_no_quotes_and_a_dash_is_the_standard_input(run):
    assert run("run", "-q", "--tools", "mytools.py", "Add", "2", "and", "3").stdout == "5\n"
    assert run("run", "-q", "--tools", "mytools.py", "Add 20 and", "-", input="22\n").stdout == "42\n"


def test_the_events_are_lines_of_json_and_can_be_shown_afterwards(run, folder):
    result = run("run", "-q", "--jsonl", "Add 2 and 3", "--tools", "mytools.py")
    frames = [json.loads(line) for line in result.stdout.splitlines()]
    assert frames[0]["frame"] == "RunOpened"
    assert {"CallOpened", "CallClosed", "AnswerPiece"} <= {frame["frame"] for frame in frames}
    assert (frames[-1]["frame"], frames[-1]["outcome"], frames[-1]["answer"]) == ("RunClosed", "answer", "5")
    (folder / "lines.jsonl").write_text(result.stdout)
    assert "Add 2 and 3" in run("show", "lines.jsonl").stdout
    assert run("run", "--json", "--jsonl", "x").exit_code == 2


def test_secrets_are_masked_for_machines_too(run, monkeypatch):
    monkeypatch.setenv("MY_SERVICE_TOKEN", "tr0ub4dor-and-3")
    for flag in ("--json", "--jsonl", "--jsonl=events"):
        result = run("run", flag, "Greet tr0ub4dor-and-3", "--tools", "mytools:greet")
        assert result.exit_code == 0
        assert "***" in result.stdout
        assert "tr0ub4dor" not in result.output


def test_what_a_tool_raises_for_its_caller_is_one_line_and_the_conversation_is_kept(run, folder):
    result = run("run", "-q", 'Burn "the house"', "--tools", "more:burn", "--session", "kept.json")
    assert result.exit_code == 1
    first, second = result.stderr.splitlines()
    assert first.startswith("agentkit: ValueError: ")
    assert first.endswith("is on fire")
    assert "Continue with: agentkit run --session kept.json --tools more:burn" in second
    assert Session.load("kept.json").messages[1]["content"] == 'Burn "the house"'
    whole = json.loads(run("run", "-q", "--json", 'Burn "it"', "--tools", "more:burn").stdout)
    assert whole["error"] == {"type": "ValueError", "message": "ValueError: it is on fire"}
    assert whole["messages"][1]["content"] == 'Burn "it"'
    *_, last = run("run", "-q", "--jsonl", 'Burn "it"', "--tools", "more:burn").stdout.splitlines()
    ended = json.loads(last)
    assert (ended["frame"], ended["outcome"], ended["kind"]) == ("RunClosed", "error", "ValueError")
    *_, last = run("run", "-q", "--jsonl=events", 'Burn "it"', "--tools", "more:burn").stdout.splitlines()
    assert json.loads(last)["event"] == "RunFailed"


def test_the_objects_of_former_versions_can_still_be_printed_and_shown(run, folder):
    result = run("run", "-q", "--jsonl=events", "Add 2 and 3", "--tools", "mytools.py")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert events[0]["event"] == "RunStarted"
    assert events[-1]["event"] == "RunFinished"
    assert events[-1]["result"]["answer"] == "5"
    (folder / "events.jsonl").write_text(result.stdout)
    assert "Add 2 and 3" in run("show", "events.jsonl").stdout


def test_a_session_continues(run):
    assert run("run", "-q", "Add 2 and 3", "--tools", "mytools.py", "--session", "s.json").stdout == "5\n"
    assert run("run", "-q", "Add 4 and 3", "--tools", "mytools.py", "--session", "s.json").stdout == "7\n"
    said = [message["content"] for message in Session.load("s.json").messages if message["role"] == "user"]
    assert said == ["Add 2 and 3", "Add 4 and 3"]


def test_a_dangerous_call_waits_without_a_person_to_ask(run, folder):
    result = run("run", "-q", "Delete file a.txt", "--tools", "more:delete_file", "--session", "s.json")
    assert result.exit_code == 3
    assert "delete_file needs an approval, and no terminal is attached" in result.stderr
    (waiting,) = Session.load("s.json").waiting
    assert waiting.name == "delete_file"


@pytest.mark.parametrize("text", ["no json", "[]", '{"a": 1}'])
def test_a_file_that_is_not_a_session_is_wrong_usage(run, folder, text):
    (folder / "s.json").write_text(text)
    result = run("run", "Add 2 and 3", "--session", "s.json", "--tools", "mytools.py")
    assert result.exit_code == 2
    assert "s.json" in result.stderr


@pytest.mark.parametrize("place", ["s.json", "none/run.jsonl"])
def test_a_recording_that_cannot_be_written_there_is_wrong_usage(run, folder, place):
    (folder / "s.json").write_text("{}")
    result = run("run", "-q", "Add 2 and 3", "--record", place, "--tools", "mytools.py")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"agentkit: record={place!r}: the file ")
    assert result.stdout == ""


def test_a_session_that_cannot_be_saved_is_reported_in_one_line(run, folder):
    (folder / "full").mkdir()
    (folder / "full" / "s.json").symlink_to("/dev/full/s.json")
    result = run("run", "-q", "Add 2 and 3", "--session", "full/s.json", "--tools", "mytools.py")
    assert result.exit_code == 1
    assert result.stderr.startswith("agentkit: ")
    assert len(result.stderr.splitlines()) == 1


class TestAtATerminal:
    def test_shows_the_run_and_the_answer(self, terminal):
        shown = terminal("run", "Add 2 and 3", "--tools", "mytools.py")
        assert shown.end() == 0
        plain = shown.text.replace("\r", "")
        assert plain.endswith("5\n")
        for text in ("add(a=2, b=3)", "add: 5", "2 requests", "\033["):
            assert text in plain

    def test_has_no_colours_where_they_are_not_wanted(self, terminal, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")
        shown = terminal("run", "Add 2 and 3", "--tools", "mytools.py")
        assert shown.end() == 0
        assert "\033[32m" not in shown.text
        assert "\033[34m" not in shown.text

    @pytest.mark.parametrize(
        ("said", "result"), [("y", "deleted a.txt"), ("n", "not allowed"), ('{"name": "b.txt"}', "deleted b.txt")]
    )
    def test_asks_about_dangerous_calls(self, terminal, said, result):
        shown = terminal("run", "Delete file a.txt", "--tools", "more:delete_file")
        shown.expect("wants to call delete_file")
        shown.expect('"a.txt"')
        shown.expect("}: ")
        shown.send(f"{said}\n")
        shown.expect(result)
        assert shown.end() == 0

    def test_what_was_typed_before_a_question_is_not_an_answer(self, terminal):
        shown = terminal("run", "Delete file a.txt", "--tools", "more:delete_file")
        shown.send("yes\nyes\n")
        shown.expect("}: ")
        shown.send("n\n")
        shown.expect("not allowed")
        assert shown.end() == 0
        assert "deleted a.txt" not in shown.text

    def test_pasted_lines_are_one_answer_and_no_yes(self, terminal):
        shown = terminal("run", "Delete file a.txt", "--tools", "more:delete_file")
        shown.expect("}: ")
        shown.send("y\nthen the next command of a script\n")
        shown.expect("then the next command of a script")
        assert shown.end() == 0
        assert "deleted a.txt" not in shown.text

    def test_an_interrupt_ends_it_and_keeps_what_was_done(self, terminal, run, folder):
        shown = terminal("run", "Wait for 30 seconds", "--tools", "more.py")
        shown.expect("wait_for(")
        shown.send("\x03")
        shown.expect("interrupted")
        assert shown.end() == 130
        (file,) = folder.glob("agentkit-*.json")
        assert f"Continue with: agentkit run --session {file} --tools more.py" in shown.text.replace("\r\n", "")
        assert "Cancelled" in Session.load(file).messages[-1]["content"]
        assert run("run", "-q", "--session", str(file), "--tools", "more.py").exit_code == 0

    def test_an_interrupt_while_a_person_is_asked_ends_it_too(self, terminal):
        shown = terminal("run", "Delete file a.txt", "--tools", "more:delete_file")
        shown.expect("}: ")
        shown.send("\x03")
        assert shown.end() == 130


WRITING = ["--help", "--version", "run --help", "tools mytools.py", "lint mytools.py", "lock mytools.py"]


@pytest.mark.parametrize("arguments", WRITING)
def test_a_closed_pipe_ends_it_quietly_and_not_with_the_code_of_a_failure(folder, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        command = [sys.executable, "-m", "agentkit", *arguments.split()]
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is missing")
@pytest.mark.parametrize("arguments", WRITING)
def test_a_full_disk_below_its_output_is_one_line(folder, arguments):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "agentkit", *arguments.split()]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "agentkit: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", ["run Add 2 and 3", "chat"])
def test_a_closed_standard_stream_is_an_empty_one(folder, arguments, closed):
    command = f"{sys.executable} -m agentkit {arguments} --tools mytools.py --model offline {closed}"
    done = subprocess.run(["bash", "-c", command], input="", capture_output=True, text=True, env=os.environ)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


INNER = '''
from agentkit import JsonAgent, tool

@tool(effect="danger")
def delete_file(name: str) -> str:
    """Deletes a file."""
    return f"deleted {name}"

cleaner = JsonAgent(delete_file, model="offline", description="Cleans up by deleting files.").as_tool("cleaner")
'''


@pytest.mark.parametrize("said", ["y\n", "\x03"])
def test_an_agent_inside_a_tool_asks_at_the_terminal_too(terminal, folder, said):
    (folder / "inner.py").write_text(INNER)
    shown = terminal("run", 'Ask the cleaner to "delete file a.txt"', "--tools", "inner:cleaner")
    shown.expect("wants to call delete_file")
    shown.expect("}: ")
    shown.send(said)
    if said == "y\n":
        shown.expect("deleted a.txt")
    assert shown.end() == (0 if said == "y\n" else 130)


@pytest.mark.parametrize(
    ("words", "query", "label"),
    [
        (["Mail", "it", "to", "ann:", "-"], "Mail it to ann: page", ("Mail it to ann:",)),
        (["Read", "-", "twice"], "Read page twice", ("Read", "twice")),
        (["-"], "page", None),
        ([], "page", None),
        (["Hello"], "Hello", None),
    ],
)
def test_standard_input_in_a_question_is_untrusted_and_the_words_around_it_are_not(monkeypatch, words, query, label):
    monkeypatch.setattr("sys.stdin", io.StringIO("page\n"))
    given, found = _read_query(words, is_needed=True)
    assert given == query
    assert found == (None if label is None else Label("untrusted", ("standard input",), None, label))


@pytest.mark.parametrize("options", [(), ("--json",), ("--jsonl",)])
def test_an_answer_that_the_encoding_of_the_output_lacks_is_escaped(folder, options):
    (folder / "talk.py").write_text(
        "from agentkit import JsonAgent\nfrom agentkit.testing import ScriptedModel, answer\n\n"
        'def add(a: int) -> int:\n    """Add one to a number."""\n    return a + 1\n\n'
        'agent = JsonAgent(add, model=ScriptedModel(answer("caf\\u00e9 \\U0001f469")))\n'
    )
    command = [sys.executable, "-m", "agentkit", "run", "talk.py:agent", "hello", "--quiet", *options]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode("latin-1")
    assert "caf\u00e9 \\ud83d\\udc69" in text
    if options:
        assert [json.loads(line) for line in (text.splitlines() if options == ("--jsonl",) else [text])]
