"""`agentkit runs`, `resume` and `replay`, and the line that an interrupted run leaves behind."""

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from terminal import Terminal

from agentkit import JsonAgent, Memory, Session
from agentkit.journal import runs
from agentkit.testing import ScriptedModel, answer, call

ASKED = ("run", "Add 2 and 3", "--tools", "mytools.py:add", "--quiet", "--journal", "runs.db")


BANK = '''
from agentkit import tool

@tool(effect="danger")
def pay(euros: float) -> str:
    """Pay euros."""
    return "paid"
'''


class Stopped(BaseException):
    pass


def stopping(*_):
    raise Stopped


@pytest.fixture
def stopped(folder) -> str:
    """The id of a run that was stopped."""
    import mytools

    calls = {"tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}
    agent = JsonAgent(mytools.add, model=ScriptedModel(calls, stopping), journal="runs.db")
    with pytest.raises(Stopped):
        agent("What is 2 + 3?")
    return runs("runs.db")[0].id


@pytest.mark.parametrize(
    "words", [("runs",), ("sessions",), ("notes",), ("resume",), ("runs", "--db", "sqlite:///no.db")]
)
def test_a_journal_that_does_not_exist_is_wrong_usage(run, words):
    refused = run(*words)
    assert refused.exit_code == 2
    assert (
        "db' does not exist. JsonAgent(..., journal=place), or agentkit run --journal PLACE, begins" in refused.stderr
    )


def test_damage_is_reported_and_the_sound_runs_are_saved(run):
    assert run(*ASKED).stdout == "5\n"
    assert run("runs", "--check").stdout == "no damage found\n"
    assert run(*ASKED).stdout == "5\n"
    with closing(sqlite3.connect("runs.db")) as file, file:
        file.execute("UPDATE steps SET name = 'other' WHERE run = (SELECT max(id) FROM runs)")
    report = run("runs", "--check")
    assert report.exit_code == 1
    assert "is damaged: step" in report.stdout
    assert run("runs", "--salvage", "saved.db").stdout == "1 runs copied to saved.db\n"
    refused = run("runs", "--salvage", "saved.db")
    assert (refused.exit_code, refused.stderr) == (2, "agentkit: 'saved.db' exists. Name a new file.\n")
    assert run("runs", "--check", "--journal", "saved.db").stdout == "no damage found\n"


def test_the_variables_of_workers_and_of_runs_name_the_journal(run, monkeypatch):
    monkeypatch.setenv("AGENTKIT_JOURNAL", "other.db")
    assert run(*ASKED[:-2]).stdout == "5\n"
    assert "Add 2 and 3" in run("runs").stdout
    (other,) = json.loads(run("runs", "--json").stdout)
    assert "answer   5" in run("show", other["id"]).stdout
    monkeypatch.setenv("AGENTKIT_DB", "sqlite:///other.db")
    monkeypatch.setenv("AGENTKIT_JOURNAL", "missing.db")
    assert "Add 2 and 3" in run("runs").stdout
    run_id = json.loads(run("runs", "--json").stdout)[0]["id"]
    assert "answer   5" in run("show", run_id).stdout
    assert "'given.db' does not exist" in run("runs", "--db", "given.db").stderr


def test_kept_runs_are_listed_and_shown(run):
    assert run(*ASKED).stdout == "5\n"
    listed = run("runs")
    (line,) = re.findall(r"^(\w{12})  finished +\d+s  Add 2 and 3$", listed.stdout, re.MULTILINE)
    shown = run("runs", line).stdout
    assert "query    Add 2 and 3\ncall     add(a=2, b=3)\nresult   add: 5\nanswer   5\ntotal    2 requests" in shown
    assert json.loads(run("runs", "--json").stdout)[0]["id"] == line
    assert json.loads(run("runs", line, "--json").stdout)["answer"] == "5"


def test_a_run_is_written_as_a_page_and_removed(run, folder):
    run(*ASKED)
    run_id = runs("runs.db")[0].id
    assert run("runs", run_id, "--html", "run.html").exit_code == 0
    assert "Add 2 and 3" in (folder / "run.html").read_text()
    assert run("runs", "--prune", "1").stdout == "0 runs removed\n"
    assert run("runs", run_id, "--delete").exit_code == 0
    assert "the journal is empty" in run("runs").stderr


def test_a_strangers_journal_moves_no_cursor(run, folder):
    run(*ASKED)
    with closing(sqlite3.connect("runs.db")) as file, file:
        file.execute("UPDATE runs SET id = char(27) || '[2Jx', query = char(27) || ']0;y', model = char(155)")
        file.execute("UPDATE messages SET body = replace(body, 'Add 2', 'Add \\u001b[2J \\u202e 2')")
    listed = [run("runs").stdout, run("runs", "--json").stdout]
    shown = [run("runs", "\033[2Jx", *options).stdout for options in ([], ["--json"])]
    assert [bool(text) for text in (*listed, *shown)] == [True] * 4
    assert not {"\033", "\x9b", "\u202e"} & set("".join([*listed, *shown]))


def test_a_stopped_run_is_listed_and_resumed(run, stopped):
    listed = run("resume")
    assert f"{stopped}  interrupted" in listed.stdout
    assert "asking scripted" in listed.stdout
    done = run("resume", stopped, "--tools", "mytools.py:add", "--quiet")
    assert (done.stdout, done.exit_code) == ("5\n", 0)
    again = run("resume", stopped, "--tools", "mytools.py:add")
    assert (again.stdout, again.stderr) == ("5\n", "the run has ended; this is its answer\n")
    assert "no run is waiting to continue" in run("resume").stderr


def test_a_run_that_pauses_again_has_the_exit_code_of_a_pause(run, folder):
    (folder / "bank.py").write_text(BANK)
    how = ("--tools", "bank.py", "--journal", "runs.db", "--record", "bank.jsonl")
    assert run("run", "Pay 3 euros", *how).exit_code == 3
    (paused,) = json.loads(run("runs", "--json").stdout)
    for command in (("resume", paused["id"]), ("replay", "bank.jsonl")):
        ended = run(*command, "--tools", "bank.py")
        assert ended.exit_code == 3, ended.stderr
        assert "pay needs an approval" in ended.stderr
    assert f"Decide with agentkit resume {paused['id']}" in run("resume", paused["id"], "--tools", "bank.py").stderr


def test_other_tools_are_refused_in_one_line(run, stopped):
    refused = run("resume", stopped, "--tools", "mytools.py:greet", "--quiet")
    assert refused.exit_code == 1
    assert refused.stderr.count("\n") == 1
    assert "add: removed; greet: added" in refused.stderr
    assert "agentkit resume --go-on" in refused.stderr
    assert run("resume", stopped, "--tools", "mytools.py:greet", "--quiet", "--go-on").exit_code == 0


def test_what_is_not_there_is_named(run):
    told = run("runs").stderr
    assert "the journal 'runs.db' does not exist" in told
    assert "agentkit run --journal PLACE" in told
    run(*ASKED)
    assert "no run has the id 'abc'" in run("resume", "abc").stderr
    assert "no conversation has the name 'abc', and no run" in run("sessions", "rename", "abc", "A").stderr
    assert "'abc' does not exist. For a run in a journal, add --journal" in run("show", "abc").stderr


@pytest.mark.parametrize("command", ["resume", "show", "replay"])
def test_arguments_in_another_order_get_the_right_one(run, folder, command):
    for arguments, expected in (
        (
            ("1f3a", "mytools.py:agent"),
            f"mytools.py:agent: the agent is the first argument: main {command} mytools.py:agent",
        ),
        (("mytools.py", "1f3a"), f"name an agent of the file as the first argument, main {command} mytools.py:AGENT"),
        (("1f3a", "mytools.py"), "or its tools with --tools mytools.py"),
        (("1f3a", "2", "3"), "unexpected extra arguments (2 3)"),
    ):
        refused = run(command, *arguments)
        assert refused.exit_code == 2
        assert expected in refused.stderr


def test_an_interrupted_run_leaves_the_line_that_resumes_it(folder):
    terminal = Terminal("run", "Wait for 30 seconds", "--tools", "more.py:wait_for", "--journal", "runs.db")
    try:
        terminal.expect("wait_for")
        terminal.send("\x03")
        terminal.expect("agentkit resume ")
        assert terminal.end() == 130
    finally:
        terminal.close()
    (kept,) = runs("runs.db")
    text = " ".join(terminal.text.split())
    assert f"Continue with: agentkit resume {kept.id} --journal runs.db --tools more.py:wait_for" in text
    assert kept.state == "interrupted"
    assert kept.last in ("calling wait_for", "after a reply of offline")


def test_a_recorded_run_is_replayed(run, folder):
    assert run(*ASKED[:-2], "--record", "run.jsonl").stdout == "5\n"
    replayed = run("replay", "run.jsonl", "--tools", "mytools.py:add", "--quiet")
    assert (replayed.stdout, replayed.exit_code) == ("5\n", 0)
    other = run("replay", "run.jsonl", "--tools", "mytools.py:greet", "--quiet")
    assert other.exit_code == 1
    assert "request 1 differs: the tools: add" in other.stderr


def test_a_file_that_is_no_recording_is_wrong_usage_and_no_replay_that_differs(run, folder):
    (folder / "other.json").write_text("{}")
    refused = run("replay", "other.json", "--quiet")
    assert refused.exit_code == 2
    assert "'other.json' is damaged, or not a recorded run" in refused.stderr


def test_a_journaled_run_is_replayed(run):
    assert run(*ASKED).stdout == "5\n"
    (found,) = runs("runs.db")
    again = run("replay", found.id, "--journal", "runs.db", "--tools", "mytools.py:add", "--quiet")
    assert (again.exit_code, again.stdout) == (0, "5\n")
    assert run("runs", found.id, "--export", "run.jsonl").exit_code == 0
    assert run("replay", "run.jsonl", "--tools", "mytools.py:add", "--quiet").stdout == "5\n"
    missing = run("replay", "nothing.jsonl", "--tools", "mytools.py:add")
    assert (missing.exit_code, "For a run in a journal, add --journal" in missing.output) == (2, True)


def test_what_was_typed_before_does_not_decide_about_a_call_that_was_under_way(folder):
    (folder / "shop.py").write_text(
        "import os, pathlib\nfrom agentkit import tool\n\n\n@tool(effect='write')\ndef pay(euros: int) -> str:\n"
        "    'Pays.'\n    with open('paid', 'a') as file:\n        file.write('x')\n"
        "    os._exit(9) if pathlib.Path('dies').exists() else None\n    return 'paid'\n"
    )
    (folder / "dies").touch()
    command = [
        sys.executable,
        "-m",
        "agentkit",
        "run",
        "Pay 5 euros",
        "--tools",
        "shop.py:pay",
        "--journal",
        "runs.db",
    ]
    assert subprocess.run(command, capture_output=True, cwd=folder, check=False).returncode == 9
    (folder / "dies").unlink()
    (run,) = runs("runs.db", unfinished=True)
    terminal = Terminal("resume", run.id, "--tools", "shop.py:pay")
    terminal.send("y\n")
    terminal.expect("y, n, or its result:")
    terminal.send("n\n")
    terminal.end()
    assert (folder / "paid").read_text() == "x"


def test_conversations_are_listed_found_renamed_and_tagged(run, folder):
    assert "the journal 'runs.db' does not exist" in run("sessions", "find", "tea").stderr
    for name, query in (("ada", "Where is tea sold?"), ("bob", "Where is the zoo?")):
        agent = JsonAgent(len, model=ScriptedModel(answer("In the park.")))
        agent.run(query, session=Session.open(name, "runs.db"))
    listed = run("sessions").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["bob", "ada"]
    assert run("sessions", "rename", "ada", "Tea of Ada").exit_code == 0
    assert run("sessions", "tag", "ada", "shop", "urgent").exit_code == 0
    first, second = run("sessions", "find", "sold").stdout.splitlines()
    assert first.split()[0] == "ada"
    assert first.endswith("Tea of Ada  #shop  #urgent")
    assert second == "    user: Where is tea sold?"
    assert json.loads(run("sessions", "find", "--tag", "urgent", "--json").stdout)[0]["name"] == "ada"
    assert json.loads(run("sessions", "--json").stdout)[1]["tags"] == ["shop", "urgent"]
    run_id = runs("runs.db")[0].id
    assert run("sessions", "tag", run_id[:8], "animals").exit_code == 0
    assert "#animals" in run("sessions").stdout
    assert "nothing was found" in run("sessions", "find", "rockets").stderr
    problem = run("sessions", "tag", "ada", "two words")
    assert (problem.exit_code, "expected up to 40 letters" in problem.stderr) == (2, True)


EDITOR = """#!{python}
import sys
from pathlib import Path
path = Path(sys.argv[1])
path.write_text(path.read_text().replace("green", "black"){more})
"""


@pytest.fixture
def notes(folder, run):
    note = call("save_note", name="Tea", text="Ann drinks green tea.")
    memory = Memory(journal="runs.db", owner=lambda context: context.deps)
    for owner in ("ann", "bob"):
        model = ScriptedModel(note, answer("saved"))
        JsonAgent(model=model, extensions=[memory]).run("q", deps=owner, session=Session())
    return lambda *words: run("notes", *words, "--journal", "runs.db")


def edit_with(folder, monkeypatch, more=""):
    editor = folder / "editor"
    editor.write_text(EDITOR.format(python=sys.executable, more=more))
    editor.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(editor))


