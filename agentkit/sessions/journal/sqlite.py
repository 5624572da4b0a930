"""The default store: a SQLite file in WAL mode, which many runs and processes use at once.

Each message, request and call is one row.  Texts are stored whole, secrets included, because a resumed run must make
the calls that it was about to make: protect the file like the data in it.
"""

import os
import secrets
import sqlite3
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from glob import escape, glob
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ...core.private_files import create_private
from ..records import (
    ConversationCut,
    ConversationNamed,
    ConversationTagged,
    ConversationTitled,
    MessageWritten,
    Record,
    RunBegun,
    RunConcluded,
    RunEntry,
    RunReopened,
    StateWritten,
    Step,
    StepBegun,
    StepEnded,
    StepWithdrawn,
    TextStored,
    cut_digest,
    digest,
)
from .search import SearchHit, has_words, is_unspaced, searchable_text
from .store import (
    ALL_RUNS,
    LOCK_TIMEOUT,
    MISSING_REMEDY,
    JournalError,
    JournalNotFound,
    Lease,
    LeaseLost,
    OwnerFile,
    Place,
    RunFilter,
    SharedStore,
    Sync,
    check_free,
    damage_error,
    is_alive,
    name_process,
)

if sys.platform != "win32":
    import fcntl

T = TypeVar("T")
Statement: TypeAlias = tuple[str, Sequence[Any]]
MIGRATIONS = (
    """
CREATE TABLE conversations (id INTEGER PRIMARY KEY, name TEXT UNIQUE, state TEXT NOT NULL DEFAULT '{}');
CREATE TABLE messages (
    conversation INTEGER, place INTEGER, body TEXT NOT NULL, digest INTEGER NOT NULL, PRIMARY KEY (conversation, place)
) WITHOUT ROWID;
CREATE TABLE cut (conversation INTEGER, key TEXT, body TEXT NOT NULL, PRIMARY KEY (conversation, key)) WITHOUT ROWID;
CREATE TABLE runs (
    id TEXT PRIMARY KEY, conversation INTEGER, query TEXT, model TEXT, setup TEXT, first INTEGER, begun REAL,
    ended REAL, status TEXT, outcome TEXT, origin TEXT
);
CREATE INDEX runs_of ON runs (conversation);
CREATE INDEX runs_from ON runs (origin, begun, id) WHERE origin IS NOT NULL;
CREATE TABLE setups (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE steps (
    run TEXT, step INTEGER, call TEXT, name TEXT, input INTEGER, arguments TEXT, begun REAL, ended REAL, outcome TEXT,
    PRIMARY KEY (run, step, call)
) WITHOUT ROWID
""",
    "ALTER TABLE runs ADD COLUMN last INTEGER;\nALTER TABLE steps ADD COLUMN digest INTEGER",
    """
DROP TABLE IF EXISTS leases;
CREATE TABLE leases (conversation INTEGER PRIMARY KEY, token INTEGER, owner INTEGER, holder TEXT, since TEXT)
""",
    "ALTER TABLE cut ADD COLUMN digest INTEGER",
    "CREATE TABLE IF NOT EXISTS compatibility (version INTEGER PRIMARY KEY, readable_by INTEGER, writable_by INTEGER)",
    "ALTER TABLE conversations ADD COLUMN title TEXT",
    """
CREATE TABLE spending (
    account TEXT, run TEXT, spent REAL NOT NULL, held REAL NOT NULL, process INTEGER, PRIMARY KEY (account, run)
) WITHOUT ROWID
""",
    "ALTER TABLE conversations ADD COLUMN tags TEXT",
)
"""The statements that turn version n of the tables into version n + 1; version 0 has no tables."""
SCHEMA_VERSION = len(MIGRATIONS)
READABLE_BY = 5
WRITABLE_BY = 5
"""The oldest version whose programs can read, or write, the tables of this version; the table `compatibility` has it
for the versions to which the tables were brought, so that an older program knows what it may do."""
APPLICATION_ID = 0x616B6A6C
"""The application id, in the header of a SQLite file."""
DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
COLUMNS = {
    "messages": (("conversation", "place"), ("body", "digest")),
    "cut": (("conversation", "key"), ("body", "digest")),
    "setups": (("id",), ("body",)),
    "steps": (("run", "step", "call"), ("name", "input", "arguments", "begun", "ended", "outcome", "digest")),
    "leases": (("conversation",), ("token", "owner", "holder", "since")),
    "spending": (("account", "run"), ("spent", "held", "process")),
}
"""The columns of the tables whose rows are inserted whole, in order: those that identify a row, and the others."""
OF_RUNS = (("steps", "run"), ("runs", "id"))
OF_CONVERSATIONS = (("messages", "conversation"), ("cut", "conversation"), ("conversations", "id"))
"""The tables with rows of a run, or of a conversation, and the column with its key."""


def insert(table: str, *, replace: bool = False) -> str:
    """Return the statement that adds a row, unless a row with its key exists; with `replace` in place of that row."""
    keys, others = COLUMNS[table]
    changes = ", ".join(f"{name} = excluded.{name}" for name in others)
    action = f"({', '.join(keys)}) DO UPDATE SET {changes}" if replace else "DO NOTHING"
    columns = (*keys, *others)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) ON CONFLICT {action}"


