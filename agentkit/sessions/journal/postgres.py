"""A journal in a PostgreSQL database, which processes on many machines use at once.

It needs the package psycopg, which is imported when a URL is first used.  The tables are those of SQLite in the schema
`agentkit`, with the types of PostgreSQL.

A process has one connection for each journal.  Its leases last as long as an advisory lock that the connection holds:
the server ends the lock with the connection.  When the connection is lost, the next write makes a new one and takes the
leases over; a lease that another process has had meanwhile is lost, and its run ends.
"""

import math
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

from ...core.errors import ExceptionInfo
from .sqlite import (
    APPLICATION_ID,
    CHECK_CUT,
    DELETE_SETUPS,
    SCHEMA_VERSION,
    SEARCHED,
    SELECT_UNCHECKED,
    SqlStore,
    Statement,
    digest_texts,
    migrations_from,
)
from .store import DEAD_HOLDER_SECONDS, LOCK_TIMEOUT, MISSING_REMEDY, JournalError, JournalNotFound, Lease, Sync

SCHEMA = "agentkit"
COLUMN_TYPES = {" INTEGER": " bigint", " REAL": " double precision", " TEXT": ' text COLLATE "C"', " WITHOUT ROWID": ""}
CREATE_SCHEMA = f"DO $$ BEGIN IF to_regnamespace('{SCHEMA}') IS NULL THEN CREATE SCHEMA {SCHEMA}; END IF; END $$"
"""`CREATE SCHEMA IF NOT EXISTS` needs the right to create a schema even where there is one."""
BEGIN = (CREATE_SCHEMA, f"CREATE TABLE {SCHEMA}.version (number integer NOT NULL)")
END = (
    "ALTER TABLE runs ADD COLUMN rowid bigint GENERATED ALWAYS AS IDENTITY",
    "CREATE INDEX runs_by_time ON runs (begun)",
    "CREATE INDEX runs_by_setup ON runs (setup)",
)


SELECT_OWNER = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND classid = ? AND objid = ? "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
END_BACKEND = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = ? AND backend_start = ?"
END_HOLDER = """
SELECT pg_terminate_backend(pid) FROM pg_locks, leases WHERE conversation = ? AND locktype = 'advisory'
AND objsubid = 1 AND classid = owner >> 32 AND objid = owner & 4294967295
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
"""Ends the connection of the process that has a lease."""
CREATE_VECTORS = (
    "CREATE TABLE IF NOT EXISTS search "
    "(conversation bigint, place bigint, words tsvector NOT NULL, PRIMARY KEY (conversation, place))",
    "CREATE INDEX IF NOT EXISTS search_words ON search USING gin (words)",
    f"CREATE TABLE IF NOT EXISTS {SEARCHED} (conversation bigint PRIMARY KEY, mark text NOT NULL)",
)
MATCH_VECTORS = """
SELECT s.conversation, s.place, m.body FROM search s
JOIN messages m ON m.conversation = s.conversation AND m.place = s.place
WHERE s.words @@ to_tsquery('simple', ?)
ORDER BY ts_rank(s.words, to_tsquery('simple', ?)) DESC, s.conversation, s.place LIMIT ?
"""
OLDER_CONNECTIONS = f"""
SELECT DISTINCT 'process ' || held.pid || coalesce(' from ' || host(activity.client_addr), '')
FROM pg_locks held JOIN pg_stat_activity activity ON activity.pid = held.pid
WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted AND held.pid != pg_backend_pid()
AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND activity.application_name LIKE 'agentkit%' AND NOT EXISTS (
    SELECT 1 FROM pg_locks own WHERE own.pid = held.pid AND own.locktype = 'advisory' AND own.objsubid = 2
    AND own.classid = {APPLICATION_ID} AND own.objid >= {SCHEMA_VERSION}
)
"""
"""The connections of programs of an older version: each connection has a shared lock with its version, and the oldest
versions have the lock of their leases alone."""


def list_migrations(version: int) -> list[str]:
    """Return the statements that bring the tables of a version up to date; version 0 has no schema."""
    tables = [*migrations_from(version)]
    for old, new in COLUMN_TYPES.items():
        tables = [statement.replace(old, new) for statement in tables]
    return tables if version else [*BEGIN, *tables, *END]


try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import TransactionStatus
except ImportError as error:
    raise JournalError(
        f"a journal in PostgreSQL needs the package psycopg, which cannot be imported ({error}). Install it: "
        'pip install "psycopg[binary]>=3.2,<4"'
    ) from error

T = TypeVar("T")
MIN_CONNECT_WAIT = 0.02
MAX_CONNECT_WAIT = 0.5
"""Seconds between two attempts to connect."""
PARAMETERS = {
    "application_name": "agentkit",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
"""Parameters of the connection unless the URL has them: a dead network is noticed within about 20 seconds."""
SETTINGS = (
    f"SET search_path TO {SCHEMA}",
    "SET tcp_keepalives_idle TO 10",  # else the server notices a dead machine, and ends its leases, after hours
    "SET tcp_keepalives_interval TO 3",
    "SET tcp_keepalives_count TO 3",
    # else the server ends the leases of a run that waits for a model or a tool; versions before 14 lack the first one
    "SELECT set_config(name, '0', false) FROM pg_settings "
    "WHERE name IN ('idle_session_timeout', 'idle_in_transaction_session_timeout')",
)
FINAL_REFUSALS = re.compile("authentication failed|does not exist|no pg_hba.conf entry|permission denied|no password")
"""The server's reasons for which a second attempt fails as well."""
_unreachable: set[str] = set()
"""The URLs to which the last first connection could not be made in time."""
ESCAPE = "\ue000"
"""A character of Unicode's private use; it marks characters that PostgreSQL cannot store."""


