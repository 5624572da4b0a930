"""The database of workers: where DBOS keeps its queue, where the journal is, and the tables between them."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ..core.errors import DefinitionError
from ..sessions.journal.connections import close_store, open_store
from ..sessions.journal.location import POSTGRES_SCHEMES, Journal, JournalError, is_url
from ..sessions.journal.store import Statement, Store

SQLITE_SCHEME = "sqlite:///"
APPLICATION = "agentkit"
"""The name of the application in DBOS, and its version: workers with other tools take over each other's runs."""
WORKFLOW, SCHEDULED = "agentkit.run", "agentkit.scheduled"
"""The names of the workflows: a run, and the beginning of a scheduled one."""
TABLES = (
    "CREATE TABLE IF NOT EXISTS worker_beats (worker text PRIMARY KEY, beat bigint NOT NULL, host text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS run_attempts (workflow text, worker text, begun double precision)",
    "CREATE INDEX IF NOT EXISTS attempts_of ON run_attempts (workflow)",
    "CREATE TABLE IF NOT EXISTS run_events "
    "(run text, number bigint, written double precision, body text NOT NULL, PRIMARY KEY (run, number))",
)


@dataclass(frozen=True, slots=True)
class Database:
    """The database of workers.

    Attributes:
        journal: The journal with the steps of the runs; a run does not continue unrecorded.
        queue: The URL under which DBOS keeps its tables.
        store: The open journal.
    """

    journal: Journal
    queue: str
    store: Store

    @classmethod
    def open(cls, url: str) -> "Database":
        """Open the database and create what it lacks.

        Raises:
            DefinitionError: It is no URL of PostgreSQL or SQLite.
            JournalError: It cannot be opened.
        """
        if not isinstance(url, str) or not url.startswith((*POSTGRES_SCHEMES, SQLITE_SCHEME)):
            raise DefinitionError(
                f"workers: {url!r:.80} is not the URL of their database. "
                f"Give {POSTGRES_SCHEMES[0]}USER@HOST/DATABASE, or on one machine {SQLITE_SCHEME}runs.db"
            )
        place = url.removeprefix(SQLITE_SCHEME)
        queue = f"postgresql://{place.partition('://')[2]}" if is_url(place) else f"{url}-queue"
        store = open_store(place)
        _create_tables(store)
        if not _has_queue(store, queue):
            import_module("dbos").DBOS.migrate(queue)
        return cls(Journal(place, errors="raise"), queue, store)

    def close(self) -> None:
        """Release the journal."""
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


def _has_queue(store: Store, queue: str) -> bool:
    if queue.startswith(SQLITE_SCHEME):
        return Path(queue.removeprefix(SQLITE_SCHEME)).exists()
    return bool(store.read("SELECT 1 FROM pg_tables WHERE schemaname = 'dbos' AND tablename = 'workflow_status'"))


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


def event_statement(run: str, number: int, body: str) -> Statement:
    """Return the statement that adds a batch of events."""
    sql = "INSERT INTO run_events VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
    return sql, (run, number, time.time(), body)


def is_unreachable(error: JournalError) -> bool:
    """Return whether a journal failed because its database cannot be reached or is busy, which may pass."""
    cause: Any = error.__cause__
    return any(kind.__name__ in ("OperationalError", "InterfaceError") for kind in type(cause).__mro__)
