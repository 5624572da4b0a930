"""The database of workers: where DBOS keeps its queue, where the journal is, and the tables between them.

The events of running runs are written into it in batches, so that clients can follow.
"""

import hashlib
import json
import logging
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
    Frame,
    Journal,
    JournalError,
    Lease,
    LeaseLost,
    RunFilter,
    RunNotice,
    SqlStore,
    Step,
    StepBegun,
    StepEnded,
    Store,
    close_store,
    create_private,
    draw_frames,
    encode_frame,
    find_run,
    fold,
    mask,
    open_store,
)
from .queue_tables import EventBatch, QueueTables, WorkerTables

PICKLED_NONE = "gAROLg=="
OLDEST_SQLITE = (3, 42)
"""The SQLite that DBOS needs from Python 3.12 on, for `unixepoch('subsec')`; it does not check."""

FILE_SCHEME = "sqlite:///"
SCHEMES = ("postgresql://", "postgres://", FILE_SCHEME)
"""The beginnings of the URLs of a database of workers."""


@dataclass(frozen=True, slots=True)
class Database:
    """The database of workers.

    Attributes:
        journal: The journal with the steps of the runs; a run does not continue unrecorded.
        queue: The URL under which DBOS keeps its tables.
        store: The open journal.
        tables: The tables of DBOS.
        own: The tables of the workers.
    """

    journal: Journal
    queue: str
    store: SqlStore
    tables: QueueTables
    own: WorkerTables

    @classmethod
    def open(cls, url: str) -> "Database":
        """Open the database and create what it lacks.

        Raises:
            DefinitionError: It is no URL of PostgreSQL or SQLite, or this SQLite is too old.
            JournalError: It cannot be opened.
        """
        check_url(url)
        if url.startswith(FILE_SCHEME):
            check_sqlite(sys.version_info[:2], sqlite3.sqlite_version_info[:2])
            queue = f"{url}-queue"
        else:
            queue = f"{SCHEMES[0]}{url.partition('://')[2]}"
            _check_hosts(queue)
        store = open_store(url)
        if not isinstance(store, SqlStore):
            close_store(store)
            raise DefinitionError(f"workers: {url!r:.80} is a file of lines. Name the file of the database *.db.")
        own = WorkerTables(store)
        own.create()
        _create_queue(store, own, queue)
        return cls(Journal(url, errors="raise"), queue, store, QueueTables(store), own)

    def close(self) -> None:
        """Release the journal."""
        self.tables.close()
        close_store(self.store)


def check_url(url: Any) -> None:
    """Raise `DefinitionError` for what is not the URL of a database of workers."""
    if not isinstance(url, str) or not url.startswith(SCHEMES):
        raise DefinitionError(
            f"workers: {mask(repr(url)):.80} is not the URL of their database. "
            f"Give {SCHEMES[0]}USER@HOST/DATABASE, or on one machine {FILE_SCHEME}runs.db"
        )


def _check_hosts(queue: str) -> None:
    """Raise `DefinitionError` for a URL that DBOS cannot read: `host1:1,host2:2`, which PostgreSQL's programs can."""
    library = import_module("sqlalchemy")
    try:
        library.make_url(queue)
    except (ValueError, library.exc.ArgumentError) as error:
        raise DefinitionError(
            f"workers: {mask(repr(queue)):.80}: the host or the port cannot be read. Give one host and one port, or "
            f"several as {SCHEMES[0]}USER@/DATABASE?host=HOST1,HOST2&port=5432,5432"
        ) from error


def _create_queue(store: SqlStore, own: WorkerTables, queue: str) -> None:
    """Create the tables of DBOS, or bring them to its installed version; a row says that they are complete."""
    installed = f"{version('dbos')} with sessions"
    if not store.is_server:
        create_private(queue.removeprefix(FILE_SCHEME))
    if not store.is_server or not own.has_version(installed):
        try:
            import_module("dbos").DBOS.migrate(queue)
        except import_module("sqlalchemy").exc.SQLAlchemyError as error:
            raise queue_error(store, error) from error
        with closing(QueueTables(store)) as tables:
            tables.create_index()
        own.add_version(installed)


def queue_error(store: SqlStore, error: Exception) -> JournalError:
    """Return an error of SQLAlchemy, with which DBOS reads and writes its tables, as that of the queue."""
    text = " ".join(str(getattr(error, "orig", None) or error).split())
    place = " in the schema dbos" if store.is_server else ""
    failure = JournalError(f"the queue of {store.named}{place}: {text}")
    failure.__cause__ = error
    return failure


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


def find_superseded(store: Store, runs: Sequence[str]) -> dict[str, str | None]:
    """Return those of the runs whose conversation was continued by another run, with the next run there."""
    superseded = [run for run in store.runs(RunFilter(ids=runs)) if run.status == "superseded"] if runs else []
    if not superseded:
        return {}
    others = store.runs(RunFilter(conversations={run.conversation for run in superseded}))
    found = dict[str, str | None]()
    for run in superseded:
        later = [other for other in others if other.conversation == run.conversation and other.number > run.number]
        found[run.id] = min(later, key=lambda other: other.number).id if later else None
    return found


