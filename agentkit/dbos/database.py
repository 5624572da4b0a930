"""The database of workers: where DBOS keeps its queue, where the journal is, and the tables between them.

The events of running runs are written into it in batches, so that clients can follow.
"""

import hashlib
import json
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

from .. import DefinitionError, RunError
from ..extend import (
    POSTGRES_SCHEMES,
    SQLITE_SCHEME,
    Frame,
    Journal,
    JournalError,
    Lease,
    Statement,
    Store,
    close_store,
    create_private,
    draw_frames,
    encode_frame,
    is_url,
    open_store,
    without_scheme,
)
from .queue_tables import QueueTables

TABLES = (
    "CREATE TABLE IF NOT EXISTS worker_beats (worker text PRIMARY KEY, beat bigint NOT NULL, host text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS run_attempts (workflow text, worker text, begun double precision)",
    "CREATE INDEX IF NOT EXISTS attempts_of ON run_attempts (workflow)",
    "CREATE TABLE IF NOT EXISTS run_events "
    "(run text, number bigint, written double precision, body text NOT NULL, PRIMARY KEY (run, number))",
    "CREATE TABLE IF NOT EXISTS queue_versions (dbos text PRIMARY KEY)",
)
POSTGRES_NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
POSTGRES_SEEN = "greatest(beat, CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000 AS bigint))"
PICKLED_NONE = "gAROLg=="
SQLITE_NOW = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
OLDEST_SQLITE = (3, 42)
"""The SQLite that DBOS needs from Python 3.12 on, for `unixepoch('subsec')`; it does not check."""


@dataclass(frozen=True, slots=True)
class Database:
    """The database of workers.

    Attributes:
        journal: The journal with the steps of the runs; a run does not continue unrecorded.
        queue: The URL under which DBOS keeps its tables.
        store: The open journal.
        tables: The tables of DBOS.
    """

    journal: Journal
    queue: str
    store: Store
    tables: QueueTables

    @classmethod
    def open(cls, url: str) -> "Database":
        """Open the database and create what it lacks.

        Raises:
            DefinitionError: It is no URL of PostgreSQL or SQLite, or this SQLite is too old.
            JournalError: It cannot be opened.
        """
        if not isinstance(url, str) or not url.startswith((*POSTGRES_SCHEMES, SQLITE_SCHEME)):
            raise DefinitionError(
                f"workers: {url!r:.80} is not the URL of their database. "
                f"Give {POSTGRES_SCHEMES[0]}USER@HOST/DATABASE, or on one machine {SQLITE_SCHEME}runs.db"
            )
        if is_url(url):
            queue = f"postgresql://{url.partition('://')[2]}"
        else:
            check_sqlite(sys.version_info[:2], sqlite3.sqlite_version_info[:2])
            queue = f"{url}-queue"
        store = open_store(url)
        _create_tables(store)
        _create_queue(store, queue)
        return cls(Journal(url, errors="raise"), queue, store, QueueTables(store))

    @property
    def now(self) -> str:
        """The SQL of the present time in milliseconds since 1970, by the clock of the database."""
        return POSTGRES_NOW if is_url(self.store.place) else SQLITE_NOW

    @property
    def seen(self) -> str:
        """The SQL of the last time at which a worker showed itself, or could not because the server was starting."""
        return POSTGRES_SEEN if is_url(self.store.place) else "beat"

    def close(self) -> None:
        """Release the journal."""
        self.tables.close()
        close_store(self.store)


def _create_tables(store: Store) -> None:
    for is_last in (False, True):  # two processes may create them at the same time, and one of them fails
        try:
            store.append([(sql, ()) for sql in TABLES])
            break
        except JournalError:
            if is_last:
                raise
            time.sleep(0.2)


def _create_queue(store: Store, queue: str) -> None:
    """Create the tables of DBOS, or bring them to its installed version; a row says that they are complete."""
    installed = f"{version('dbos')} with sessions"
    if not is_url(queue):
        create_private(without_scheme(queue))
    if not is_url(queue) or not store.read("SELECT 1 FROM queue_versions WHERE dbos = ?", installed):
        import_module("dbos").DBOS.migrate(queue)
        with closing(QueueTables(store)) as tables:
            tables.create_index()
        store.append([("INSERT INTO queue_versions VALUES (?) ON CONFLICT DO NOTHING", (installed,))])


def check_sqlite(python: tuple[int, ...], sqlite: tuple[int, ...]) -> None:
    """Raise `DefinitionError` if DBOS cannot use this version of SQLite."""
    if python >= (3, 12) and sqlite < OLDEST_SQLITE:
        found, oldest = (".".join(map(str, one)) for one in (sqlite, OLDEST_SQLITE))
        raise DefinitionError(
            f"workers: this Python has SQLite {found}, expected {oldest} or newer. "
            "Use PostgreSQL, or a Python that has a newer SQLite"
        )


def lock_key(worker: str) -> int:
    """Return the key of the lease that a worker holds as long as it lives."""
    return int.from_bytes(hashlib.blake2b(f"worker {worker}".encode(), digest_size=8).digest()) >> 4


def queue_of(agent: str) -> str:
    """Return the name of an agent's queue."""
    return f"agentkit.{agent}"