class PostgresConnection:
    """A connection that any thread can use, one at a time; `reconnected` is called after it was made again.

    It holds an advisory lock on the number `owner`, which is another one after it was made again.
    """

    def __init__(
        self, named: str, url: str, sync: Sync, lock: threading.RLock, reconnected: Callable[[], None]
    ) -> None:
        self.named = named
        self.lock = lock
        self._sync = sync
        self._reconnected = reconnected
        self._is_down = self._is_locked_out = self._is_in_snapshot = self._is_shut = False
        self._lost: set[tuple[int, Any]] = set()
        """The server's processes for lost connections, which may not have noticed it."""
        self._backend: tuple[int, Any] = (0, None)
        with self.errors():
            self._parameters: dict[str, Any] = {**PARAMETERS, **conninfo_to_dict(url)}
            self._connection = self._connect_first(url)

    def _connect_first(self, url: str) -> "psycopg.Connection[Any]":
        """Connect within `LOCK_TIMEOUT` seconds, as when a connection is lost; of several failures the first waits."""
        end = time.monotonic() + (0.0 if url in _unreachable else LOCK_TIMEOUT)
        wait = MIN_CONNECT_WAIT
        while True:
            try:
                connection = self._connect()
            except psycopg.OperationalError as error:
                if FINAL_REFUSALS.search(str(error)):
                    raise
                if time.monotonic() > end:
                    _unreachable.add(url)
                    raise
            else:
                _unreachable.discard(url)
                is_direct = connection.info.backend_pid == self._backend[0]
                return connection if is_direct else self._check_pooler(connection)
            time.sleep(wait)
            wait = min(2 * wait, MAX_CONNECT_WAIT)

    def _connect(self) -> "psycopg.Connection[Any]":
        connection = psycopg.connect(make_conninfo(**self._parameters), autocommit=True)
        try:
            for statement in (*SETTINGS, *(("SET synchronous_commit TO on",) if self._sync == "full" else ())):
                connection.execute(statement)
            connection.execute(f"SET lock_timeout TO {1 if self._is_locked_out else int(LOCK_TIMEOUT * 1000)}".encode())
            row = connection.execute("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
            self.owner = secrets.randbits(60)
            connection.execute(f"SELECT pg_advisory_lock_shared({APPLICATION_ID}, {SCHEMA_VERSION})".encode())
            connection.execute(f"SELECT pg_advisory_lock({self.owner})".encode())
            self._backend = row.fetchone() or (connection.info.backend_pid, None)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_pooler(self, connection: "psycopg.Connection[Any]") -> "psycopg.Connection[Any]":
        """Return a new connection to a pooler; raise `JournalError` if locks do not end with the one before."""
        before = self.owner
        connection.close()
        connection = self._connect()
        end = time.monotonic() + DEAD_HOLDER_SECONDS
        values = before >> 32, before & 0xFFFFFFFF
        while connection.execute(_translate(SELECT_OWNER), values, prepare=False).fetchone():
            if time.monotonic() > end:
                with suppress(psycopg.Error):
                    connection.execute(_translate(END_BACKEND), self._backend)
                connection.close()
                raise JournalError(
                    f"{self.named}: a pooler gives the connections of one client to another, so that the leases of a "
                    "process do not end with it. Give the address of the server itself, or of a pool of sessions "
                    "(pgbouncer: pool_mode=session)."
                )
            time.sleep(MIN_CONNECT_WAIT)
        return connection

    def execute(self, sql: str, values: Sequence[Any] = ()) -> "psycopg.Cursor[Any]":
        """Run a statement with `?` marks; raise psycopg's errors."""
        return self._connection.execute(
            _translate(sql), [_encode(value) if isinstance(value, str) else value for value in values]
        )

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; raise psycopg's errors."""
        rows = self.execute(sql, values).fetchall()
        return [tuple(_decode(value) if isinstance(value, str) else value for value in row) for row in rows]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run all or none of the statements in the block, sent together."""
        with self._connection.pipeline(), self._connection.transaction():
            yield

    def read_together(self, read: Callable[[], T]) -> T:
        """Return what a function reads, all of whose queries see the same state; it is repeated as `attempt` does."""

        def read_snapshot() -> T:
            self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._is_in_snapshot = True
            try:
                return read()
            except JournalError as error:
                if self._connection.closed and isinstance(error.__cause__, psycopg.Error):
                    raise error.__cause__ from None
                raise
            finally:
                self._is_in_snapshot = False
                if self._connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                    self.execute("ROLLBACK")

        return self.attempt(read_snapshot)

    def attempt(self, action: Callable[[], T], *, is_write: bool = False) -> T:
        """Perform an action; if the connection is lost, make a new one and repeat it, for `LOCK_TIMEOUT` seconds.

        Raises:
            JournalError: The action failed, or no connection could be made in time.
        """
        end = math.inf
        with self.lock, self.errors():
            while True:
                if self._is_lost():
                    if self._is_shut:
                        raise psycopg.InterfaceError("it was closed, or belongs to the parent process")
                    if self._is_in_snapshot:
                        raise psycopg.OperationalError("the connection was lost between two queries")
                    self._reconnect()
                try:
                    return self._wait_once(action, is_write=is_write)
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    if not self._is_lost() or self._is_in_snapshot or time.monotonic() > end:
                        raise
                    end = min(end, time.monotonic() + LOCK_TIMEOUT)

    def _is_lost(self) -> bool:
        """Return whether the connection is closed; one that was left in a query or a transaction is closed now.

        It was interrupted (Ctrl-C), or the server has ended it in the middle, after which it may seem open.
        """
        info = self._connection.info
        is_idle = info.transaction_status == TransactionStatus.IDLE and not info.pipeline_status
        if not is_idle and not self._is_in_snapshot:
            self._connection.close()
        return self._connection.closed

    def _wait_once(self, action: Callable[[], T], *, is_write: bool) -> T:
        """Perform an action; after one that has not got a lock in time, none waits before a write succeeds."""
        try:
            done = action()
        except psycopg.errors.LockNotAvailable:
            self._set_patience(1)
            raise
        if is_write and self._is_locked_out:
            self._set_patience(int(LOCK_TIMEOUT * 1000))
        return done

    def _set_patience(self, milliseconds: int) -> None:
        self._is_locked_out = milliseconds == 1
        self.execute(f"SET lock_timeout TO {milliseconds}")

    def _reconnect(self) -> None:
        """Connect again; only the first of several failures takes `LOCK_TIMEOUT` seconds."""
        end = time.monotonic() + (0.0 if self._is_down else LOCK_TIMEOUT)
        wait = MIN_CONNECT_WAIT
        while True:
            self._lost.add(self._backend)
            try:
                self._connection = self._connect()
                self._replace_lost()
                break
            except BaseException as error:
                self._connection.close()
                if not isinstance(error, psycopg.OperationalError) or time.monotonic() > end:
                    self._is_down = True
                    raise
            time.sleep(wait)
            wait = min(2 * wait, MAX_CONNECT_WAIT)
        self._is_down = False

    def _replace_lost(self) -> None:
        """End the lost connections, which hold their locks until the server notices that they are lost."""
        for backend in self._lost:
            self.execute(END_BACKEND, backend)
        self._reconnected()
        self._lost.clear()

    def is_alive(self) -> bool:
        """Return whether the server answers on this connection."""
        with self.lock:
            try:
                self.execute("SELECT 1 FROM version")
            except psycopg.Error:
                return False
            return True

    def close(self, *, is_inherited: bool = False) -> None:
        """Close the connection; one that a child has inherited ends with the parent."""
        with self.lock:
            self._is_shut = True
            if is_inherited and not self._connection.closed:
                with open(os.devnull, "r+b") as null:
                    os.dup2(null.fileno(), self._connection.fileno(), inheritable=False)
            self._connection.close()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise psycopg's errors in the block as `JournalError`s."""
        try:
            yield
        except psycopg.Error as error:
            text = " ".join(ExceptionInfo.of(error).message.split())
            raise JournalError(f"{self.named}: {text}. {_remedy(error)}") from error


@cache
def _translate(sql: str) -> bytes:
    return sql.replace("%", "%%").replace("?", "%s").encode()


def _encode(text: str) -> str:
    """Return a text without null characters, which PostgreSQL cannot store."""
    if "\0" in text or ESCAPE in text:
        return text.replace(ESCAPE, f"{ESCAPE}1").replace("\0", f"{ESCAPE}0")
    return text


def _decode(text: str) -> str:
    return text.replace(f"{ESCAPE}0", "\0").replace(f"{ESCAPE}1", ESCAPE) if ESCAPE in text else text


def _remedy(error: "psycopg.Error") -> str:
    if error.sqlstate == "53100":
        return "Make room on the server's disk."
    if error.sqlstate == "57014":
        return (
            "The server's statement_timeout is too short for it: ALTER ROLE ... SET statement_timeout gives more time."
        )
    if error.sqlstate == "42501":
        return f"The user needs the right to create the schema {SCHEMA}, or an administrator creates it for the user."
    if error.sqlstate is None or error.sqlstate.startswith(("08", "28", "57")):
        return "The server must be running and reachable, and the user, the password and the database must exist."
    return "See the server's log."


class PostgresStore(SqlStore):
    """A journal in PostgreSQL, usable from any thread; all its errors are `JournalError`s."""

    is_server = True

    def __init__(self, url: str, sync: Sync = "normal", *, must_exist: bool = False) -> None:
        super().__init__(url)
        self._connection = PostgresConnection(self.named, url, sync, self.lock, self._take_leases_over)
        self._owner = self._connection.owner
        try:
            self._connection.attempt(lambda: self._set_up(must_exist=must_exist))
        except BaseException:
            self._connection.close()
            raise

    def _set_up(self, *, must_exist: bool) -> None:
        """Create the tables, or bring them to this version."""
        if (version := self._version()) == SCHEMA_VERSION:
            return
        if must_exist and not version:
            raise JournalNotFound(
                f"{self.named} has no journal: no run was recorded in this database. {MISSING_REMEDY}"
            )
        if version > SCHEMA_VERSION:
            self._check_version(version)
            return
        with self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(?)", (APPLICATION_ID,))
            if (version := self._version()) < SCHEMA_VERSION:
                if version:
                    self._refuse_migration([name for (name,) in self._connection.rows(OLDER_CONNECTIONS)])
                for statement in list_migrations(version):
                    self._connection.execute(statement)
                for values in digest_texts(self._connection.rows(SELECT_UNCHECKED)):
                    self._connection.execute(CHECK_CUT, values)
                self._connection.execute("INSERT INTO version VALUES (?)", (SCHEMA_VERSION,))

    def _version(self) -> int:
        sql = "SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'version'"  # to_regclass may be outdated
        if not self._connection.rows(sql, (SCHEMA,)):
            return 0
        found = int(self._connection.rows(f"SELECT max(number) FROM {SCHEMA}.version")[0][0])
        return 2 if found == 1 else found  # the first tables in PostgreSQL were those of version 2

    def execute(self, statements: Sequence[Statement], lease: Lease | None = None) -> None:
        """Run the statements, all or none of them; with a lease only if it is not lost."""

        self._check_writable()

        def write() -> None:
            if lease is not None:
                self.keep(lease)
            if len(statements) == 1:  # a transaction by itself
                self._connection.execute(*statements[0])
                return
            with self._connection.transaction():
                for sql, values in statements:
                    self._connection.execute(sql, values)

        if statements:
            self._connection.attempt(write, is_write=True)

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._connection.attempt(lambda: self._connection.rows(sql, values))

    def has_table(self, name: str) -> bool:
        """Return whether the schema has a table of this name."""
        return bool(self.read("SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = ?", SCHEMA, name))

    def _find(self, words: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
        wanted = " & ".join(f"'{word}':*" for word in words)
        return self.read(MATCH_VECTORS, wanted, wanted, limit)

    def _create_index(self) -> Sequence[Statement]:
        return [("SELECT pg_advisory_xact_lock(?)", (APPLICATION_ID,)), *((sql, ()) for sql in CREATE_VECTORS)]

    def _index(self, conversation: int, texts: Mapping[int, str]) -> Sequence[Statement]:
        sql = "INSERT INTO search VALUES (?, ?, to_tsvector('simple', ?))"
        return [(sql, (conversation, place, text)) for place, text in texts.items()]

    def _leave_index(self, conversation: int, condition: str = "1 = 1", *values: Any) -> Sequence[Statement]:
        lock = "SELECT pg_advisory_xact_lock(?)", (APPLICATION_ID,)  # two processes may index a conversation at once
        tables = "search", SEARCHED
        sql = "DELETE FROM {} WHERE conversation = ? AND {}"
        return [lock, *((sql.format(table, condition), (conversation, *values)) for table in tables)]

    def read_together(self, read: Callable[[], T]) -> T:
        """Return what a function reads, all of whose queries see the same state; other threads wait."""
        return self._connection.read_together(read)

    def _take_leases_over(self) -> None:
        """Make the leases of the lost connection those of the new one; others may have taken them meanwhile."""
        before = self._owner
        self._owner = self._connection.owner
        if self._reserves:
            self._connection.execute("UPDATE spending SET process = ? WHERE process = ?", (self._owner, before))
        if not self._held:  # the tables may not be there yet
            return
        sql = "UPDATE leases SET owner = ? WHERE token = ANY(?) RETURNING token"
        kept = {token for (token,) in self._connection.rows(sql, (self._owner, [*self._held]))}
        for token in self._held.keys() - kept:
            self._held.pop(token).is_lost = True

    def end_holder(self, conversation: int) -> None:
        """End the connection of the process that has a lease."""
        self.read(END_HOLDER, conversation)

    def _own(self) -> int:
        return self._owner

    def _is_alive(self, owner: int) -> bool:
        return bool(self.read(SELECT_OWNER, owner >> 32, owner & 0xFFFFFFFF))

    def compact(self) -> None:
        """Remove setups that no run has, while no run begins; the server releases the space by itself."""
        self.execute([("LOCK TABLE runs, setups IN SHARE ROW EXCLUSIVE MODE", ()), (DELETE_SETUPS, ())])

    def find_damage(self) -> list[str]:
        """Return nothing: the server checks its own files."""
        return []

    def is_current(self) -> bool:
        """Return whether the server answers on the open connection."""
        return bool(self._held) or self._connection.is_alive()

    def close(self, *, is_inherited: bool = False) -> None:
        """Close the connection."""
        self._held.clear()
        self._connection.close(is_inherited=is_inherited)
