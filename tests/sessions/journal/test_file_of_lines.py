"""A journal in a file of lines: what is on disk, and what damages it."""

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from agentkit import DefinitionError, JsonAgent, Quota, Session
from agentkit.journal import Journal, JournalError, delete, prune, runs, show
from agentkit.sessions.journal.connections import opened_store
from agentkit.sessions.journal.lines import LinesStore
from agentkit.sessions.journal.maintenance import find_problems, salvage
from agentkit.sessions.journal.store import RunFilter
from agentkit.sessions.records import ConversationNamed, MessageWritten, RunBegun, RunConcluded
from agentkit.testing import ScriptedModel, answer, call

KEY = 7
MESSAGE = MessageWritten(0, '{"role":"user","content":"Go"}', KEY)
NEXT = MessageWritten(1, '{"role":"assistant","content":"Gone"}', KEY)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.jsonl"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent_of(path, *replies) -> JsonAgent:
    return JsonAgent(add, model=ScriptedModel(*(replies or (call("add", a=2, b=3), answer("5")))), journal=path)


def count(path) -> int:
    with opened_store(path) as store:
        return store.count_messages(KEY)


def test_each_line_is_a_list_of_records(path):
    run = agent_of(path).run("2 + 3?")
    head, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert head == [{"kind": "record", "version": 3}]
    written = [entry for line in lines for entry in line]
    assert {"run", "message", "call", "result", "end"} <= {entry["kind"] for entry in written}
    assert [entry["message"]["role"] for entry in written if entry["kind"] == "message"] == [
        *("system", "user", "assistant", "tool", "assistant", "tool"),
    ]
    assert show(run.run_id, store=path).run.answer == "5"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o077 == 0


KILLED = """
import os, sys
from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, call
def leave() -> None:
    "Leave."
    os._exit(9)
JsonAgent(leave, model=ScriptedModel(call("leave")), journal=sys.argv[1]).run("Go")
"""


def test_a_list_of_the_runs_removes_what_a_killed_process_left_beside_the_file(path):
    assert subprocess.run([sys.executable, "-c", KILLED, path], check=False).returncode == 9
    assert len([*path.parent.iterdir()]) == 3
    assert [run.state for run in runs(path)] == ["interrupted"]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_conversation_continues_in_a_file_of_lines(path):
    session = Session()
    agent = agent_of(path, answer("one"), answer("two"))
    first = agent.run("first", session=session)
    second = agent.run("second", session=session)
    assert [run.id for run in runs(path)] == [second.run_id, first.run_id]
    again = Session.resumed(first.run_id, path)
    assert agent_of(path).run(None, session=again).answer == "one"


def test_a_half_written_line_is_ignored_and_removed(path):
    with closing(LinesStore(path)) as store:
        store.append([MESSAGE])
        whole = path.read_bytes()
        path.write_bytes(whole + b'[{"kind": "message", "pl')
        assert count(path) == 1
        store.append([NEXT])
    assert path.read_bytes().startswith(whole + b"[{")
    assert count(path) == 2
    with closing(LinesStore(path)) as store:
        assert store.find_damage() == []


def test_a_file_whose_line_ends_git_has_changed_is_read_and_continued(path):
    with closing(LinesStore(path)) as store:
        store.append([MESSAGE])
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with closing(LinesStore(path)) as store:
        store.append([NEXT])
    assert count(path) == 2


