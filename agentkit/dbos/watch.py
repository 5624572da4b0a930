"""What a worker does each second: show that it is alive, stop cancelled runs, take over the runs of dead workers.

Each worker holds a lease named after it.  The database ends the lease with the worker's connection, so a worker whose
lease is free and that has shown nothing for some seconds is dead.  A process that stands still keeps its connection:
after `FROZEN_SECONDS` the others end it, and when the worker wakes, its lease is lost and it writes nothing.
"""

import socket
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from ..sessions.journal.location import ConversationBusy, JournalError, LeaseLost, is_url
from ..sessions.journal.store import Lease
from .database import SCHEDULED, WORKFLOW, Database, lock_key
from .execution import Execution

BEAT_SECONDS = 1.0
"""Seconds between two signs of life."""
QUIET_SECONDS = 3.0
"""Seconds without a sign of life after which a worker whose lease is free is dead."""
FROZEN_SECONDS = 10.0
"""Seconds without a sign of life after which the connection of a worker is ended."""
KEPT_EVENT_SECONDS = 86_400.0
"""Seconds for which the events of a run are kept."""
PRUNE_SECONDS = 600.0
END_CONNECTION = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks, leases WHERE conversation = ? AND locktype = 'advisory' "
    "AND objsubid = 1 AND classid = owner >> 32 AND objid = owner & 4294967295 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class Watch:
    """The signs of life of this worker, and its view of the others."""

    def __init__(self, database: Database, worker: str, lease: Lease) -> None:
        self._database, self._worker, self._lease = database, worker, lease
        self._beats: dict[str, tuple[int, float]] = {}
        """The last beats of other workers, and when they changed; the clocks of machines may differ."""
        self._last, self._pruned = time.monotonic(), 0.0
        sql = "INSERT INTO worker_beats VALUES (?, 0, ?) ON CONFLICT DO NOTHING"
        database.store.append([(sql, (worker, socket.gethostname()))], lease)

    def beat(self, execution: Execution) -> None:
        """Do once what is done each second.

        Raises:
            LeaseLost: Others have taken this worker for dead; it must end.
        """
        dbos = import_module("dbos").DBOS
        now = time.monotonic()
        if now - self._last > QUIET_SECONDS:  # this worker or the database stood still: look at all workers anew
            self._beats.clear()
        sql = "UPDATE worker_beats SET beat = beat + 1 WHERE worker = ?"
        self._database.store.append([(sql, (self._worker,))], self._lease)
        if execution.active:
            for found in dbos.list_workflows(
                workflow_ids=[*execution.active], status="CANCELLED", load_input=False, load_output=False
            ):
                execution.stop(found.workflow_id)
        self._take_over(dbos)
        self._prune()
        self._last = time.monotonic()

    def end(self) -> None:
        """Remove the signs of life of this worker, which ends."""
        with suppress(JournalError):
            sql = "DELETE FROM worker_beats WHERE worker = ?"
            self._database.store.append([(sql, (self._worker,))], self._lease)

    def _take_over(self, dbos: Any) -> None:
        pending = self._pending_of_others(dbos)
        beats = dict(self._database.store.read("SELECT worker, beat FROM worker_beats"))
        now = time.monotonic()
        for worker in pending:
            beat = beats.get(worker, -1)
            known, since = self._beats.get(worker, (None, now))
            self._beats[worker] = beat, since if known == beat else now
            quiet = now - self._beats[worker][1]
            if quiet >= QUIET_SECONDS:
                self._try_to_take(dbos, worker, is_frozen=quiet >= FROZEN_SECONDS)
        for worker in self._beats.keys() - pending.keys():
            del self._beats[worker]

    def _pending_of_others(self, dbos: Any) -> dict[str, list[Any]]:
        pending = defaultdict(list)
        for found in dbos.list_workflows(
            name=[WORKFLOW, SCHEDULED], status="PENDING", load_input=False, load_output=False
        ):
            if found.executor_id != self._worker:
                pending[found.executor_id].append(found)
        return pending

    def _try_to_take(self, dbos: Any, worker: str, *, is_frozen: bool) -> None:
        store, key = self._database.store, lock_key(worker)
        try:
            lease = store.lease(key, f"worker {worker}")
        except ConversationBusy:
            if is_frozen and is_url(store.place):
                store.read(END_CONNECTION, key)
            return
        try:  # only now, because another worker may have taken them over meanwhile
            for found in self._pending_of_others(dbos).get(worker, ()):
                dbos.resume_workflow(found.workflow_id, queue_name=found.queue_name)
            store.append([("DELETE FROM worker_beats WHERE worker = ?", (worker,))])
        finally:
            lease.release()

    def _prune(self) -> None:
        if time.monotonic() - self._pruned > PRUNE_SECONDS:
            self._pruned = time.monotonic()
            self._database.store.append(
                [("DELETE FROM run_events WHERE written < ?", (time.time() - KEPT_EVENT_SECONDS,))]
            )


def repeat(
    action: Callable[[], None], seconds: float, is_over: Callable[[float], bool], failed: Callable[[], None]
) -> None:
    """Perform an action again and again until `is_over(seconds)`, which waits; a lost lease ends it with `failed`."""
    while not is_over(seconds):
        try:
            action()
        except LeaseLost:
            failed()
            return
        except Exception:  # the database is away: next time
            continue