SELECT_RUNS = """
SELECT id, conversation, query, model, first, last, begun, ended, status, outcome, origin, rowid FROM runs
"""
SELECT_BEGINS = """
SELECT r.id, r.query, r.model, r.first, r.begun, r.conversation, s.body, r.origin, r.status, r.outcome, r.ended, r.last
FROM runs r LEFT JOIN setups s ON s.id = r.setup
"""
SELECT_STEPS = "SELECT run, step, call, name, input, arguments, begun, digest, ended, outcome FROM steps"
SELECT_VERSION = """
SELECT c.state, (SELECT count(*) FROM messages m WHERE m.conversation = c.id), r.id, r.status, r.ended,
(SELECT max(coalesce(s.ended, s.begun)) FROM steps s WHERE s.run = r.id) FROM conversations c
LEFT JOIN runs r ON r.conversation = c.id WHERE c.id = ? ORDER BY r.rowid DESC LIMIT 1
"""
SEARCHED = "searched"
"""The table with a mark for each conversation whose messages the index of words has; it is made by the first search."""
SELECT_MARKS = """
SELECT conversation, max(rowid), max(coalesce(ended, 0)), sum(CASE WHEN ended IS NULL THEN 1 ELSE 0 END) FROM runs
WHERE origin IS NULL OR origin NOT LIKE '%/%' GROUP BY conversation
"""
SELECT_UNCHECKED = "SELECT conversation, key, body FROM cut WHERE digest IS NULL"
"""The texts of an older version, which get their digests when the tables are brought up to date."""
CHECK_CUT = "UPDATE cut SET digest = ? WHERE conversation = ? AND key = ?"
IS_INNER = "origin > '' AND origin LIKE '%/%'"
"""Runs of agents inside tools, which are parts of others; an index has them."""
DELETE_SETUPS = "DELETE FROM setups WHERE id NOT IN (SELECT setup FROM runs WHERE setup IS NOT NULL)"
INSERT_MESSAGE = insert("messages", replace=True)
INSERT_CUT = insert("cut", replace=True)
INSERT_STEP = insert("steps", replace=True)
INSERT_SETUP = insert("setups")
INSERT_CONVERSATION = "INSERT INTO conversations (id, name) VALUES (?, ?) ON CONFLICT DO NOTHING"
NAME_CONVERSATION = (
    "INSERT INTO conversations (id, name) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name"
)
RELEASE_NAME = "UPDATE conversations SET name = NULL WHERE name = ? AND id != ?"
INSERT_RUN = """
INSERT INTO runs (id, conversation, query, model, setup, first, begun, status, origin)
VALUES (?, ?, ?, ?, ?, ?, ?, 'open', ?) ON CONFLICT DO NOTHING
"""
SUPERSEDE_RUNS = "UPDATE runs SET status = 'superseded' WHERE conversation = ? AND status != 'finished' AND id != ?"
END_STEP = "UPDATE steps SET ended = ?, outcome = ?, digest = ? WHERE run = ? AND step = ? AND call = ?"
REPLACE_OUTCOME = "UPDATE steps SET outcome = ?, digest = ? WHERE run = ? AND step = ? AND call = ?"
END_RUN = "UPDATE runs SET status = ?, ended = ?, outcome = ?, last = ? WHERE id = ?"
TAKE_LEASE = f"{insert('leases', replace=True)} WHERE leases.token = ? AND leases.owner = ?"
"""Takes the lease of a conversation that has none, or the one that was read before."""
WRITE_SPENDING = insert("spending", replace=True)
BEGIN_ACCOUNT = insert("spending")
"""Adds the row for the runs of an account that have ended, whose name is ""."""
LOCK_ACCOUNT = "UPDATE spending SET spent = spent WHERE account = ? AND run = ''"
"""Lets others wait who lock the account, until the end of the transaction."""
RESERVE = WRITE_SPENDING.replace(
    "VALUES (?, ?, ?, ?, ?)",
    "SELECT ?, ?, ?, ?, ? "
    "WHERE (SELECT coalesce(sum(spent + held), 0) FROM spending WHERE account = ? AND run != ?) <= ?",
)
"""Sets dollars aside, if the others have not taken too much meanwhile."""
END_SPENDING = (
    "UPDATE spending SET spent = spent + (SELECT other.spent FROM spending other WHERE other.account = ? AND "
    "other.run = ?) WHERE account = ? AND run = '' AND EXISTS "
    "(SELECT 1 FROM spending other WHERE other.account = ? AND other.run = ?)",
    "DELETE FROM spending WHERE account = ? AND run = ?",
)
"""Adds what a run has spent to the row of those that have ended; a second time nothing is done."""
END_LEASE = "DELETE FROM leases WHERE conversation = ? AND token = ?"


def migrations_from(version: int) -> Iterator[str]:
    """Yield the statements that bring the tables of a version up to date."""
    for statements in MIGRATIONS[version:]:
        yield from statements.strip().split(";\n")
    yield f"INSERT INTO compatibility VALUES ({SCHEMA_VERSION}, {READABLE_BY}, {WRITABLE_BY}) ON CONFLICT DO NOTHING"


