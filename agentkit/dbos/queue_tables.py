"""What the queue holds, and the tables in which DBOS keeps it.

A piece of work and its outcome are JSON.  Statements on the tables, which run all or not at all, do what DBOS has no
function for.

In PostgreSQL they are in the schema `dbos` of the journal's database, in SQLite in a file beside the journal.

Runs of one session wait for their turn: each is submitted with a delay that never ends, and is admitted to the queue of
its agent when no run of the session before it is unfinished.
"""

import json
import math
import re
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_core import to_jsonable_python

from .. import ExceptionInfo, Paused, Result, RunError, RunStopped
from ..extend import JournalError, Lease, SqlStore, join_given, mask, to_answer_data

VALID_RUN_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
CONTINUED = "~"
"""Between the id of a run and the number of its continuation, in the id of a workflow."""
DEFAULT_ATTEMPTS = 3
DEFAULT_PRIORITY = 100
NO_KEY = "-"
"""The partition of runs without a key."""
MAX_INTEGER = (1 << 31) - 1
MAX_DELAY = 1e9
"""Seconds, about 31 years: with more, no time of the database could hold the beginning of the run."""


def check_run_id(run: Any) -> None:
    """Raise `RunError` for what cannot be the id of a run."""
    if not isinstance(run, str) or not VALID_RUN_ID.fullmatch(run):
        raise RunError(f"id: {run!r:.120} is not the id of a run. Use 1 to 100 of a-z, A-Z, 0-9 and . _ : -")


def check_integer(name: str, value: Any) -> None:
    """Raise `RunError` unless an argument is an integer above 0 that a column can hold."""
    if not isinstance(value, int) or not 1 <= value <= MAX_INTEGER:
        raise RunError(f"{name} must be an integer from 1 to {MAX_INTEGER}, got {value!r:.60}")