def test_a_full_disk_leaves_whole_lines(path, monkeypatch):
    write = os.write

    def write_half(file, data):
        if len(data) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, bytes(data)[: len(data) // 2])

    with closing(LinesStore(path)) as store:
        store.append([MESSAGE])
        before = path.read_bytes()
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", write_half)
            with pytest.raises(JournalError, match=r"runs.jsonl'.*No space left"):
                store.append([NEXT])
        assert path.read_bytes() == before
        store.append([NEXT])
    assert count(path) == 2


def test_damage_is_reported_refuses_writes_and_leaves_the_rest_readable(path, tmp_path):
    first = agent_of(path).run("2 + 3?")
    agent_of(path).run("and 2 + 3?")
    lines = path.read_text().splitlines(keepends=True)
    (begin,) = (number for number, line in enumerate(lines) if '"query":"and 2 + 3?"' in line)
    lines[begin] = lines[begin].replace('"kind"', '"k', 1)
    path.write_text("".join(lines))
    assert find_problems(path)[0].startswith(f"line {begin + 1}: JSONDecodeError")
    with (
        closing(LinesStore(path)) as store,
        pytest.raises(JournalError, match=rf"damaged: line {begin + 1}.*--salvage"),
    ):
        store.append([MESSAGE])
    assert show(first.run_id, store=path).run.answer == "5"
    assert salvage(path, tmp_path / "saved.jsonl") == 1
    assert [run.id for run in runs(tmp_path / "saved.jsonl")] == [first.run_id]
    assert find_problems(tmp_path / "saved.jsonl") == []


def test_a_changed_text_is_damage(path):
    run = agent_of(path).run("2 + 3?")
    path.write_text(path.read_text().replace('"content":"2 + 3?"', '"content":"2 + 4?"'))
    assert "is damaged: message 1 is missing or incomplete" in str(show(run.run_id, store=path))
    assert f"run {run.run_id}: " in find_problems(path)[0]


def test_a_removal_by_another_process_is_noticed(path):
    other = KEY + 1
    with closing(LinesStore(path)) as store, closing(LinesStore(path)) as remover:
        store.append([RunBegun("old", "Go", "m", 0, 1.0, KEY), MESSAGE])
        store.append([RunConcluded("failed", "{}", 2.0, None, "old", KEY)])
        store.append([RunBegun("new", "Go", "m", 1, 3.0, KEY)])
        store.append([RunBegun("kept", "Go", "m", 0, 4.0, other)])
        remover.remove(remover.runs(RunFilter(ids=["new"])))
        assert [(run.id, run.status) for run in store.runs()] == [("kept", "open"), ("old", "superseded")]
        store.append([NEXT])
        assert remover.count_messages(KEY) == 2
        lease = store.take(KEY)
        remover.remove(remover.runs(RunFilter(ids=["old"])))
        assert remover.holder(KEY).startswith("process ")
        lease.release()
        assert (store.count_messages(KEY), store.version(KEY)) == (0, "")


def test_a_name_stays_with_its_last_conversation_when_another_run_is_removed(path):
    with closing(LinesStore(path)) as store:
        for key in (1, 2, 3):
            store.append([RunBegun(f"run {key}", "Go", "m", 0, float(key), key)])
        store.append([ConversationNamed("ada", 2)])
        store.append([ConversationNamed("ada", 1)])
        store.remove(store.runs(RunFilter(ids=["run 3"])))
        assert store.names() == {"ada": 1}
        assert [run.id for run in store.runs()] == ["run 2", "run 1"]


def test_damage_is_not_removed_with_a_run(path):
    with closing(LinesStore(path)) as store:
        store.append([RunBegun("old", "Go", "m", 0, 1.0, KEY), MESSAGE])
        path.write_text(path.read_text() + "damaged\n")
        with pytest.raises(JournalError, match="damaged: line 3"):
            store.remove(store.runs())
    assert "damaged" in path.read_text()


def test_all_users_of_a_journal_see_who_has_a_conversation(path):
    with closing(LinesStore(path)) as store:
        path.chmod(0o664)
        lease = store.take(KEY)
        beside = [entry for entry in path.parent.iterdir() if entry != path]
        assert [entry.stat().st_mode & 0o777 for entry in beside] == [0o664] * 2
        lease.release()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_an_error_leaves_the_file_unlocked(path):
    def fail() -> None:
        raise KeyboardInterrupt

    with closing(LinesStore(path)) as store, closing(LinesStore(path)) as other:
        with pytest.raises(KeyboardInterrupt):
            store.read_together(fail)
        store.append([MESSAGE])
        path.rename(path.with_name("away"))
        with pytest.raises(JournalError, match="No such file"):
            store.append([NEXT])
        path.with_name("away").rename(path)
        other.append([NEXT])
        assert store.count_messages(KEY) == 2


def test_a_deleted_run_leaves_the_file(path):
    run = agent_of(path).run("2 + 3?")
    kept = agent_of(path).run("again")
    delete(run.run_id, store=path)
    assert [entry.id for entry in runs(path)] == [kept.run_id]
    assert run.run_id not in path.read_text()


def test_a_deleted_file_is_an_error_and_a_new_one_begins(path):
    with opened_store(path) as store:
        store.append([MESSAGE])
        path.unlink()
        with pytest.raises(JournalError, match="No such file"):
            store.append([NEXT])
    with opened_store(path) as store:
        assert store.count_messages(KEY) == 0
    with pytest.raises(JournalError, match="does not exist"):
        runs(path.with_name("other.jsonl"))
    store.close()
    with pytest.raises(JournalError, match="is closed"):
        store.append([NEXT])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_copy_over_the_file_between_two_runs_is_read_whole(path, tmp_path):
    backup = tmp_path / "backup.jsonl"
    for number in range(4):
        agent_of(backup).run(f"{number} + {number}?")
    agent_of(path).run("the first query")
    shutil.copyfile(backup, path)  # longer than what it replaces
    agent_of(path).run("the next query")
    assert sorted(run.query for run in runs(path)) == [
        *(f"{number} + {number}?" for number in range(4)),
        "the next query",
    ]
    assert find_problems(path) == []


def test_a_child_writes_with_a_file_and_leases_of_its_own(path):
    with opened_store(path) as store:
        lease = store.take(KEY)
        child = os.fork()
        if not child:
            status = 1
            try:
                with opened_store(path) as own:
                    own.append([MESSAGE])
                    lease.release()
                    status = 0 if own.holder(KEY).startswith("process ") else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert store.holder(KEY).startswith("this process, since ")
        assert store.count_messages(KEY) == 1
        lease.release()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("hello\n", "is not a journal"),
        ('{"kind": "record", "version": 3}\n', "is the file of one recorded run"),
        ('[{"kind":"record","version":99}]\n', r"has version 99 of the format, expected 3. Update agentkit"),
        ('[{"kind":"message","place":0,"message":{"role":"user"}}]\n', "is not a journal"),
    ],
)
def test_another_file_is_refused_and_unchanged(path, content, reason):
    path.write_text(content)
    with pytest.raises(JournalError, match=f"runs.jsonl' {reason}"):
        runs(path)
    assert path.read_text() == content