def digest_texts(rows: Iterable[Any]) -> Iterator[tuple[int, int, str]]:
    """Yield the values of `CHECK_CUT` for rows of `SELECT_UNCHECKED`."""
    for conversation, key, body in rows:
        yield cut_digest(conversation, key, body), conversation, key


def statements_of(record: Record) -> Iterator[Statement]:
    """Yield the statements that write a record; one that a file alone has, has none."""
    match record:
        case StepEnded():
            step, call, outcome, ended, run, _, check = record
            if ended is None:
                yield REPLACE_OUTCOME, (outcome, check, run, step, call)
            else:
                yield END_STEP, (ended, outcome, check, run, step, call)
        case StepBegun():
            step, call, name, arguments, number, time_begun, run, _, check = record
            yield INSERT_STEP, (run, step, call, name, number, arguments, time_begun, None, None, check)
        case MessageWritten():
            place, body, key, check = record
            yield INSERT_MESSAGE, (key, place, body, digest(place, body) if check is None else check)
        case StateWritten(body, key):
            yield "UPDATE conversations SET state = ? WHERE id = ?", (body, key)
        case ConversationCut(place, key):
            yield "DELETE FROM messages WHERE conversation = ? AND place >= ?", (key, place)
        case TextStored(name, None, key):
            yield "DELETE FROM cut WHERE conversation = ? AND key = ?", (key, name)
        case TextStored(name, body, key, check):
            yield INSERT_CUT, (key, name, body, check)
        case StepWithdrawn(step, call, run):
            yield "DELETE FROM steps WHERE run = ? AND step = ? AND call = ?", (run, step, call)
        case ConversationNamed(name, key):
            yield RELEASE_NAME, (name, key)
            yield NAME_CONVERSATION, (key, name)
        case ConversationTitled(title, key):
            yield "UPDATE conversations SET title = ? WHERE id = ?", (title or None, key)
        case ConversationTagged(tags, key):
            yield "UPDATE conversations SET tags = ? WHERE id = ?", (tags or None, key)
        case RunReopened(run):
            yield "UPDATE runs SET status = 'open', ended = NULL WHERE id = ?", (run,)
        case RunConcluded(status, outcome, ended, last, run):
            yield END_RUN, (status, ended, outcome, last, run)
        case RunBegun():
            run, query, model, first, begun, key, setup, origin = record
            identity = None if setup is None else f"{digest('', setup):016x}"
            yield INSERT_CONVERSATION, (key, None)
            yield SUPERSEDE_RUNS, (key, run)
            if setup is not None:
                yield INSERT_SETUP, (identity, setup)
            yield INSERT_RUN, (run, key, query, model, identity, first, begun, origin or None)