def check_queue_text(name: str, text: Any) -> None:
    """Raise `RunError` unless an argument is a text that a database can hold."""
    if not isinstance(text, str) or "\0" in text:
        raise RunError(f"{name} must be a text without null characters, got {text!r:.60}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RunError(f"{name} must be a text of whole characters, got {text!r:.60}") from error


def check_delay(delay: Any) -> None:
    """Raise `RunError` unless a delay is a number of seconds that the queue can add to the present time."""
    if not isinstance(delay, int | float) or not 0 <= delay <= MAX_DELAY:
        raise RunError(f"delay must be a number of seconds from 0 to {MAX_DELAY:.0f}, got {delay!r:.60}")


def check_wait(timeout: Any) -> None:
    """Raise `RunError` unless a timeout is a number of seconds or None."""
    if timeout is not None and (not isinstance(timeout, int | float) or math.isnan(timeout)):
        raise RunError(f"timeout must be a number of seconds or None, got {timeout!r:.60}")


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run to begin or to continue.

    Attributes:
        agent: The name under which workers have the agent.
        run: The id of the run, in the journal too.
        query: The question.
        session: The name of the conversation; "" for one of its own.
        attempts: How often a worker may begin with it: each time after the first, its worker had died or its model
            had failed.
        answers: Decisions and answers, by the ids of what the run waits for.
    """

    agent: str
    run: str
    query: str
    session: str = ""
    attempts: int = DEFAULT_ATTEMPTS
    answers: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.query, str) or not self.query.strip():
            raise RunError(f"query must be a text that is not empty, got {self.query!r:.60}")
        check_run_id(self.run)
        check_integer("attempts", self.attempts)

    def encode(self) -> str:
        """Return the work as JSON."""
        try:
            return json.dumps(asdict(self), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise RunError(f"run {self.run}: decisions and answers must be JSON data: {error}") from error

    @classmethod
    def decode(cls, text: str) -> "QueuedRun":
        """Return the work that `encode` described."""
        work = json.loads(text)
        work["answers"] = join_given(work.pop("approvals", None), work["answers"])  # older versions have approvals
        return cls(**work)


def result_outcome(result: Result[Any]) -> dict[str, Any]:
    """Return the outcome of a run with an answer."""
    answer = to_answer_data(result.answer)
    return {"state": "finished", "answer": answer, "stopped": result.stopped, **_figures(result)}


def error_outcome(error: Exception) -> dict[str, Any]:
    """Return the outcome of a run that an error ended."""
    info = ExceptionInfo.of(error)
    outcome: dict[str, Any] = {"state": "failed", "error": f"{info.name}: {mask(str(error))}"}
    if isinstance(error, Paused):
        outcome["state"] = "paused"
        outcome["pending"] = [entry.as_dict() for entry in error.pending]
    elif isinstance(error, RunStopped):
        outcome["state"] = "stopped"
    return {**outcome, **_figures(getattr(error, "result", None))}


def _figures(result: Result[Any] | None) -> dict[str, Any]:
    return {} if result is None else {"steps": result.steps, "usage": result.usage.as_dict()}


def encode_outcome(outcome: Mapping[str, Any]) -> str:
    """Return an outcome as JSON."""
    return json.dumps(to_jsonable_python(outcome, fallback=str))


APPLICATION_NAME = "agentkit"
"""The name of the application in DBOS, and its version: workers with other tools take over each other's runs."""
WORKFLOW = "agentkit.run"
SCHEDULED = "agentkit.scheduled"
"""The names of the workflows: a run, and the beginning of a scheduled one."""
LOCK_SECONDS = 10.0
"""Seconds that a statement waits for the lock of another process."""
WAITING_SECONDS = 1e11
"""The delay of a run that waits for its turn in a session."""
WAITING_MILLISECONDS = 90_000_000_000_000
"""The end of such a delay is later than this time in milliseconds since 1970."""
UNFINISHED_STATUSES = ("ENQUEUED", "PENDING", "DELAYED")
"""The statuses of DBOS of a run that is queued or running."""
CONTENTS = {
    "workflow_output": "workflow_uuid",
    "operation_outputs": "workflow_uuid",
    "workflow_events": "workflow_uuid",
    "workflow_events_history": "workflow_uuid",
    "streams": "workflow_uuid",
    "notifications": "destination_uuid",
}
"""The tables of DBOS with what a workflow has done, and their columns with its id."""
BEFORE_ALL = -(1 << 50)
"""Added to the time of a continuation, which comes before all other runs of its session."""


class QueueTables:
    """The tables of DBOS; its errors are `JournalError`s."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._file: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._is_server = store.is_server
        if not self._is_server:
            path = queue_file(store)
            self._file = sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA secure_delete=on")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with self._lock:
                self._file.close()

    def create_index(self) -> None:
        """Create what finds the unfinished runs of a session."""
        statuses = ", ".join(f"'{status}'" for status in UNFINISHED_STATUSES)
        sql = f"ON {self._table('workflow_status')} (({self._attribute('session')})) WHERE status IN ({statuses})"
        self._append([(f"CREATE INDEX IF NOT EXISTS agentkit_sessions {sql}", ())])

    def admit(self, session: str = "", *, ended: str = "") -> None:
        """Let the next run of a session into the queue of its agent, or without a name those of all sessions.

        Args:
            session: The name of the session.
            ended: A workflow that has its outcome, although DBOS has not written it yet.
        """
        table = self._table("workflow_status")
        of_session = f"AND {self._attribute('session', 'w')} = ?" if session else ""
        sql = (
            f"UPDATE {table} SET status = 'ENQUEUED', delay_until_epoch_ms = ? WHERE status = 'DELAYED' "
            f"AND workflow_uuid IN (SELECT w.workflow_uuid FROM {table} w WHERE w.status = 'DELAYED' "
            f"AND w.delay_until_epoch_ms > {WAITING_MILLISECONDS} AND w.name = '{WORKFLOW}' "
            f"AND {self._due('w')} <= ? {of_session} "
            f"AND NOT EXISTS (SELECT 1 FROM {table} o WHERE o.status IN ('ENQUEUED', 'PENDING', 'DELAYED') "
            f"AND {self._attribute('session', 'o')} = {self._attribute('session', 'w')} "
            "AND o.workflow_uuid != w.workflow_uuid AND o.workflow_uuid != ? "
            f"AND (o.status != 'DELAYED' OR ({self._due('o')} <= ? AND "
            f"({self._due('o')}, {self._number('at', 'o')}) < ({self._due('w')}, {self._number('at', 'w')})))))"
        )
        waiting = f"SELECT 1 FROM {table} WHERE status = 'DELAYED' AND delay_until_epoch_ms > {WAITING_MILLISECONDS}"
        if session or self._read(f"{waiting} LIMIT 1"):
            now = int(time.time() * 1000)
            self._append([(sql, (now, now, *([session] if session else []), ended, now))])

    def workers(self) -> list[str]:
        """Return the workers that have runs in progress, as far as the queue knows."""
        sql = f"SELECT DISTINCT executor_id FROM {self._table('workflow_status')} WHERE status = 'PENDING' "
        return [worker for (worker,) in self._read(f"{sql} AND name IN ('{WORKFLOW}', '{SCHEDULED}')") if worker]

    def release(self, worker: str) -> None:
        """Put the runs of a dead worker back into their queues, in their old places."""
        sql = (
            f"UPDATE {self._table('workflow_status')} SET status = 'ENQUEUED', owner_xid = NULL, "
            "started_at_epoch_ms = NULL, recovery_attempts = 0 "
            f"WHERE status = 'PENDING' AND executor_id = ? AND name IN ('{WORKFLOW}', '{SCHEDULED}')"
        )
        self._append([(sql, (worker,))])

    def read_all(self) -> list[tuple[str, str, str, int]]:
        """Return the id, the name, the status and the time of the last change (in ms) of all workflows of agentkit."""
        sql = f"SELECT workflow_uuid, name, status, updated_at FROM {self._table('workflow_status')}"
        return self._read(f"{sql} WHERE name IN ('{WORKFLOW}', '{SCHEDULED}')")

    def has_unfinished(self, workflows: Sequence[str]) -> bool:
        """Return whether one of the workflows is queued or running."""
        marks = ", ".join("?" * len(workflows))
        sql = f"SELECT status FROM {self._table('workflow_status')} WHERE workflow_uuid IN ({marks})"
        return any(status in UNFINISHED_STATUSES for (status,) in self._read(sql, *workflows))

    def empty(self, workflows: Sequence[str]) -> None:
        """Remove the contents of workflows that have ended; their ids stay, so that none begins a second time."""
        marks = ", ".join("?" * len(workflows))
        existing = self._list_tables()
        deleted = [
            (f"DELETE FROM {self._table(name)} WHERE {column} IN ({marks})", workflows)
            for name, column in CONTENTS.items()
            if name in existing
        ]
        inputs = f"UPDATE {self._table('workflow_input')} SET inputs = NULL WHERE workflow_uuid IN ({marks})"
        rest = "inputs = NULL, output = NULL, error = NULL, attributes = NULL"
        status = f"UPDATE {self._table('workflow_status')} SET {rest} WHERE workflow_uuid IN ({marks})"
        self._append([*deleted, *([(inputs, workflows)] if "workflow_input" in existing else []), (status, workflows)])

    def _list_tables(self) -> set[str]:
        of_server = "SELECT tablename FROM pg_tables WHERE schemaname = 'dbos'"
        found = self._read(of_server if self._is_server else "SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in found}

    def _table(self, name: str) -> str:
        return f"dbos.{name}" if self._is_server else name

    def _attribute(self, name: str, alias: str = "") -> str:
        column = f"{alias}.attributes" if alias else "attributes"
        return f"({column} ->> '{name}')" if self._is_server else f"json_extract({column}, '$.{name}')"

    def _number(self, name: str, alias: str) -> str:
        return f"CAST({self._attribute(name, alias)} AS bigint)"

    def _due(self, alias: str) -> str:
        """The time from which a run may begin: it is the order of a session, by the clock of the database."""
        return f"({alias}.created_at + {self._number('delay', alias)})"

    def _append(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        if self._file is None:
            self._store.execute(statements)
            return
        with self._lock:
            try:
                with self._file:
                    self._file.execute("BEGIN IMMEDIATE")
                    for sql, values in statements:
                        self._file.execute(sql, values)
            except sqlite3.Error as error:
                raise JournalError(f"the queue of {self._store.named}: {error}") from error

    def _read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        if self._file is None:
            return self._store.read(sql, *values)
        with self._lock:
            try:
                return self._file.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                raise JournalError(f"the queue of {self._store.named}: {error}") from error


TABLES = (
    "CREATE TABLE IF NOT EXISTS worker_beats (worker text PRIMARY KEY, beat bigint NOT NULL, host text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS run_attempts (workflow text, worker text, begun double precision)",
    "CREATE INDEX IF NOT EXISTS attempts_of ON run_attempts (workflow)",
    "CREATE TABLE IF NOT EXISTS run_events "
    "(run text, number bigint, written double precision, body text NOT NULL, PRIMARY KEY (run, number))",
    "CREATE TABLE IF NOT EXISTS queue_versions (dbos text PRIMARY KEY)",
)
POSTGRES_NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
SQLITE_NOW = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
"""The present time in milliseconds since 1970, by the clock of the database."""
POSTGRES_SEEN = "greatest(beat, CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000 AS bigint))"
"""The last time at which a worker showed itself, or could not because the server was starting."""
EventBatch: TypeAlias = tuple[str, int, str]
"""A run, the number of the batch, and its events as JSON."""


class WorkerTables:
    """The tables of the workers beside those of the journal: signs of life, attempts, and events of runs."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        is_server = store.is_server
        self._now = POSTGRES_NOW if is_server else SQLITE_NOW
        self._seen = POSTGRES_SEEN if is_server else "beat"

    def create(self) -> None:
        """Create the tables that the journal lacks."""
        for is_last in (False, True):  # two processes may create them at the same time, and one of them fails
            try:
                self._store.execute([(sql, ()) for sql in TABLES])
                break
            except JournalError:
                if is_last:
                    raise
                time.sleep(0.2)

    def has_version(self, installed: str) -> bool:
        """Return whether the tables of DBOS were brought to this version."""
        return bool(self._store.read("SELECT 1 FROM queue_versions WHERE dbos = ?", installed))

    def add_version(self, installed: str) -> None:
        """Note that the tables of DBOS have this version."""
        self._store.execute([("INSERT INTO queue_versions VALUES (?) ON CONFLICT DO NOTHING", (installed,))])

    def add_beat(self, worker: str, host: str, lease: Lease) -> None:
        """Add the first sign of life of a worker."""
        sql = f"INSERT INTO worker_beats VALUES (?, {self._now}, ?) ON CONFLICT DO NOTHING"
        self._store.execute([(sql, (worker, host))], lease)

    def beat(self, worker: str, lease: Lease) -> None:
        """Show that a worker lives; raise `LeaseLost` if others have taken it for dead."""
        self._store.execute([(f"UPDATE worker_beats SET beat = {self._now} WHERE worker = ?", (worker,))], lease)

    def remove_beat(self, worker: str, lease: Lease | None = None) -> None:
        """Remove the signs of life of a worker."""
        self._store.execute([("DELETE FROM worker_beats WHERE worker = ?", (worker,))], lease)

    def beats(self) -> list[tuple[str, int, int]]:
        """Return the workers, their last signs of life, and the milliseconds since they could show one."""
        return self._store.read(f"SELECT worker, beat, {self._now} - {self._seen} FROM worker_beats")

    def attempts(self, workflow: str) -> list[tuple[str, float]]:
        """Return the workers and the times of the attempts; a time is negative if the run did not cause the failure."""
        sql = "SELECT worker, begun FROM run_attempts WHERE workflow = ? ORDER BY abs(begun)"
        return self._store.read(sql, workflow)

    def add_attempt(self, workflow: str, worker: str, begun: float) -> None:
        """Add an attempt."""
        self._store.execute([("INSERT INTO run_attempts VALUES (?, ?, ?)", (workflow, worker, begun))])

    def mark_attempt(self, workflow: str, begun: float) -> None:
        """Mark an attempt whose failure the run did not cause."""
        sql = "UPDATE run_attempts SET begun = -abs(begun) WHERE workflow = ? AND begun = ?"
        self._store.execute([(sql, (workflow, begun))])

    def read_events(self, run: str, after: int) -> list[tuple[int, str]]:
        """Return the numbers and texts of the batches of events of a run."""
        sql = "SELECT number, body FROM run_events WHERE run = ? AND number > ? ORDER BY number"
        return self._store.read(sql, run, after)

    def last_event(self, run: str) -> int:
        """Return the number of the last batch of events of a run."""
        return int(self._store.read("SELECT coalesce(max(number), 0) FROM run_events WHERE run = ?", run)[0][0])

    def add_events(self, batches: Iterable[EventBatch], lease: Lease) -> None:
        """Add batches of events."""
        sql = "INSERT INTO run_events VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        self._store.execute([(sql, (run, number, time.time(), body)) for run, number, body in batches], lease)

    def prune_events(self, before: float) -> None:
        """Remove the events that were written before a time."""
        self._store.execute([("DELETE FROM run_events WHERE written < ?", (before,))])

    def empty(self, run: str, workflows: Sequence[str]) -> None:
        """Remove the events of a run, and the attempts of its workflows."""
        attempts = f"DELETE FROM run_attempts WHERE workflow IN ({', '.join('?' * len(workflows))})"
        self._store.execute([("DELETE FROM run_events WHERE run = ?", (run,)), (attempts, workflows)])


class QueueCleanUp:
    """Removes what the queue and the workers have of runs that are deleted from the journal."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._tables = QueueTables(store) if store.is_server or Path(queue_file(store)).exists() else None
        self._workflows = defaultdict[str, list[str]](list)
        self._changed = defaultdict[str, int](int)
        for workflow, name, _, changed in self._tables.read_all() if self._tables else ():
            run = run_of_schedule(workflow) if name == SCHEDULED else run_of(workflow)
            self._workflows[run].append(workflow)
            self._changed[run] = max(self._changed[run], changed)

    def empty(self, run: str) -> bool:
        """Remove the query, the outcome, the events and the attempts of a run; its id stays.

        Returns:
            Whether the run has ended for the queue, or is not there; nothing is removed from one that is queued or
            running.
        """
        if self._tables is None or run not in self._workflows:
            return True
        known = self._workflows[run]
        next_number = sum(run_of(workflow) == run for workflow in known)
        if self._tables.has_unfinished([*known, f"{run}{CONTINUED}{next_number}"]):
            return False
        self._tables.empty(known)
        WorkerTables(self._store).empty(run, known)
        return True

    def empty_others(self, before: float) -> None:
        """Remove runs that ended before a time and are not in the journal: those stopped while queued, say."""
        old = [run for run, changed in self._changed.items() if changed < before * 1000]
        kept = {run.id for run in self._store.runs()} if old else set()
        for run in old:
            if run not in kept:
                self.empty(run)

    def close(self) -> None:
        """Close the queue."""
        if self._tables is not None:
            self._tables.close()


def queue_file(store: SqlStore) -> str:
    """Return the path of the queue beside a journal in a file."""
    return f"{store.place}-queue"


def run_of(workflow: str) -> str:
    """Return the run of a workflow."""
    return workflow.partition(CONTINUED)[0]


def run_of_schedule(workflow: str) -> str:
    """Return the id of the run that a workflow of a schedule submits."""
    return re.sub(r"[^\w.:-]", "-", workflow.removeprefix("sched-"))


def session_options(session: str, delay: float = 0.0, *, is_continued: bool = False) -> dict[str, Any]:
    """Return the options of DBOS for a run: when it begins, and its place in its session."""
    if not session:
        return {"delay_seconds": delay} if delay else {}
    attributes = {"session": session, "delay": BEFORE_ALL if is_continued else int(delay * 1000), "at": time.time_ns()}
    return {"delay_seconds": WAITING_SECONDS, "attributes": attributes}
