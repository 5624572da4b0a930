"""A journal in a PostgreSQL database, which processes on many machines use at once.

The tables are in the schema `agentkit`.  A process has one connection for each journal.  Its leases last as long as an
advisory lock that the connection holds: the server ends the lock with the connection.  When the connection is lost, the
next write makes a new one and takes the leases over; a lease that another process has had meanwhile is lost, and its
run ends.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from ..location import JournalError, LeaseLost, Sync
from ..store import Lease, Statement, Store
from ..tables import APPLICATION, VERSION
from .connection import PostgresConnection
from .tables import SCHEMA, list_migrations


class PostgresStore(Store):
    """A journal in PostgreSQL, usable from any thread; all its errors are `JournalError`s."""

    def __init__(self, url: str, sync: Sync = "normal", *, must_exist: bool = False) -> None:
        super().__init__(url)
        self._connection = PostgresConnection(self.named, url, sync, self.lock, self._take_leases_over)
        self._owner = self._connection.owner
        try:
            with self._connection.errors():
                self._set_up(must_exist=must_exist)
        except BaseException:
            self._connection.close()
            raise

    def _set_up(self, *, must_exist: bool) -> None:
        """Create the tables, or bring them to this version."""
        if (version := self._version()) == VERSION:
            return
        if must_exist and not version:
            raise JournalError(f"{self.named} has no journal: no run was recorded in this database")
        if version > VERSION:
            raise JournalError(f"{self.named} has version {version}, expected {VERSION}. Update agentkit.")
        with self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(?)", (APPLICATION,))
            if (version := self._version()) < VERSION:
                for statement in list_migrations(version):
                    self._connection.execute(statement)
                self._connection.execute("INSERT INTO version VALUES (?)", (VERSION,))

    def _version(self) -> int:
        sql = "SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'version'"  # to_regclass may be outdated
        if not self._connection.rows(sql, (SCHEMA,)):
            return 0
        found = int(self._connection.rows(f"SELECT max(number) FROM {SCHEMA}.version")[0][0])
        return 2 if found == 1 else found  # the first tables in PostgreSQL were those of version 2

    def append(self, statements: Sequence[Statement], lease: Lease | None = None) -> None:
        """Run the statements, all or none of them; with a lease only if it is not lost."""

        def write() -> None:
            if lease is not None and lease.is_lost:
                raise LeaseLost(
                    f"{self.named}: the connection was lost, and another process has worked on the "
                    "conversation meanwhile. Resume the run when that process has ended."
                )
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

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all queries of this thread inside the block see the same state; other threads wait."""
        return self._connection.snapshot()

    def _take_leases_over(self) -> None:
        """Make the leases of the lost connection those of the new one; others may have taken them meanwhile."""
        sql = "UPDATE leases SET owner = ? WHERE token = ANY(?) RETURNING token"
        kept = {token for (token,) in self._connection.rows(sql, (self._connection.owner, [*self._held]))}
        self._owner = self._connection.owner
        for token in self._held.keys() - kept:
            self._held.pop(token).is_lost = True

    def _own(self) -> int:
        return self._owner

    def _is_alive(self, owner: int) -> bool:
        sql = (
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND classid = ? AND objid = ? "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        return bool(self.read(sql, owner >> 32, owner & 0xFFFFFFFF))

    def remove(self, statements: Sequence[Statement]) -> None:
        """Run statements that delete runs, while no run begins; the server releases their space by itself."""
        self.append([("LOCK TABLE runs, setups IN SHARE ROW EXCLUSIVE MODE", ()), *statements])

    def find_damage(self) -> list[str]:
        """Return nothing: the server checks its own files."""
        return []

    def is_current(self) -> bool:
        """Return whether the server answers on the open connection."""
        return bool(self._held) or self._connection.is_alive()

    def shut(self, *, is_inherited: bool = False) -> None:
        """Close the connection."""
        self._held.clear()
        self._connection.close(is_inherited=is_inherited)