class SqlStore(SharedStore):
    """An open journal in a SQL database, usable from any thread; all its errors are `JournalError`s.

    It keeps the rows of the tables, as JSON with digests.  All databases understand the same SQL: `?` for a value,
    `ON CONFLICT`, a `rowid` in `runs` that increases with each new run, and texts that are compared byte by byte.  A
    lease is a row that names its owner, by which others see whether the process that has it still lives.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._owner = 0
        """The number in the leases of this process, by which others see whether it lives."""
        self._held: dict[int, Lease] = {}
        """The leases of this process, by their tokens."""
        self._reserves: set[tuple[str, str]] = set()
        """The accounts and runs for which this process has set dollars aside."""
        self._is_read_only = False
        """Whether a later version has made the tables, which this version can only read."""
        self._ended: list[Statement] = []
        """The statements that remove leases, and could not be run yet."""

    @abstractmethod
    def execute(self, statements: Sequence[Statement], lease: Lease | None = None) -> None:
        """Run the statements, all or none of them; see `Store.append`."""

    @abstractmethod
    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""

    @abstractmethod
    def _is_alive(self, owner: int) -> bool:
        """Return whether the owner of leases, which is not this process, still lives."""

    @abstractmethod
    def _own(self) -> int:
        """Return the number of this process, after others can see by it that the process lives."""

    def append(self, records: Sequence[Record], lease: Lease | None = None) -> None:
        """Write the records, all or none of them; see `Store.append`."""
        self.execute([statement for record in records for statement in statements_of(record)], lease)

    def records(self, *of: int | RunEntry, kinds: Collection[type[Record]] = ()) -> Iterator[Record | Step]:
        """Yield the records of conversations (by their keys) and of runs."""
        keys = [key for key in of if not isinstance(key, RunEntry)]
        runs = {run.id: run.conversation for run in of if isinstance(run, RunEntry)}

        def wants(kind: type[Record]) -> bool:
            return not kinds or kind in kinds

        closed = list[Record]()
        if runs and (wants(RunBegun) or wants(RunConcluded)):
            for row in self._of(SELECT_BEGINS, "r.id", runs, "r.rowid"):
                *begun, origin, status, outcome, ended, last = row
                run, query, model, first, time_begun, key, setup = begun
                yield RunBegun(run, query, model, first, time_begun, key, setup, origin or "")
                if status != "open":
                    closed.append(RunConcluded(status, outcome, ended, last, run, key))
        if runs and (wants(StepBegun) or wants(StepEnded)):
            for row in self._of(SELECT_STEPS, "run", runs, "run, begun"):
                if row[0] not in runs:  # the index leads to the row of another run
                    raise damage_error(self, f"its index of steps leads to the run {row[0]!r}")
                yield Step(*row)
        yield from closed
        if keys and wants(MessageWritten):
            sql = "SELECT place, body, conversation, digest FROM messages"
            yield from map(MessageWritten._make, self._of(sql, "conversation", keys, "conversation, place"))
        if keys and wants(TextStored):
            sql = "SELECT key, body, conversation, digest FROM cut"
            yield from map(TextStored._make, self._of(sql, "conversation", keys, "key"))
        if keys and wants(StateWritten):
            for state, key, name in self._of("SELECT state, id, name FROM conversations", "id", keys, "id"):
                yield StateWritten(state, key)
                if name:
                    yield ConversationNamed(name, key)
        if keys and (wants(ConversationTitled) or wants(ConversationTagged)):
            for title, tags, key in self._of("SELECT title, tags, id FROM conversations", "id", keys, "id"):
                if title:
                    yield ConversationTitled(title, key)
                if tags:
                    yield ConversationTagged(tags, key)

    def _of(self, sql: str, column: str, keys: Collection[Any], order: str) -> list[tuple[Any, ...]]:
        return self.read(f"{sql} WHERE {column} IN ({', '.join('?' * len(keys))}) ORDER BY {order}", *keys)

    def runs(self, wanted: RunFilter = ALL_RUNS) -> list[RunEntry]:
        """Return the wanted runs, the newest first; those that cannot be read have the damage."""
        conditions = [*_conditions_of(wanted)]
        where = " AND ".join(condition for condition, _ in conditions) or "1 = 1"
        values = [value for _, some in conditions for value in some]
        end = sys.maxsize if wanted.limit is None else wanted.limit
        try:
            rows = self.read(f"{SELECT_RUNS} WHERE {where} ORDER BY begun DESC, rowid DESC LIMIT ?", *values, end)
            return [RunEntry(*row) for row in rows]
        except JournalError:  # a part of the file is damaged; the indexes alone have all ids
            ids = self.read(f"SELECT id FROM runs EXCEPT SELECT id FROM runs WHERE {IS_INNER}")
        found = list[RunEntry]()
        for (run,) in ids:
            try:
                found += [RunEntry(*row) for row in self.read(f"{SELECT_RUNS} WHERE {where} AND id = ?", *values, run)]
            except JournalError as error:
                if wanted == RunFilter(is_inner=False, limit=wanted.limit):  # else it may not be a wanted one
                    found.append(RunEntry(run, damage=str(error)))
        return sorted(found, key=lambda run: run.begun, reverse=True)[: wanted.limit]

    def count_messages(self, conversation: int) -> int:
        """Return the number of messages of a conversation."""
        return int(self.read("SELECT count(*) FROM messages WHERE conversation = ?", conversation)[0][0])

    def version(self, conversation: int) -> str:
        """Return a text that changes when a run of a conversation writes something."""
        rows = self.read(SELECT_VERSION, conversation)
        state, *rest = rows[0] if rows else ("",)
        return f"{digest('', state)} {rest}"

    def claim_name(self, name: str, conversation: int) -> int:
        """Return the conversation with a name; if no conversation has it, `conversation`, which has it from now on."""
        self.execute([(INSERT_CONVERSATION, (conversation, name))])
        return int(self.read("SELECT id FROM conversations WHERE name = ?", name)[0][0])

    def names(self, *wanted: str) -> dict[str, int]:
        """Return the named conversations, or those with the wanted names."""
        if wanted:
            return dict(self._of("SELECT name, id FROM conversations", "name", wanted, "name"))
        return dict(self.read("SELECT name, id FROM conversations WHERE name IS NOT NULL AND name != ''"))

    def remove(self, runs: Sequence[RunEntry]) -> None:
        """Remove runs, and the conversations that have no other run, all or none of them."""
        statements = list[Statement]()
        empty = "NOT EXISTS (SELECT 1 FROM runs WHERE runs.conversation = ?)"
        for run in runs:
            statements += [(f"DELETE FROM {table} WHERE {column} = ?", (run.id,)) for table, column in OF_RUNS]
            for table, column in OF_CONVERSATIONS:
                statements.append((f"DELETE FROM {table} WHERE {column} = ? AND {empty}", (run.conversation,) * 2))
        if self.has_table(SEARCHED):
            for key in {run.conversation for run in runs}:
                statements += self._leave_index(key, empty, key)
        self.execute(statements)

    def search(self, words: Sequence[str], limit: int) -> list[SearchHit]:
        """Return the messages that have all words, the best first; see `SearchStore.search`."""
        if any(map(is_unspaced, words)):
            return [*islice(self._scan(words), limit)]
        self._index_messages()
        return [SearchHit(*row) for row in self._find(words, limit)]

    def _scan(self, words: Sequence[str]) -> Iterator[SearchHit]:
        """Yield the messages that have all words, those of the newest runs first. The index finds begins of words."""
        for key, *_ in sorted(self.read(SELECT_MARKS), key=lambda row: row[1], reverse=True):
            for place, body in self.read("SELECT place, body FROM messages WHERE conversation = ? ORDER BY place", key):
                if has_words(searchable_text(body), words):
                    yield SearchHit(key, place, body)

    @abstractmethod
    def _find(self, words: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
        """Return the conversations, places and bodies of the messages that have words which begin with these."""

    @abstractmethod
    def _create_index(self) -> Sequence[Statement]:
        """Return the statements that add the tables of the index, `SEARCHED` among them."""

    @abstractmethod
    def _index(self, conversation: int, texts: Mapping[int, str]) -> Sequence[Statement]:
        """Return the statements that add the texts of a conversation's messages to the index, by their places."""

    @abstractmethod
    def _leave_index(self, conversation: int, condition: str = "1 = 1", *values: Any) -> Sequence[Statement]:
        """Return the statements that remove a conversation from the index, if the condition holds."""

    def _index_messages(self) -> None:
        """Bring the index up to date: runs do not write it, so that a turn costs nothing for it."""
        with self.lock:
            if not self.has_table(SEARCHED):
                self.execute(self._create_index())
            known = dict(self.read(f"SELECT conversation, mark FROM {SEARCHED}"))
            for key, last, ended, is_open in self.read(SELECT_MARKS):
                mark = f"{last} {ended} {self.version(key) if is_open else ''}"
                if known.get(key) != mark:
                    rows = self.read("SELECT place, body FROM messages WHERE conversation = ?", key)
                    texts = {place: text for place, body in rows if (text := searchable_text(body))}
                    write = f"INSERT INTO {SEARCHED} (conversation, mark) VALUES (?, ?)"
                    self.execute([*self._leave_index(key), *self._index(key, texts), (write, (key, mark))])

    def reserve(self, account: str, run: str, spent: float, wanted: tuple[float, float], most: float) -> float | None:
        """Set dollars of an account aside for a run; see `QuotaStore.reserve`."""
        least, best = wanted
        with self.lock:
            self._reserves.add((account, run))
            self.execute([(BEGIN_ACCOUNT, (account, "", 0.0, 0.0, 0))])
            while True:
                free = most - spent - self._taken(account, run)
                if free < best:
                    self._release_dead(account)
                    free = most - spent - self._taken(account, run)
                if free <= 0 or (held := min(best, free)) < least:
                    return None
                row = account, run, spent, held, self._own()
                self.execute([(LOCK_ACCOUNT, (account,)), (RESERVE, (*row, account, run, most - spent - held))])
                if self.read("SELECT held FROM spending WHERE account = ? AND run = ?", account, run) == [(held,)]:
                    return held

    def settle(self, account: str, run: str, spent: float, held: float) -> None:
        """Write what a run has spent of an account, and what it still sets aside; see `QuotaStore.settle`."""
        with self.lock:
            write = WRITE_SPENDING, (account, run, spent, held, self._own())
            if held:
                self.execute([write])
                return
            add, remove = END_SPENDING
            place = account, run
            self.execute([write, (add, (*place, account, *place)), (remove, place)])
            self._reserves.discard(place)

    def _taken(self, account: str, run: str) -> float:
        """Return what the other runs have taken from an account."""
        sql = "SELECT coalesce(sum(spent + held), 0.0) FROM spending WHERE account = ? AND run != ?"
        return float(self.read(sql, account, run)[0][0])

    def _release_dead(self, account: str) -> None:
        """Release what processes that have ended had set aside."""
        held = self.read("SELECT DISTINCT process FROM spending WHERE account = ? AND held > 0", account)
        for (process,) in held:
            if process != self._owner and not self._is_alive(process):
                self.execute([("UPDATE spending SET held = 0 WHERE account = ? AND process = ?", (account, process))])

    def take(self, conversation: int, what: str = "the conversation") -> Lease:
        """Take the lease of a conversation.

        Raises:
            ConversationBusy: Another run has it; the message names `what`, the process and the time.
            JournalError: The lease cannot be written.
        """
        lease = Lease(conversation, secrets.randbits(60), self)
        is_written = False
        with self.lock:
            try:
                while (old := self._read_free(conversation, what)) != (lease.token, self._owner):
                    values = conversation, lease.token, self._own(), name_process(), time.strftime("%Y-%m-%d %H:%M:%S")
                    self._write_ended((TAKE_LEASE, (*values, *old)))
                    is_written = True
                self._held[lease.token] = lease
            except BaseException as error:
                if is_written or not isinstance(error, JournalError):  # an interrupt may come after the write
                    self._held[lease.token] = lease
                    self.release(lease)
                raise
        return lease

    def _read_free(self, conversation: int, what: str) -> tuple[int, int]:
        """Return the token and the owner of the last lease of a conversation, if it was not ended; else zeros."""
        while (lease := self._read_lease(conversation))[2]:
            check_free(self, conversation, what)
        return lease[:2]

    def _read_lease(self, conversation: int) -> tuple[int, int, str]:
        """Return the token, the owner and the holder of the last lease; the holder is "" if it does not live."""
        with self.lock:
            found = self.read("SELECT token, owner, holder, since FROM leases WHERE conversation = ?", conversation)
            token, owner, holder, since = found[0] if found else (0, 0, "", "")
            if token in self._held if owner == self._owner else owner and self._is_alive(owner):
                named = "this process" if holder == name_process() else holder
                return token, owner, f"{named}, since {since}"
        return token, owner, ""

    def holder(self, conversation: int) -> str:
        """Return who has the lease of a conversation, and since when; "" if it is free."""
        return self._read_lease(conversation)[2]

    def keep(self, lease: Lease) -> None:
        """Raise `LeaseLost` if the lease is lost; else it lasts as long as its process."""
        if lease.is_lost:
            raise LeaseLost(
                f"{self.named}: the connection was lost, and another process has worked on the "
                "conversation meanwhile. Resume the run when that process has ended."
            )

    def release(self, lease: Lease) -> None:
        """Remove a lease; if that cannot be written now, it is with the next one."""
        with self.lock, suppress(JournalError):
            if self._held.pop(lease.token, None) is not None:
                self._ended.append((END_LEASE, (lease.key, lease.token)))
                self._write_ended()

    def end_holder(self, conversation: int) -> None:
        """End the connection of the process that has a lease, if it has one."""

    def _write_ended(self, *statements: Statement) -> None:
        """Remove the leases that have ended, and run `statements`."""
        ended = [*self._ended]
        self.execute([*ended, *statements])
        del self._ended[: len(ended)]

    def _check_version(self, version: int) -> None:
        """Raise `JournalError` for tables of a later version that this one cannot read.

        Tables that it can only read are not written.
        """
        if version <= SCHEMA_VERSION:
            return
        found = self.read("SELECT readable_by, writable_by FROM compatibility WHERE version = ?", version)
        readable_by, writable_by = found[0] if found else (version, version)
        if readable_by > SCHEMA_VERSION:
            raise JournalError(f"{self.named} has version {version}, expected {SCHEMA_VERSION}. Update agentkit.")
        self._is_read_only = writable_by > SCHEMA_VERSION

    def _check_writable(self) -> None:
        if self._is_read_only:
            raise JournalError(f"{self.named} has a later version, which this agentkit can only read. Update agentkit.")

    def _refuse_migration(self, holders: Sequence[str]) -> None:
        """Raise `JournalError` if programs of an older version, with these names, use the journal now."""
        if holders:
            raise JournalError(
                f"{self.named} is in use by an older version of agentkit: {', '.join(holders)}. Its tables are not "
                f"changed meanwhile, because its runs would be repeated. Stop {'it' if len(holders) == 1 else 'them'} "
                "first, then open the journal again."
            )


