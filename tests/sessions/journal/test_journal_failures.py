"""A journal that cannot be written or read: the run continues or is refused, and damage is named."""

import os
import sqlite3
from contextlib import closing

import pytest
from journaled_runs import ADD, agent_of, resume, stop_run
from stores import change_rows, in_databases, patch_append

from agentkit import Session, tool
from agentkit.core.messages import ToolCall, assistant
from agentkit.engine.model import Reply
from agentkit.events import JournalFailed
from agentkit.journal import Journal, JournalError, runs, show
from agentkit.sessions.journal.connections import close_idle_stores
from agentkit.testing import answer, call

FULL_DISK = (
    "CREATE TABLE full (id INTEGER PRIMARY KEY AUTOINCREMENT)",
    "INSERT INTO full VALUES (9223372036854775807)",
    "CREATE TRIGGER fill BEFORE INSERT ON steps BEGIN INSERT INTO full VALUES (NULL); END",
)
"""Let the next step fail with SQLITE_FULL: so SQLite also reports that a table has no number left for a row."""
WRITE_VERSION = 18
"""The byte of a SQLite file by which a later version marks it as one that this version can only read."""


def failing(*numbers: int):
    """Return a replacement of the writes of a store: those with these numbers, from 1 on, fail."""
    count = iter(range(1, 10_000))

    def write_or_fail(write, _, statements):
        if next(count) in numbers:
            raise JournalError("no room")
        write(statements)

    return write_or_fail


@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_a_relative_path_in_a_folder_that_was_removed_is_an_error_of_the_journal(tmp_path, monkeypatch, capsys, name):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(JournalError, match=rf"'{name}': the working directory does not exist any more\. Change to"):
        runs(name)
    assert agent_of(name, answer("2")).run("Go").answer == "2"
    assert "the run is not recorded" in capsys.readouterr().err


class TestWrites:
    """Writes that fail."""

    def test_a_full_disk_does_not_stop_the_run(self, world, file, capsys):
        agent = agent_of(file, answer("2"), ADD, answer("3"))
        world.run(agent, "Go")
        change_rows(file, *FULL_DISK)
        events = world.stream(agent, "Go on")
        assert events[-1].result.answer == "3"
        (failed,) = [event for event in events if isinstance(event, JournalFailed)]
        assert "disk is full" in failed.notice
        assert "Make room on the disk" in failed.notice
        assert capsys.readouterr().err.count("agentkit: the run is not recorded") == 1

    def test_a_failed_write_is_repeated_later(self, world, path, monkeypatch):
        patch_append(monkeypatch, failing(2, 3))
        result = world.run(agent_of(path, ADD, answer("3")), "Go")
        assert show(result.run_id, store=path).messages == result.messages

    def test_a_run_that_must_be_recorded_stops_before_a_call_that_is_not(self, world, path, monkeypatch):
        made: list[str] = []

        def act() -> str:
            """Acts."""
            made.append("acted")
            return "done"

        patch_append(monkeypatch, failing(2))
        with pytest.raises(JournalError, match="no room"):
            world.run(agent_of(Journal(path, errors="raise"), call("act"), answer("3"), tools=[act]), "Go")
        assert made == []

    def test_a_disk_that_is_full_before_a_query_does_not_end_the_run(self, world, path, monkeypatch):
        is_full = [False]

        def failing(write, store, statements):
            if is_full[0]:
                raise JournalError("no room")
            write(statements)

        def make_room() -> str:
            """Makes room."""
            is_full[0] = False
            return "done"

        patch_append(monkeypatch, failing)
        session = Session.open("ada", path)
        world.run(agent_of(path, answer("one")), "First", session=session)
        is_full[0] = True
        agent = agent_of(path, call("make_room"), answer("two"), tools=[tool(effect="read")(make_room)])
        assert world.run(agent, "Second", session=session).answer == "two"
        opened = Session.open("ada", path)
        assert [m["content"] for m in opened.messages if m["role"] == "user"] == ["First", "Second"]
        assert [run.state for run in runs(path)] == ["finished"] * 2
        assert not any(run.conversation == session.journaled.key for run in runs(path)[1:])

    @in_databases
    def test_a_stopped_run_is_not_resumed_while_the_disk_is_full(self, world, path, monkeypatch):
        identity = stop_run(world, path, ADD)

        def failing(write, store, statements):
            raise JournalError("no room")

        with monkeypatch.context() as patched:
            patch_append(patched, failing)
            with pytest.raises(JournalError, match="no room"):
                resume(world, agent_of(path, answer("3")), identity)
        assert resume(world, agent_of(path, answer("3")), identity).answer == "3"

    def test_a_value_that_json_does_not_have_is_named(self, world, path):
        odd = Reply({**assistant(None, [ToolCall("1", "add", '{"a": 1, "b": 2}')]), "extra": {1, 2}})
        events = world.stream(agent_of(path, odd, answer("3")), "Go")
        assert events[-1].result.answer == "3"
        assert ["cannot be journaled" in event.notice for event in events if isinstance(event, JournalFailed)] == [True]


