"""The store of a journal: what a database must do so that runs can be recorded in it.

A store keeps the rows of the tables in `tables.py`.  All stores understand the same SQL: `?` for a value,
`ON CONFLICT`, a `rowid` in `runs` that increases with each new run, and texts that are compared byte by byte.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from .location import Place

Statement: TypeAlias = tuple[str, Sequence[Any]]


class Lease(Protocol):
    """The right to continue a conversation; only one run of all processes has it at a time."""

    def release(self) -> None:
        """End the lease; a second call does nothing."""
        ...


class Store(Protocol):
    """An open journal, usable from any thread; all its errors are `JournalError`s."""

    @property
    def place(self) -> Place:
        """The path or the URL."""
        ...

    def append(self, statements: Sequence[Statement], lease: Lease | None = None) -> None:
        """Run the statements, all or none of them.

        With a lease nothing is written after another process has taken the lease over.  A write may be repeated when
        the connection is lost in it, so each statement must have the same effect when it runs twice.

        Raises:
            LeaseLost: Another process has had the lease meanwhile.
            JournalError: Nothing could be written.
        """
        ...

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all queries of this thread inside the block see the same state; other threads wait."""
        ...

    def lease(self, key: int, what: str = "the conversation") -> Lease:
        """Take the lease of the conversation `key`.

        Raises:
            JournalError: Another run has it; the message names `what`, the process and the time.
        """
        ...

    def is_leased(self, key: int) -> bool:
        """Return whether a run of any process has the conversation."""
        ...

    def remove(self, statements: Sequence[Statement]) -> None:
        """Run statements that delete runs, while no run begins; release the space."""
        ...

    def find_damage(self) -> list[str]:
        """Return a line for each problem that the database finds in its own files."""
        ...

    def is_current(self) -> bool:
        """Return whether the place still leads to what is open here; a file may have been deleted or replaced."""
        ...

    def shut(self) -> None:
        """Release the file or the connection.  `close_store` calls it after the last user."""
        ...
