"""A journal in a PostgreSQL database, which processes on many machines use at once.

The tables are in the schema `agentkit`.  A process has one connection for each journal, in which it also holds its
leases as advisory locks: the server ends them with the connection.  When the connection is lost, the next write makes a
new one and takes the leases again; a lease that another process has had meanwhile is lost, and its run ends.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from ...core.errors import ExceptionInfo
from .lease import describe_lease
from .location import JournalError, LeaseLost, Place, Sync, show_place
from .postgres_tables import MIGRATIONS, SCHEMA
from .store import Lease, Statement
from .tables import APPLICATION

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as error:
    raise JournalError(
        f"a journal in PostgreSQL needs the package psycopg, which cannot be imported ({error}). Install it: "
        'pip install "psycopg[binary]>=3.2,<4"'
    ) from error

T = TypeVar("T")
LOCK_TIMEOUT = 10.0
"""Seconds for which the first write waits for a lock, or tries to connect when the connection is lost."""
MIN_WAIT, MAX_WAIT = 0.02, 0.5
"""Seconds between two attempts to connect."""
CONNECTION = {
    "application_name": "agentkit",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
"""Parameters of the connection unless the URL has them: a dead network is noticed within about 20 seconds."""
SESSION = (
    f"SET search_path TO {SCHEMA}",
    "SET tcp_keepalives_idle TO 10",  # else the server notices a dead machine, and ends its leases, after hours
    "SET tcp_keepalives_interval TO 3",
    "SET tcp_keepalives_count TO 3",
)
ESCAPE = "\ue000"
"""A character of Unicode's private use; it marks characters that PostgreSQL cannot store."""


@dataclass(eq=False)
class AdvisoryLease:
    """A lease that is an advisory lock; `token` proves that no other process has had it meanwhile."""

    key: int
    token: int
    free: Callable[["AdvisoryLease"], None]
    is_lost: bool = False

    def release(self) -> None:
        """End the lease."""
        self.free(self)