def list_calls(store: Store, run: str) -> list[Step]:
    """Return the calls of a run as far as they are recorded."""
    steps = fold(store.records(*store.runs(RunFilter(ids=[run])), kinds=(StepBegun, StepEnded))).steps[run]
    return [step for step in steps.values() if step.call]


def list_in_doubt(store: Store, run: str) -> list[str]:
    """Return the calls that began and have no outcome, because a worker died in them or the run was stopped."""
    calls = [call for call in list_calls(store, run) if call.ended is None]
    return [f"{call.name} ({call.call})" for call in sorted(calls, key=lambda call: call.step)]


def complete_status(store: Store, run: str) -> dict[str, Any]:
    """Return the journal's part of the status of a run that no worker ended: DBOS keeps no outcome of such a run."""
    if not store.runs(RunFilter(ids=[run])):
        return {}
    try:
        found = find_run(store, run)
    except JournalError:  # it is damaged
        return {}
    known = {"usage": found.usage, "steps": found.steps, "in_doubt": (*list_in_doubt(store, run),)}
    if found.state == "finished":  # another program has continued it
        known |= {"state": "finished", "answer": found.answer, "error": "", "pending": ()}
    return known


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


def is_unreachable(error: JournalError) -> bool:
    """Return whether a journal failed because its database cannot be reached or is busy, which may pass."""
    cause: Any = error.__cause__
    return any(kind.__name__ in ("OperationalError", "InterfaceError") for kind in type(cause).__mro__)


WRITE_SECONDS = 0.1
"""Seconds between two writes of new events."""
MAX_UNWRITTEN_EVENTS = 10_000
"""Events of a run that wait for a database that is away; later ones are counted in a notice, and lost."""
_log = logging.getLogger("agentkit")


class RunEvents:
    """The frames of one run that are not written yet."""

    def __init__(self, run: str, number: int) -> None:
        self._run = run
        self._number = number
        self._began = time.perf_counter()
        self._entries = list[dict[str, Any]]()
        self._lost = 0
        self._batches = list[EventBatch]()
        """Those that were not written yet.  A batch stays as it is, because a write that failed may have succeeded."""
        self._unwritten = 0
        """The number of the events in them."""
        self.listen = draw_frames(self._add)
        """The listener of the run."""

    def _add(self, frame: Frame) -> None:
        if len(self._entries) + self._unwritten > MAX_UNWRITTEN_EVENTS:
            self._lost += 1
            return
        self._note_lost()
        self._append(frame)

    def _note_lost(self) -> None:
        if self._lost:
            text = f"{self._lost} events are missing here, because the database of the workers was away."
            self._lost = 0
            _log.warning("run %s: %s", self._run, text)
            self._append(RunNotice("", text, is_warning=True))

    def _append(self, frame: Frame) -> None:
        self._entries.append(encode_frame(frame, time.perf_counter() - self._began))

    def take(self) -> list[EventBatch]:
        """Return what is not written, the new events in a last batch; the run's thread may add one at any moment."""
        if not self._batches:
            self._note_lost()
        if entries := self._entries[:]:
            del self._entries[: len(entries)]
            self._unwritten += len(entries)
            self._number += 1
            self._batches.append((self._run, self._number, json.dumps(entries, default=str)))
        return [*self._batches]

    def forget(self) -> None:
        """Remove the batches that `take` has returned: they are written, or cannot be."""
        self._batches.clear()
        self._unwritten = 0


class EventLog:
    """Writes the events of all runs of a worker; one whose lease is lost writes nothing."""

    def __init__(self, database: Database, lease: Lease) -> None:
        self._database = database
        self._lease = lease
        self._open: set[RunEvents] = set()
        self._guard = threading.Lock()
        """Held up to the end of a write: a client that has a batch never asks for one before it."""

    def open(self, run: str) -> RunEvents:
        """Return the events of a run that begins or continues."""
        events = RunEvents(run, self._database.own.last_event(run))
        with self._guard:
            self._open.add(events)
        return events

    def close(self, events: RunEvents) -> bool:
        """Write the last events of a run; return False if the database is away, so that it must be done again."""
        with self._guard:
            self._open.discard(events)
            return self._write([events]) and self._write([events])  # the second may have a notice of lost events

    def write(self) -> None:
        """Write the new events of all runs."""
        with self._guard:
            self._write([*self._open])

    def _write(self, logs: Sequence[RunEvents]) -> bool:
        """Write what is new; return False if the database is away, and the next write has it again."""
        if batches := [batch for events in logs for batch in events.take()]:
            try:
                self._database.own.add_events(batches, self._lease)
            except LeaseLost:  # other workers write the events of the runs
                pass
            except JournalError as error:
                if is_unreachable(error):
                    return False
                _log.warning("events of runs are lost for those who watch them: %s", error)
            for events in logs:
                events.forget()
        return True