def test_the_notes_of_a_journal_are_listed_edited_and_deleted_by_a_person(folder, notes, monkeypatch):
    bob, ann = notes().stdout.splitlines()
    assert re.fullmatch(r"tea  --owner ann  trusted +\d+s  Ann drinks green tea\.", ann)
    assert bob.startswith("tea  --owner bob")
    edit_with(folder, monkeypatch)
    assert notes("tea", "--owner", "ann", "--edit").exit_code == 0
    shown = notes("tea", "--owner", "ann").stdout
    assert shown == '---\norigin: {"integrity": "trusted"}\n---\n\nAnn drinks black tea.\n'
    assert "green" in notes("tea", "--owner", "bob").stdout
    assert notes("tea", "--owner", "bob", "--forget").exit_code == 0
    assert "there is no note 'tea' of 'bob'" in notes("tea", "--owner", "bob").stderr
    assert len(notes().stdout.splitlines()) == 1
    assert "there are no notes" in notes("--owner", "bob").stderr
    assert "there is no note 'tea'." in notes("tea").stderr
    assert "need the name of a note" in notes("--edit").stderr


def test_the_text_of_an_editor_is_printed_where_it_cannot_be_kept(folder, notes, monkeypatch):
    edit_with(folder, monkeypatch, " * 1000")
    done = notes("tea", "--owner", "ann", "--edit")
    assert done.stdout.count("black") == 1000
    assert "at most 10000 are kept" in done.stderr
    assert "green" in notes("tea", "--owner", "ann").stdout
    edit_with(folder, monkeypatch, "[40:]")
    assert "is untrusted now" in notes("tea", "--owner", "ann", "--edit").stderr
    assert "untrusted" in notes("--owner", "ann").stdout
