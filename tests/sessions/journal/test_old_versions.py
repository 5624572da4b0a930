"""Journals of older versions are brought up to date and resumed, but not while a process of that version uses them."""

import gzip
import json
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from journaled_runs import agent_of, resume
from stores import in_databases

from agentkit import Session, tool
from agentkit.extend import list_conversations, rename_conversation
from agentkit.journal import JournalError, export, runs, show
from agentkit.sessions.journal.connections import opened_store
from agentkit.sessions.journal.run_info import schemas_of
from agentkit.sessions.journal.sqlite import SCHEMA_VERSION, SqliteStore, find_lock_holders
from agentkit.testing import answer

OLD = Path(__file__).parent / "old"
OLDER = ("478a9fd", "ba49f56", "4132cdc")
"""Versions whose tables are brought up to date."""
CURRENT = ("58424d8",)
"""Versions with the present tables."""
HOLD_BYTE = "fcntl.lockf(file, fcntl.LOCK_EX, 1, 1 << 40)"
HOLD_FILE = "fcntl.flock(file, fcntl.LOCK_EX)"
HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w+b")
{}
print("held", flush=True)
sys.stdin.read()
"""

OTHERS = """
import fcntl, sys
files = [open(f"{sys.argv[1]}-{number}", "wb") for number in range(60)]
print("begun", flush=True)
while True:
    for how in (fcntl.LOCK_EX, fcntl.LOCK_UN):
        for file in files:
            fcntl.flock(file, how)
"""


@pytest.fixture(params=OLDER)
def old(request, tmp_path) -> Path:
    """A journal of an older version, whose tables are brought up to date."""
    return unpack(request.param, tmp_path)


@pytest.fixture(params=(*OLDER, *CURRENT))
def written(request, tmp_path) -> Path:
    """A journal that another version wrote."""
    return unpack(request.param, tmp_path)


def unpack(version: str, folder: Path) -> Path:
    """A copy of the journal that a version wrote."""
    place = folder / "runs.db"
    place.write_bytes(gzip.decompress((OLD / f"runs-{version}.db.gz").read_bytes()))
    return place


@tool(effect="write")
def book(place: str) -> str:
    """Books."""
    return f"booked {place}"


@tool(effect="danger")
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


def state_of(place) -> list[tuple]:
    return sorted((run.query, run.state, run.answer) for run in runs(place))


TITLES_SINCE = 6
"""The version of the tables that has titles of conversations."""
STATES = [
    ("finished", "finished", "one"),
    ("interrupted", "interrupted", None),
    ("named", "finished", "two"),
    ("paused", "paused", None),
]


def test_its_runs_are_listed_shown_and_replayed(written, tmp_path):
    assert state_of(written) == STATES
    for run in runs(written):
        assert show(run.id, store=written).messages[1]["content"] == run.query
        export(run.id, tmp_path / "exported.jsonl", store=written)
        if run.state == "finished":
            again = agent_of(None, tools=[book, pay])
            renew(tmp_path / "exported.jsonl", again)
            replayed = again.replay(tmp_path / "exported.jsonl")
            assert replayed.answer == run.answer
            stored = Session.load(tmp_path / "exported.jsonl").messages
            assert [m["content"] for m in replayed.messages] == [m["content"] for m in stored]


def test_its_conversations_are_listed_and_get_titles(written):
    with closing(sqlite3.connect(written)) as file:
        had_titles = file.execute("PRAGMA user_version").fetchone()[0] >= TITLES_SINCE
    (found,) = list_conversations(written)
    assert (found.name, found.title) == ("ada", "Bookings" if had_titles else "named")
    rename_conversation(found.key, "Rooms", store=written)
    assert [info.title for info in list_conversations(written)] == ["Rooms"]


def test_each_request_has_its_own_usage_although_former_versions_wrote_the_sum(written):
    with closing(sqlite3.connect(written)) as file:
        columns = [row[1] for row in file.execute("PRAGMA table_info(steps)")]
        for run, step, outcome in file.execute("SELECT run, step, outcome FROM steps WHERE call = ''").fetchall():
            data = json.loads(outcome)
            data["usage"] |= {"requests": step, "input_tokens": 100 * step**2, "cost": 0.5 * step}
            data.pop("request_usage", None)
            file.execute(
                "UPDATE steps SET outcome = ? WHERE run = ? AND step = ? AND call = ''", (json.dumps(data), run, step)
            )
        if "digest" in columns:
            file.execute("UPDATE steps SET digest = NULL")
        file.commit()
    for run in runs(written):
        spans = [span for span in show(run.id, store=written).trace["spans"] if span["kind"] == "model"]
        figures = [(span["usage"]["requests"], span["usage"]["input_tokens"], span["usage"]["cost"]) for span in spans]
        assert figures == [(1, 100, 0.5), (1, 300, 0.5)]
        assert (run.usage.requests, run.usage.input_tokens, run.usage.cost) == (2, 400, 1.0)


def renew(path: Path, agent) -> None:
    """Write the instruction and the schemas of an agent of today into an exported run."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "message" and line["place"] == 0:
            line["message"]["content"] = agent.instruction
        if "tools" in line:
            line["tools"] = schemas_of(agent.tools)
    path.write_text("\n".join(map(json.dumps, lines)))


