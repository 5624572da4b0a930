"""A journal in a PostgreSQL database, which processes on many machines use at once.

The tables are in the schema `agentkit`.  A process has one connection for each journal, in which it also holds its
leases as advisory locks: the server ends them with the connection.  When the connection is lost, the next write makes a
new one and takes the leases again; a lease that another process has had meanwhile is lost, and its run ends.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from ..lease import describe_lease
from ..location import ConversationBusy, JournalError, LeaseLost, Place, Sync
from ..store import Lease, Statement
from ..tables import APPLICATION
from .connection import PostgresConnection
from .tables import MIGRATIONS, SCHEMA


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
        self._process = os.getpid()
        self._held: dict[int, AdvisoryLease] = {}
        self._connection = PostgresConnection(url, sync, self._take_leases_again)
        try:
            with self._connection.errors():
                self._set_up(must_exist=must_exist)
        except BaseException:
            self._connection.close()
            raise

    def _set_up(self, *, must_exist: bool) -> None:
        """Create the tables, or bring them to this version."""
        if (version := self._version()) == len(MIGRATIONS):
            return
        named = self._connection.named
        if must_exist and not version:
            raise JournalError(f"{named} has no journal: no run was recorded in this database")
        if version > len(MIGRATIONS):
            raise JournalError(f"{named} has version {version}, expected {len(MIGRATIONS)}. Update agentkit.")
        with self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(?)", (APPLICATION,))
            for number in range(self._version(), len(MIGRATIONS)):
                for statement in MIGRATIONS[number].strip().split(";\n"):
                    self._connection.execute(statement)

    def _version(self) -> int:
        sql = "SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'version'"  # to_regclass may be outdated
        if not self._connection.rows(sql, (SCHEMA,)):
            return 0
        return int(self._connection.rows(f"SELECT max(number) FROM {SCHEMA}.version")[0][0])

    def append(self, statements: Sequence[Statement], lease: Lease | None = None) -> None:
        """Run the statements, all or none of them; with a lease only if it is not lost."""

        def write() -> None:
            if isinstance(lease, AdvisoryLease) and lease.is_lost:
                raise LeaseLost(
                    f"{self._connection.named}: the connection was lost, and another process has worked on the "
                    "conversation meanwhile. Resume the run when that process has ended."
                )
            if len(statements) == 1:  # a transaction by itself
                self._connection.execute(*statements[0])
                return
            with self._connection.transaction():
                for sql, values in statements:
                    self._connection.execute(sql, values)

        if statements:
            self._connection.attempt(write)

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._connection.attempt(lambda: self._connection.rows(sql, values))

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all queries of this thread inside the block see the same state; other threads wait."""
        return self._connection.snapshot()

    def lease(self, key: int, what: str = "the conversation") -> AdvisoryLease:
        """Take the lease of a conversation, as an advisory lock of the connection."""
        with self._connection.lock:
            if key in self._held or not self._connection.attempt(lambda: self._try_lock(key)):
                found = self.read("SELECT holder, since FROM leases WHERE conversation = ?", key)
                names = ("this process", found[0][1]) if key in self._held and found else (found or [()])[0]
                raise ConversationBusy(describe_lease(what, *names))
            held = AdvisoryLease(key, secrets.randbits(60), self._free)
            sql = (
                "INSERT INTO leases VALUES (?, ?, ?, ?) ON CONFLICT (conversation) "
                "DO UPDATE SET token = excluded.token, holder = excluded.holder, since = excluded.since"
            )
            holder = f"process {os.getpid()} on {socket.gethostname()}"
            values = key, held.token, holder, time.strftime("%Y-%m-%d %H:%M:%S")
            with self._connection.errors():
                self._connection.execute(sql, values)  # not repeated: without its connection there is no lock
            self._held[key] = held
            return held

    def _try_lock(self, key: int) -> bool:
        return bool(self._connection.rows("SELECT pg_try_advisory_lock(?::bigint)", (key,))[0][0])

    def _take_leases_again(self) -> None:
        for key, held in [*self._held.items()]:
            tokens = self._connection.rows("SELECT token FROM leases WHERE conversation = ?", (key,))
            if tokens != [(held.token,)] or not self._try_lock(key):
                held.is_lost = True
                del self._held[key]

    def _free(self, held: AdvisoryLease) -> None:
        with self._connection.lock:
            if self._held.get(held.key) is not held:
                return
            del self._held[held.key]
            with suppress(JournalError), self._connection.errors():  # the server ends leases with their connection
                sql = "DELETE FROM leases WHERE conversation = ? AND token = ?"
                self._connection.execute(sql, (held.key, held.token))
                self._connection.execute("SELECT pg_advisory_unlock(?::bigint)", (held.key,))

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
        """Return whether the server answers on the open connection."""
        return bool(self._held) or self._connection.is_alive()

    def shut(self) -> None:
        """Close the connection."""
        if self._process == os.getpid():  # a child must not end the connection of its parent
            self._connection.close()