class TestFiles:
    """Files that are no journal, or cannot be opened or written."""

    def test_a_run_that_must_be_recorded_needs_a_journal_that_can_be_opened(self, world, tmp_path):
        agent = agent_of(Journal(tmp_path / "no" / "folder.db", errors="raise"), ADD, answer("3"))
        with pytest.raises(JournalError, match=r"folder\.db': unable to open .*must exist and be writable"):
            world.run(agent, "Go")
        assert agent.model.requests == []

    def test_a_journal_that_cannot_be_opened_is_reported_and_the_run_continues(self, world, tmp_path):
        made: list[str] = []

        @tool(effect="write")
        def act() -> str:
            """Acts."""
            made.append("acted")
            return "done"

        @tool(effect="read")
        def look() -> str:
            """Looks."""
            return "seen"

        place = tmp_path / "no" / "folder.db"
        agent = agent_of(place, call("act"), call("look"), answer("3"), answer("4"), tools=[act, look])
        events = world.stream(agent, "Go")
        result = events[-1].result
        assert (result.answer, made) == ("3", [])
        (failed,) = [event for event in events if isinstance(event, JournalFailed)]
        assert "must exist and be writable" in failed.notice
        results = [message["content"] for message in result.messages if message["role"] == "tool"]
        assert results[0].startswith("NotRecorded")
        assert results[1] == "seen"
        place.parent.mkdir()
        assert world.run(agent, "Again").answer == "4"
        assert [(run.query, run.state) for run in runs(place)] == [("Again", "finished")]

    def test_a_file_that_can_only_be_read_is_left_unchanged(self, world, file):
        agent_of(file, answer("3"))("Go")
        close_idle_stores()
        data = bytearray(file.read_bytes())
        data[WRITE_VERSION] = 3
        file.write_bytes(data)
        events = world.stream(agent_of(file, answer("4")), "Go")
        assert events[-1].result.answer == "4"
        (failed,) = [event for event in events if isinstance(event, JournalFailed)]
        assert "attempt to write a readonly database" in failed.notice
        assert [run.answer for run in runs(file)] == ["3"]

    def test_a_file_that_was_deleted_is_created_again(self, world, file):
        agent = agent_of(file, answer("3"), answer("4"))
        world.run(agent, "Go")
        file.unlink()
        result = world.run(agent, "Again")
        assert show(result.run_id, store=file).messages == result.messages

    def test_the_files_of_other_programs_are_refused(self, file):
        file.write_bytes(b"my diary, in which nobody may write" * 50)
        with pytest.raises(JournalError, match="damaged, or not a journal"):
            runs(file)
        with pytest.raises(JournalError, match="damaged, or not a journal"):
            agent_of(Journal(file, errors="raise"), answer("3"))("Go")
        file.unlink()
        with closing(sqlite3.connect(file)) as other:
            other.execute("CREATE TABLE runs (mine)")
        with pytest.raises(JournalError, match="another program"):
            runs(file)


class TestDamage:
    """Damaged rows and pages."""

    @in_databases
    def test_a_damaged_message_is_named_and_the_rest_is_read(self, path):
        broken = agent_of(path, ADD, answer("3")).run("Go")
        whole = agent_of(path, ADD, answer("3")).run("Go on")
        where = f"conversation = (SELECT conversation FROM runs WHERE id = '{broken.run_id}') AND place = 3"
        change_rows(path, f"UPDATE messages SET body = replace(body, '3', '4') WHERE {where}")
        assert {run.id: run.state for run in runs(path)} == {broken.run_id: "damaged", whole.run_id: "finished"}
        shown = show(broken.run_id, store=path)
        assert shown.messages == broken.messages[:3]
        assert "message 3" in str(shown)
        with pytest.raises(JournalError, match="damaged: message 3"):
            agent_of(path).resume(broken.run_id)
        assert show(whole.run_id, store=path).messages == whole.messages

    @in_databases
    def test_missing_messages_are_noticed(self, world, path):
        run_id = stop_run(world, path, ADD, ADD)
        change_rows(path, "DELETE FROM messages WHERE place > 3")
        with pytest.raises(JournalError, match="damaged"):
            agent_of(path).resume(run_id)

    def test_damaged_pages_are_noticed(self, file):
        for number in range(30):
            agent_of(file, answer("x" * 3000))(f"Go {number}")
        close_idle_stores()
        data = bytearray(file.read_bytes())
        page = 4096 * (len(data) // 4096 // 2)
        data[page : page + 4096] = os.urandom(4096)
        file.write_bytes(bytes(data))
        states = [run.state for run in runs(file)]
        assert len(states) == 30
        assert 1 <= states.count("damaged") <= 10