def test_a_recorded_run_is_not_taken_for_a_journal(path):
    JsonAgent(add, model=ScriptedModel(answer("5"))).run("2 + 3?", record=path)
    with pytest.raises(JournalError, match="the file of one recorded run"):
        runs(path)


def test_a_sqlite_file_under_this_name_is_named(path):
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE notes (text)")
    with pytest.raises(JournalError, match=r"is a SQLite file. Give it a name that does not end with .jsonl"):
        runs(path)


def test_what_only_databases_do_is_an_error_that_names_them(path):
    agent = agent_of(path)
    with pytest.raises(DefinitionError, match=r"no method reserve\(\).*SQLite file or in PostgreSQL"):
        agent.run("again", quota=Quota(owner="ada", dollars=1))


def test_a_full_disk_has_its_own_remedy_and_leaves_the_file_as_it_was(path, monkeypatch):
    agent_of(path).run("go")
    before = path.read_bytes()

    write = os.write

    def fail(descriptor, data):
        write(descriptor, data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(JournalError, match=r"No space left on device\. Make room on the disk\.\n"):
        agent_of(Journal(path, errors="raise")).run("again")
    assert path.read_bytes() == before


def test_a_lease_that_a_full_disk_refuses_leaves_no_file(path, monkeypatch):
    agent_of(path).run("go")

    def fail(old, new):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(JournalError, match="Make room on the disk"):
        agent_of(Journal(path, errors="raise")).run("again")
    assert [*path.parent.glob("*-taken-*")] == []


def test_many_runs_are_pruned_with_one_replacement_of_the_file(path):
    class Counted(LinesStore):
        removals = 0

        def remove(self, runs):
            self.removals += 1
            super().remove(runs)

    with closing(Counted(path)) as store:
        store.append([RunBegun(f"{number:012x}", "Go", "m", 0, 1.0, number + 1) for number in range(700)])
        store.append([RunConcluded("failed", "{}", 2.0, None, f"{number:012x}", number + 1) for number in range(700)])
        assert prune(0, store=store) == 700
        assert (store.removals, runs(store)) == (1, [])
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
