"""Files with flipped bits, or cut off: every read ends in an error of agentkit, and other runs stay readable."""

import os
import random
import sqlite3
from contextlib import closing

import pytest

from agentkit import JsonAgent, RunError, Session, tool
from agentkit.core.errors import DefinitionError
from agentkit.journal import export, runs, show
from agentkit.mcp.lock import compare_servers, format_servers, read_servers
from agentkit.sessions.journal.maintenance import salvage
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.lock import compare_locks, format_lock, lock, read_lock

DAMAGES = int(os.environ.get("AGENTKIT_DAMAGES", "2000"))
"""Damaged copies of each file in the integration test."""
KINDS = ("journal", "recording", "session", "tool lock", "server lock", "lease")


@tool(effect="write")
def book(place: str) -> str:
    """Books."""
    return f"booked {place}"


def agent_of(path=None) -> JsonAgent:
    return JsonAgent(book, model=ScriptedModel(call("book", place="a"), answer("done")), journal=path)


def damage(content: bytes, chance: random.Random) -> bytes:
    """Flip a bit, overwrite some bytes or cut the content."""
    changed = bytearray(content)
    place = chance.randrange(len(changed)) if changed else 0
    kind = chance.randrange(4)
    if kind < 2 and changed:
        changed[place] ^= 1 << chance.randrange(8)
    elif kind == 2:
        changed[place : place + 12] = chance.randbytes(12)
    else:
        del changed[place:]
    return bytes(changed)


class Files:
    """A sound file of each kind, and what reads it."""

    def __init__(self, folder):
        self.folder = folder
        self.place = folder / "file"
        self.schemas = lock([book])
        self.servers = {"shop": {"book": {"description": "Books.", "inputSchema": self.schemas["tools"]["book"]}}}
        journal = folder / "runs.db"
        for number in range(3):
            session = Session.open(f"name {number}", journal)
            agent_of(journal).run(f"Go {number}", session=session)
        with closing(sqlite3.connect(journal, isolation_level=None)) as file, file:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.close()
        agent_of().run("Go", record=folder / "recording", session=session)
        session.save(folder / "session")
        self.sound = {
            "journal": journal.read_bytes(),
            "recording": (folder / "recording").read_bytes(),
            "session": (folder / "session").read_bytes(),
            "tool lock": format_lock(self.schemas).encode(),
            "server lock": format_servers(self.servers).encode(),
            "lease": b"",
        }

    def read(self, kind: str, content: bytes) -> None:
        """Read a damaged file in all ways; raise the error of agentkit that a way ends in, if it is damaged."""
        self.place.write_bytes(content)
        getattr(self, f"_read_{kind.replace(' ', '_')}")()

    def _read_journal(self) -> None:
        for other in self.folder.glob("file-*"):
            other.unlink()
        salvaged = self.folder / "salvaged"
        salvaged.unlink(missing_ok=True)
        ways = [lambda: Session.open("name 1", self.place), lambda: salvage(self.place, salvaged)]
        for run in attempt(lambda: runs(self.place)) or ():
            ways += [
                lambda run=run: str(show(run.id, store=self.place)),
                lambda run=run: show(run.id, store=self.place).to_html(),
                lambda run=run: export(run.id, self.folder / "exported", store=self.place),
                lambda run=run: agent_of(self.place).resume(run.id),
            ]
        for way in ways:
            attempt(way)

    def _read_recording(self) -> None:
        attempt(lambda: Session.load(self.place).to_html())
        attempt(lambda: agent_of().replay(self.place))

    def _read_session(self) -> None:
        session = attempt(lambda: Session.load(self.place))
        if session is not None:
            session.to_html()
            attempt(lambda: agent_of().run("More", session=session))

    def _read_tool_lock(self) -> None:
        text = self.place.read_bytes().decode(errors="replace")
        attempt(lambda: compare_locks(read_lock(text), self.schemas))

    def _read_server_lock(self) -> None:
        attempt(lambda: compare_servers(read_servers(self.place), self.servers))

    def _read_lease(self) -> None:
        """A lock file beside a journal has no content of its own; whatever it has is ignored."""
        journal = self.folder / "runs.db"
        (self.folder / "runs.db-lease-1a2b").write_bytes(self.place.read_bytes() or b"\0")
        assert [run.state for run in runs(journal)] == ["finished"] * 4


def attempt(action):
    """Return what the action returns; None if it raises an error of agentkit."""
    try:
        return action()
    except (RunError, DefinitionError):
        return None


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Files:
    return Files(tmp_path_factory.mktemp("damage"))


@pytest.mark.parametrize("kind", KINDS)
def test_damage_ends_in_an_error_of_agentkit(files, kind):
    check(files, kind, 30 if kind == "journal" else 150, seed=1)


@pytest.mark.integration
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_damages_end_in_errors_of_agentkit(files, kind):
    check(files, kind, DAMAGES, seed=2)


def check(files: Files, kind: str, number: int, seed: int) -> None:
    chance = random.Random(f"{seed} {kind}")
    failed = {}
    for _ in range(number):
        content = damage(files.sound[kind], chance)
        try:
            files.read(kind, content)
        except Exception as error:
            failed.setdefault(f"{type(error).__name__}: {error}"[:200], []).append(error)
    assert {text: len(errors) for text, errors in failed.items()} == {}, next(iter(failed.values()))[0]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET begun = 'x', query = 7 WHERE rowid = 2",
        "UPDATE runs SET outcome = '[1]' WHERE rowid = 2",
        "UPDATE runs SET origin = x'ff' WHERE rowid = 2",
        "UPDATE steps SET outcome = '7', digest = NULL WHERE run = (SELECT id FROM runs WHERE rowid = 2)",
        "UPDATE messages SET body = x'ff' WHERE conversation = (SELECT conversation FROM runs WHERE rowid = 2)",
        "UPDATE messages SET place = 'x' WHERE place = 2 AND conversation = (SELECT conversation FROM runs WHERE rowid = 2)",
        "UPDATE conversations SET state = '[]' WHERE id = (SELECT conversation FROM runs WHERE rowid = 2)",
    ],
)
def test_one_damaged_run_does_not_keep_the_others_from_being_read(tmp_path, statement):
    path = tmp_path / "runs.db"
    for number in range(3):
        agent_of(path).run(f"Go {number}", session=Session())
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(statement)
    file.close()
    listed = runs(path)
    sound = [run for run in listed if run.query in ("Go 0", "Go 2")]
    assert [run.state for run in sound] == ["finished", "finished"]
    for run in sound:
        assert agent_of(path).resume(run.id).answer == "done"
    for run in listed:
        attempt(lambda run=run: agent_of(path).resume(run.id))
        attempt(lambda run=run: show(run.id, store=path).to_html())
    assert salvage(path, tmp_path / "saved.db") >= 2
    assert {"Go 0", "Go 2"} <= {run.query for run in runs(tmp_path / "saved.db")}