class PostgresStore:
    """A journal in PostgreSQL, usable from any thread; all its errors are `JournalError`s."""

    def __init__(self, url: str, sync: Sync = "normal", *, must_exist: bool = False) -> None:
        self.place: Place = url
        self._sync = sync
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._held: dict[int, AdvisoryLease] = {}
        self._is_down = self._is_locked_out = False
        self._is_in_snapshot = False
        with self._errors():
            self._parameters: dict[str, Any] = {**CONNECTION, **conninfo_to_dict(url)}
            self._connection = self._connect()
            try:
                self._set_up(must_exist=must_exist)
            except BaseException:
                self._connection.close()
                raise

    def _connect(self) -> "psycopg.Connection[Any]":
        connection = psycopg.connect(make_conninfo(**self._parameters), autocommit=True)
        try:
            for statement in (*SESSION, *(("SET synchronous_commit TO on",) if self._sync == "full" else ())):
                connection.execute(statement)
            connection.execute(f"SET lock_timeout TO {1 if self._is_locked_out else int(LOCK_TIMEOUT * 1000)}".encode())
            row = connection.execute("SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
            self._backend = connection.info.backend_pid, (row.fetchone() or (None,))[0]
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, *, must_exist: bool) -> None:
        """Create the tables, or bring them to this version."""
        if (version := self._version()) == len(MIGRATIONS):
            return
        if must_exist and not version:
            raise JournalError(f"{self._named} has no journal: no run was recorded in this database")
        if version > len(MIGRATIONS):
            raise JournalError(f"{self._named} has version {version}, expected {len(MIGRATIONS)}. Update agentkit.")
        with self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (APPLICATION,))
            for number in range(self._version(), len(MIGRATIONS)):
                for statement in MIGRATIONS[number].strip().split(";\n"):
                    self._connection.execute(statement.encode())

    def _version(self) -> int:
        sql = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'version'"  # to_regclass may be outdated
        if not self._connection.execute(sql, (SCHEMA,)).fetchall():
            return 0
        return int(self._connection.execute(f"SELECT max(number) FROM {SCHEMA}.version".encode()).fetchall()[0][0])

    def append(self, statements: Sequence[Statement], lease: Lease | None = None) -> None:
        """Run the statements, all or none of them; with a lease only if it is not lost."""

        def write() -> None:
            if isinstance(lease, AdvisoryLease) and lease.is_lost:
                raise LeaseLost(
                    f"{self._named}: the connection was lost, and another process has worked on the conversation "
                    "meanwhile. Resume the run when that process has ended."
                )
            if len(statements) == 1:  # a transaction by itself
                self._execute(*statements[0])
                return
            with self._connection.pipeline(), self._connection.transaction():
                for sql, values in statements:
                    self._execute(sql, values)

        if statements:
            self._attempt(write)

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        rows = self._attempt(lambda: self._execute(sql, values).fetchall())
        return [tuple(_decode(value) if isinstance(value, str) else value for value in row) for row in rows]

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> "psycopg.Cursor[Any]":
        return self._connection.execute(
            _translate(sql), [_encode(value) if isinstance(value, str) else value for value in values]
        )

    def _attempt(self, action: Callable[[], T]) -> T:
        """Perform an action; if the connection is lost, make a new one and perform it once more."""
        with self._lock, self._errors():
            if not self._connection.closed:
                try:
                    return self._wait_once(action)
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    if not self._connection.closed or self._is_in_snapshot:
                        raise
            self._reconnect()
            return action()

    def _wait_once(self, action: Callable[[], T]) -> T:
        """Perform an action; after one that has not got a lock in time, the next ones do not wait."""
        try:
            done = action()
        except psycopg.errors.LockNotAvailable:
            self._set_patience(1)
            raise
        if self._is_locked_out:
            self._set_patience(int(LOCK_TIMEOUT * 1000))
        return done

    def _set_patience(self, milliseconds: int) -> None:
        self._is_locked_out = milliseconds == 1
        self._connection.execute(f"SET lock_timeout TO {milliseconds}".encode())

    def _reconnect(self) -> None:
        """Connect again, with patience the first time only, and take the leases of this process again."""
        end, wait = time.monotonic() + (0.0 if self._is_down else LOCK_TIMEOUT), MIN_WAIT
        while True:
            old = self._backend
            try:
                self._connection.close()
                self._connection = self._connect()
                break
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    self._is_down = True
                    raise
            time.sleep(wait)
            wait = min(2 * wait, MAX_WAIT)
        self._is_down = False
        # The server may not have noticed that the old connection is lost, which holds the locks then.
        sql = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"
        self._connection.execute(sql, old)
        for key, held in [*self._held.items()]:
            tokens = self._connection.execute("SELECT token FROM leases WHERE conversation = %s", (key,)).fetchall()
            if tokens != [(held.token,)] or not self._try_lock(key):
                held.is_lost = True
                del self._held[key]

    def _try_lock(self, key: int) -> bool:
        return bool(self._connection.execute("SELECT pg_try_advisory_lock(%s::bigint)", (key,)).fetchall()[0][0])

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all queries of this thread inside the block see the same state; other threads wait."""
        with self._lock, self._errors():
            self._attempt(lambda: self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            self._is_in_snapshot = True
            try:
                yield
            finally:
                self._is_in_snapshot = False
                with suppress(psycopg.Error):
                    self._connection.execute("ROLLBACK")

    def lease(self, key: int, what: str = "the conversation") -> AdvisoryLease:
        """Take the lease of a conversation, as an advisory lock of the connection."""
        with self._lock:
            if key in self._held or not self._attempt(lambda: self._try_lock(key)):
                found = self.read("SELECT holder, since FROM leases WHERE conversation = ?", key)
                names = ("this process", found[0][1]) if key in self._held and found else (found or [()])[0]
                raise JournalError(describe_lease(what, *names))
            held = AdvisoryLease(key, secrets.randbits(60), self._free)
            sql = (
                "INSERT INTO leases VALUES (?, ?, ?, ?) ON CONFLICT (conversation) "
                "DO UPDATE SET token = excluded.token, holder = excluded.holder, since = excluded.since"
            )
            holder = f"process {os.getpid()} on {socket.gethostname()}"
            values = key, held.token, holder, time.strftime("%Y-%m-%d %H:%M:%S")
            with self._errors():
                self._execute(sql, values)  # not repeated: without its connection there is no lock
            self._held[key] = held
            return held

    def _free(self, held: AdvisoryLease) -> None:
        with self._lock:
            if self._held.get(held.key) is not held:
                return
            del self._held[held.key]
            with suppress(psycopg.Error):  # without a connection the server has ended the lease
                sql = "DELETE FROM leases WHERE conversation = %s AND token = %s"
                self._connection.execute(sql, (held.key, held.token))
                self._connection.execute("SELECT pg_advisory_unlock(%s::bigint)", (held.key,))

    def is_leased(self, key: int) -> bool:
        """Return whether a run of any process has the conversation."""
        sql = (
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND classid = ? AND objid = ? "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        return key in self._held or bool(self.read(sql, key >> 32, key & 0xFFFFFFFF))

    def remove(self, statements: Sequence[Statement]) -> None:
        """Run statements that delete runs, while no run begins; the server releases their space by itself."""
        self.append([("LOCK TABLE runs, setups IN SHARE ROW EXCLUSIVE MODE", ()), *statements])

    def find_damage(self) -> list[str]:
        """Return nothing: the server checks its own files."""
        return []

    def is_current(self) -> bool:
        """Return True: a URL leads to the same database."""
        return True

    def shut(self) -> None:
        """Close the connection."""
        if self._process == os.getpid():  # a child must not end the connection of its parent
            with self._lock:
                self._connection.close()

    @property
    def _named(self) -> str:
        return f"the journal {show_place(self.place)!r}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            text = " ".join(ExceptionInfo.of(error).message.split())
            raise JournalError(f"{self._named}: {text}. {_remedy(error)}") from error


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
    if error.sqlstate == "42501":
        return f"The user needs the right to create the schema {SCHEMA}, or an administrator creates it for the user."
    if error.sqlstate is None or error.sqlstate.startswith(("08", "28", "57")):
        return "The server must be running and reachable, and the user, the password and the database must exist."
    return "See the server's log."