def read_events(store: Store, run: str, after: int) -> Sequence[tuple[int, str]]:
    """Return the numbers and texts of the batches of events of a run."""
    sql = "SELECT number, body FROM run_events WHERE run = ? AND number > ? ORDER BY number"
    return [(number, body) for number, body in store.read(sql, run, after)]


def find_superseded(store: Store, runs: Sequence[str]) -> dict[str, str | None]:
    """Return those of the runs whose conversation was continued by another run, with the next run there."""
    if not runs:
        return {}
    later = "l.conversation = r.conversation AND l.rowid > r.rowid ORDER BY l.rowid LIMIT 1"
    marks = ", ".join("?" * len(runs))
    sql = f"SELECT r.id, (SELECT l.id FROM runs l WHERE {later}) FROM runs r WHERE r.id IN ({marks}) AND r.status = ?"
    return dict(store.read(sql, *runs, "superseded"))


class _JsonOnly(threading.local):
    """Whether this thread refuses pickle; the attribute of the class holds for threads without one of their own."""

    is_set = False


_json_only = _JsonOnly()


@contextmanager
def json_only() -> Iterator[None]:
    """Refuse, in the block, rows of the queue that are marked as pickle; the block blocks, and is not nested."""
    _json_only.is_set = True
    try:
        yield
    finally:
        del _json_only.is_set


class _RefusedPickle:
    """In the place of what DBOS uses for rows that are marked as pickle, whatever serializer it was given.

    In a worker it refuses them all; elsewhere those of agentkit, because the program may use DBOS itself.
    """

    def __init__(self, original: Any) -> None:
        self.original = original

    def name(self) -> str:
        return str(self.original.name())

    def serialize(self, data: Any) -> str:
        return json.dumps(str(data)) if _json_only.is_set else str(self.original.serialize(data))

    def deserialize(self, text: str) -> Any:
        if _json_only.is_set:
            raise RunError("the row is marked as pickle, which could run any code, so it is not read")
        return self.original.deserialize(text)


def refuse_pickle(*, in_process: bool = False) -> None:
    """Let DBOS read no pickle where agentkit uses it, or with `in_process` in all of the process.

    Raises:
        DefinitionError: This version of DBOS reads it nevertheless.
    """
    module: Any = import_module("dbos._serialization")
    if not isinstance(module.DBOSDefaultSerializer, _RefusedPickle):
        module.DBOSDefaultSerializer = _RefusedPickle(module.DBOSDefaultSerializer)
    if in_process:
        _JsonOnly.is_set = True
    with json_only():
        try:
            module.deserialize_value(PICKLED_NONE, "py_pickle", import_module("dbos").DBOSPortableJSONSerializer())
        except RunError:
            return
    raise DefinitionError(f"workers: dbos {version('dbos')} reads rows that are marked as pickle. Install another 3.x")


def event_statement(run: str, number: int, body: str) -> Statement:
    """Return the statement that adds a batch of events."""
    sql = "INSERT INTO run_events VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
    return sql, (run, number, time.time(), body)


def is_unreachable(error: JournalError) -> bool:
    """Return whether a journal failed because its database cannot be reached or is busy, which may pass."""
    cause: Any = error.__cause__
    return any(kind.__name__ in ("OperationalError", "InterfaceError") for kind in type(cause).__mro__)


WRITE_SECONDS = 0.1
"""Seconds between two writes of new events."""
MAX_UNWRITTEN_EVENTS = 10_000
"""Events of a run that wait for a database that is away; later ones are dropped until it is back."""


class RunEvents:
    """The frames of one run that are not written yet."""

    def __init__(self, run: str, number: int) -> None:
        self._run = run
        self._number = number
        self._began = time.perf_counter()
        self._entries = list[dict[str, Any]]()
        self.listen = draw_frames(self._add)
        """The listener of the run."""

    def _add(self, frame: Frame) -> None:
        if len(self._entries) <= MAX_UNWRITTEN_EVENTS:
            self._entries.append(encode_frame(frame, time.perf_counter() - self._began))

    def take(self) -> Iterator[Statement]:
        """Yield the statement that writes the new events, if there are any."""
        if entries := self._entries:
            self._entries = []
            self._number += 1
            yield event_statement(self._run, self._number, json.dumps(entries, default=str))


class EventLog:
    """Writes the events of all runs of a worker; one whose lease is lost writes nothing."""

    def __init__(self, database: Database, lease: Lease) -> None:
        self._database = database
        self._lease = lease
        self._open: set[RunEvents] = set()
        self._guard = threading.Lock()

    def open(self, run: str) -> RunEvents:
        """Return the events of a run that begins or continues."""
        sql = "SELECT coalesce(max(number), 0) FROM run_events WHERE run = ?"
        events = RunEvents(run, self._database.store.read(sql, run)[0][0])
        with self._guard:
            self._open.add(events)
        return events

    def close(self, events: RunEvents) -> None:
        """Write the last events of a run."""
        with self._guard:
            self._open.discard(events)
        self._write([*events.take()])

    def write(self) -> None:
        """Write the new events of all runs."""
        with self._guard:
            rows = [row for events in self._open for row in events.take()]
        self._write(rows)

    def _write(self, rows: list[Statement]) -> None:
        if rows:
            try:
                self._database.store.append(rows, self._lease)
            except JournalError:  # the run is in the journal; only a client that is watching misses these events
                return