def test_its_runs_are_resumed(world, written):
    old = written
    ids = {run.query: run.id for run in runs(old)}
    done = agent_of(old, answer("done"), answer("again"), tools=[book, pay])
    assert resume(world, done, ids["finished"], changed="go on").answer == "one"
    (waiting,) = Session.resumed(ids["paused"], old).waiting
    paused = resume(world, done, ids["paused"], changed="go on", approvals={waiting.id: True})
    assert [m["content"] for m in paused.messages if m["role"] == "tool"][:2] == ["booked c", "paid 7"]
    interrupted = resume(world, done, ids["interrupted"], changed="go on")
    texts = [m["content"] for m in interrupted.messages if m["role"] == "tool"]
    assert texts[0] == "booked d"
    assert texts[1].startswith("OutcomeUnknown")
    session = Session.open("ada", old)
    assert session.messages[1]["content"] == "named"
    assert world.run(agent_of(None, answer("three"), tools=[book, pay]), "More", session=session).answer == "three"
    assert {run.state for run in runs(old)} == {"finished"}


@pytest.mark.parametrize("name", ["{}-lease", "{}-lease-1a2b"])
@pytest.mark.parametrize("how", [HOLD_BYTE, HOLD_FILE], ids=["a byte", "a file"])
def test_it_is_not_changed_while_a_process_of_its_version_has_a_lock(world, old, name, how):
    before = old.read_bytes()
    program = [sys.executable, "-c", HOLDER.format(how), name.format(old)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(JournalError, match=rf"older version of agentkit: .*process {holder.pid}\).* Stop it"):
                runs(old)
            with pytest.raises(JournalError, match="older version"):
                Session.open("ada", old)
            assert old.read_bytes() == before
        finally:
            holder.stdin.close()
            holder.wait()
    assert state_of(old) == STATES


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone lists the locks of processes")
def test_the_process_is_named_beside_others_that_take_and_release_locks(tmp_path):
    journal = str(tmp_path / "runs.db")
    programs = [[HOLDER.format(HOLD_BYTE), f"{journal}-lease"], *([OTHERS, str(tmp_path / name)] for name in "abc")]
    with ExitStack() as stack:
        for program in programs:
            started = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            stack.callback(started.kill)
            started.stdout.readline()
        named = {holder for _ in range(100) for holder in find_lock_holders(journal)}
        assert len(named) == 1
        assert "(process " in named.pop()


def test_threads_that_open_it_at_once_bring_it_up_to_date_once(old):
    found: list[list[tuple]] = []
    threads = [threading.Thread(target=lambda: found.append(state_of(old))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [STATES] * 6
    with closing(sqlite3.connect(old)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_a_change_that_fails_leaves_it_as_it_was(old):
    with closing(sqlite3.connect(old)) as file:
        file.execute("ALTER TABLE conversations ADD COLUMN title TEXT")  # the last change adds it, too
        file.commit()
        before = [*file.iterdump()], file.execute("PRAGMA user_version").fetchone()
    with pytest.raises(JournalError):
        runs(old)
    with closing(sqlite3.connect(old)) as file:
        assert ([*file.iterdump()], file.execute("PRAGMA user_version").fetchone()) == before


@in_databases
@pytest.mark.parametrize(("readable_by", "writable_by"), [(0, 0), (0, 1), (1, 1)])
def test_the_next_version_states_what_this_one_may_do(world, path, readable_by, writable_by):
    result = world.run(agent_of(path, answer("3")), "Go")
    following = SCHEMA_VERSION + 1
    values = (following, SCHEMA_VERSION + readable_by, SCHEMA_VERSION + writable_by)
    with opened_store(path) as store:
        store.execute([("INSERT INTO compatibility VALUES (?, ?, ?)", values)])
        if isinstance(store, SqliteStore):
            store.execute([(f"PRAGMA user_version={following}", ())])
        else:
            store.execute([("INSERT INTO version VALUES (?)", (following,))])
            store.close()  # else the connection stays open for the next run
    if readable_by:
        with pytest.raises(JournalError, match="Update agentkit"):
            runs(path)
        return
    assert show(result.run_id, store=path).messages == result.messages
    agent = agent_of(path, answer("4"))
    world.run(agent, "Again")
    assert len(runs(path)) == (1 if writable_by else 2)


def test_an_older_program_that_is_connected_to_a_server_is_named(postgres_url):
    import psycopg

    agent_of(postgres_url, answer("3"))("Go")
    with opened_store(postgres_url) as store:
        store.execute(
            [("ALTER TABLE conversations DROP COLUMN tags", ()), ("UPDATE version SET number = number - 1", ())]
        )
        store.close()
    with psycopg.connect(postgres_url, application_name="agentkit", autocommit=True) as older:
        older.execute("SELECT pg_advisory_lock(12345678901234)")
        pid = older.info.backend_pid
        with pytest.raises(JournalError, match=f"older version of agentkit: process {pid} from 127.0.0.1. .* Stop it"):
            runs(postgres_url)
    assert [run.answer for run in runs(postgres_url)] == ["3"]