def _conditions_of(wanted: RunFilter) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield conditions about the columns of the table `runs`, and their values."""
    if wanted.ids is not None:
        yield f"id IN ({', '.join('?' * len(wanted.ids))})", [*wanted.ids]
    if wanted.prefix:
        yield "id >= ? AND id < ?", (wanted.prefix, f"{wanted.prefix}{chr(sys.maxunicode)}")
    if wanted.conversations is not None:
        yield f"conversation IN ({', '.join('?' * len(wanted.conversations))})", [*wanted.conversations]
    if wanted.inside:
        yield "origin > ? AND origin < ?", (f"{wanted.inside}/", f"{wanted.inside}0")  # 0 is the character after /
    if wanted.is_inner is not None:
        yield (IS_INNER if wanted.is_inner else f"(origin IS NULL OR NOT ({IS_INNER}))"), ()
    if wanted.is_unfinished:
        yield "status NOT IN ('finished', 'superseded')", ()
    if wanted.before is not None:
        yield "begun < ?", (wanted.before,)


def find_lock_holders(journal: str) -> Iterator[str]:
    """Yield the names of the processes that hold a lock beside a journal, of whatever version they are.

    Version 1 locks a byte of one file for each run (fcntl(2), also for the "open file description locks" of some
    programs), later ones a file for each process (flock(2)).
    """
    for path in sorted(glob(f"{escape(journal)}-lease*")):
        if is_locked(path):
            yield f"the process that has locked {path!r}{_name_lock_owner(path)}"


if sys.platform == "win32":

    def is_locked(path: str) -> bool:
        """Return whether a process has locked a file beside a journal."""
        try:
            os.rename(path, path)
        except PermissionError:
            return True
        return False

else:

    def is_locked(path: str) -> bool:
        """Return whether a process has locked a file beside a journal, or one of its bytes."""
        try:
            with open(path, "rb+") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except (BlockingIOError, PermissionError):
            return True
        return False


def _name_lock_owner(path: str) -> str:
    """Return the number of the process that has locked a file, as Linux lists it; "" where it does not.

    Linux gives the list in parts of a page, and a lock is missing where others end between two of them. So the list
    is read again.
    """
    with suppress(OSError, ValueError, IndexError):
        found = os.stat(path)
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        lines = (line for _ in range(LOCK_LIST_READS) for line in Path("/proc/locks").read_text().splitlines())
        for words in map(str.split, lines):
            if place in words and int(words[words.index(place) - 1]) > 0:
                return f" (process {words[words.index(place) - 1]})"
    return ""


LOCK_LIST_READS = 20
"""Of 400 readings beside three programs that took and released 60 locks each, 31 missed a lock that was held."""


CHECKPOINT_PAGES = 4_000
"""Pages in the write-ahead log before they are moved into the database, which waits for the disk."""


CREATE_FTS = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5(text, tokenize='unicode61 remove_diacritics 2')",
    "CREATE TABLE IF NOT EXISTS search_places (id INTEGER PRIMARY KEY, conversation INTEGER, place INTEGER)",
    "CREATE INDEX IF NOT EXISTS search_places_of ON search_places (conversation)",
    f"CREATE TABLE IF NOT EXISTS {SEARCHED} (conversation INTEGER PRIMARY KEY, mark TEXT)",
)
MATCH_FTS = """
SELECT p.conversation, p.place, m.body FROM search s JOIN search_places p ON p.id = s.rowid
JOIN messages m ON m.conversation = p.conversation AND m.place = p.place WHERE search MATCH ? ORDER BY rank LIMIT ?
"""


class SqliteStore(SqlStore):
    """An open journal file, usable from any thread; all its errors are `JournalError`s."""

    def __init__(self, path: str | os.PathLike[str], sync: Sync = "normal", *, must_exist: bool = False) -> None:
        super().__init__(path)
        self.path = Path(path)
        self._real_path = os.path.realpath(path)
        self._log_path = f"{self._real_path}-wal"
        self._log: tuple[int, int, int] | None = None
        """The write-ahead log of a file that was without users; it is in use, so no other process has removed it."""
        self._is_shut = False
        self._is_locked_out = False
        self._owner_file: OwnerFile | None = None
        if must_exist and not self.path.exists():
            raise JournalNotFound(f"{self.named} does not exist. {MISSING_REMEDY}")
        create_private(self.path)  # SQLite gives the mode of the file to the ones beside it
        self._is_protected = False
        """Whether this process may read the file, and may not write it or its folder."""
        with self._errors():
            self._file = self._connect(self.path)
        try:
            with self._errors():
                try:
                    self._set_up(sync)
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                        raise
                    self._open_protected(error)
                except sqlite3.DatabaseError as error:
                    if error.sqlite_errorcode & 0xFF not in DAMAGE_CODES:
                        raise
                    raise JournalError(
                        f"{self.named}: {error}. The file is damaged, or not a journal, and nothing in it can be read. "
                        "Restore a copy, or name another file."
                    ) from error
            found = os.stat(self.path)
            self._identity = found.st_dev, found.st_ino, found.st_mode
        except BaseException:
            self._file.close()
            raise

    def _connect(self, place: str | Path, *, uri: bool = False) -> sqlite3.Connection:
        return sqlite3.connect(place, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False, uri=uri)

    def _open_protected(self, refusal: sqlite3.OperationalError) -> None:
        """Open a file that can only be read; raise `refusal` if not even that is possible.

        Without a log no process has the file open, and it can be read without locks, which a folder that cannot be
        written does not allow.
        """
        address = f"{Path(self._real_path).as_uri()}?mode=ro"
        for one in [address] if os.path.exists(self._log_path) else [address, f"{address}&immutable=1"]:
            self._file.close()
            self._file = self._connect(one, uri=True)
            with suppress(sqlite3.OperationalError):
                if not (version := self._version()):
                    break
                if version < SCHEMA_VERSION:
                    raise JournalError(
                        f"{self.named} has an older version, and this process cannot write it. Copy it to a folder of "
                        "your own."
                    )
                self._check_version(version)
                self._is_protected = True
                return
        raise refusal

    def _set_up(self, sync: Sync) -> None:
        if not self._version():
            self._file.execute(f"PRAGMA synchronous={'off' if sync == 'normal' else sync}")  # a new file
            self._set_wal()
        if self._version() < SCHEMA_VERSION:
            self._migrate()
        self._file.execute(f"PRAGMA synchronous={sync}")
        self._file.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        self._check_version(self._version())

    def _set_wal(self) -> None:
        end = time.monotonic() + LOCK_TIMEOUT
        while True:  # SQLite does not wait while another process sets the file to WAL
            try:
                self._file.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def _migrate(self) -> None:
        with self._file:
            self._file.execute("BEGIN IMMEDIATE")
            version = self._version()
            if not version and self._file.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise JournalError(f"{self.named} is the database of another program. Give a file of its own.")
            if version >= SCHEMA_VERSION:  # another process was first
                return
            if version:
                self._refuse_migration([*find_lock_holders(self._real_path)])
            for statement in migrations_from(version):
                self._file.execute(statement)
            for values in [*digest_texts(self._file.execute(SELECT_UNCHECKED))]:
                self._file.execute(CHECK_CUT, values)
            self._file.execute(f"PRAGMA application_id={APPLICATION_ID}")
            self._file.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def _version(self) -> int:
        application, version = (
            self._file.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        return int(version) if application == APPLICATION_ID else 0

    def execute(self, statements: Sequence[Statement], lease: Lease | None = None) -> None:  # noqa: ARG002
        """Run the statements, all or none of them; a lease lives as long as the process."""
        self._check_writable()
        with self.lock, self._errors():
            try:
                self._run(statements)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_BUSY and not self._is_locked_out:
                    self._set_patience(0.0)  # wait once for a lock, not at each write again
                raise
            if self._is_locked_out:
                self._set_patience(LOCK_TIMEOUT)

    def _run(self, statements: Sequence[Statement]) -> None:
        if len(statements) == 1:  # a transaction by itself
            self._file.execute(*statements[0])
            return
        with self._file:  # ends the transaction after an interrupt (Ctrl-C) too, which comes when the lock is there
            self._file.execute("BEGIN IMMEDIATE")
            for sql, values in statements:
                self._file.execute(sql, values)

    def _set_patience(self, seconds: float) -> None:
        self._is_locked_out = not seconds
        self._file.execute(f"PRAGMA busy_timeout={int(seconds * 1000)}")

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.lock, self._errors():
            return self._file.execute(sql, values).fetchall()

    def has_table(self, name: str) -> bool:
        """Return whether the file has a table of this name."""
        return bool(self.read("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name))

    def _find(self, words: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
        wanted = " ".join(f'"{word}"*' for word in words)
        return self.read(MATCH_FTS, wanted, limit)

    def _create_index(self) -> Sequence[Statement]:
        return [(sql, ()) for sql in CREATE_FTS]

    def _index(self, conversation: int, texts: Mapping[int, str]) -> Sequence[Statement]:
        statements = list[Statement]()
        for place, text in texts.items():
            statements.append(("INSERT INTO search_places (conversation, place) VALUES (?, ?)", (conversation, place)))
            statements.append(("INSERT INTO search (rowid, text) VALUES (last_insert_rowid(), ?)", (text,)))
        return statements

    def _leave_index(self, conversation: int, condition: str = "1 = 1", *values: Any) -> Sequence[Statement]:
        places = "SELECT id FROM search_places WHERE conversation = ?"
        return [
            (f"DELETE FROM search WHERE rowid IN ({places}) AND {condition}", (conversation, *values)),
            (f"DELETE FROM search_places WHERE conversation = ? AND {condition}", (conversation, *values)),
            (f"DELETE FROM {SEARCHED} WHERE conversation = ? AND {condition}", (conversation, *values)),
        ]

    def read_together(self, read: Callable[[], T]) -> T:
        """Return what a function reads, all of whose queries see the same state of the file; other threads wait."""
        with self.lock, self._errors():
            try:
                self._file.execute("BEGIN")
                return read()
            finally:
                self._file.rollback()

    def _own(self) -> int:
        if self._owner_file is None:
            with self._errors():
                self._owner_file = OwnerFile(self._real_path)
            self._owner = self._owner_file.owner
        return self._owner

    def _is_alive(self, owner: int) -> bool:
        with self._errors():
            return is_alive(self._real_path, owner)

    def compact(self) -> None:
        """Remove setups that no run has; release the space of what was removed unless another process is writing."""
        self.execute([(DELETE_SETUPS, ())])
        if self.has_table(SEARCHED):  # else the words of removed messages stay in the index for a while
            self.execute([("INSERT INTO search (search) VALUES ('optimize')", ())])
        with suppress(JournalError), self.lock, self._errors():
            self._file.execute("VACUUM")

    def find_damage(self) -> list[str]:
        """Return a line for each problem that SQLite finds in the file."""
        try:
            return [str(row[0]) for row in self.read("PRAGMA integrity_check") if row[0] != "ok"]
        except JournalError as error:
            return [str(error)]

    def is_current(self) -> bool:
        """Return whether the open file is still the one at this path; it may have been deleted or replaced."""
        found = _identify(self.path)
        return found is not None and found[:2] == self._identity[:2]

    def can_rest(self) -> bool:
        """Return whether the file may stay open without users.

        It may not where an open file cannot be deleted, nor if a lease could not be removed or a write failed.
        """
        if sys.platform == "win32" or self._held or self._ended or self._is_locked_out or self._is_protected:
            return False
        self._log = _identify(self._log_path)
        return self._log is not None and self.is_current()

    def can_wake(self) -> bool:
        """Return whether this is still the file, with the same mode and log, and no other version has changed it."""
        if self._identity != _identify(self.path) or self._log != _identify(self._log_path):
            return False
        try:
            return self._version() == SCHEMA_VERSION
        except sqlite3.Error:
            return False

    def close(self, *, is_inherited: bool = False) -> None:
        """Release the file; the last release leaves a single file, without `-wal` and `-shm`."""
        with self.lock:
            if not is_inherited and not self._is_shut:
                self._discard_log()
            self._is_shut = True
            self._held.clear()
            with suppress(sqlite3.Error):
                self._file.close()  # also in a child, where SQLite would believe that it has the locks of the parent
            if self._owner_file is not None:
                self._owner_file.close(is_inherited=is_inherited)
                self._owner_file = None

    def _discard_log(self) -> None:
        """Remove the write-ahead log of a deleted or replaced file, which SQLite would add to its successor."""
        if self._log is not None and not self.is_current() and self._log == _identify(self._log_path):
            for end in ("-wal", "-shm"):
                with suppress(OSError):
                    os.unlink(f"{self._real_path}{end}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeError, OverflowError) as error:
            raise JournalError(f"{self.named}: {error}. {_remedy(error)}") from error


def _identify(path: str | os.PathLike[str]) -> tuple[int, int, int] | None:
    """Return the device, the inode and the mode of a file; None if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mode


def _remedy(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in DAMAGE_CODES:
        return "The file is damaged, or not a journal. `agentkit runs --salvage FILE` copies what can still be read."
    if primary == sqlite3.SQLITE_FULL:
        return "Make room on the disk."
    if primary == sqlite3.SQLITE_IOERR:  # on a full disk SQLite cannot even make the file that readers share
        return "Make room on the disk if it is full, or check it."
    return "The folder must exist and be writable, the file too."
