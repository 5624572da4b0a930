"""Replace the writes of all stores of journals, so that they fail, or a process dies in one."""

import fcntl
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pytest

from agentkit import RunError
from agentkit.sessions.journal.connections import opened_store
from agentkit.sessions.journal.lines import LINES_SUFFIX, LinesStore
from agentkit.sessions.journal.sqlite import SqliteStore, SqlStore

try:
    from agentkit.sessions.journal.postgres import PostgresStore
except RunError:  # psycopg is not installed
    PostgresStore = None

in_databases = pytest.mark.parametrize(
    "new_journal", ["sqlite", pytest.param("postgres", marks=pytest.mark.integration)], indirect=True
)
"""For what concerns tables or quotas, which a file of lines does not have."""
Write = Callable[[Sequence[Any]], None]


def patch_append(patched: pytest.MonkeyPatch, replacement: Callable[[Write, SqlStore, Sequence[Any]], None]) -> None:
    """Call `replacement(write, store, statements)` in place of each write; `write` is the real one."""

    def replaced(write):
        def execute(store, statements, lease=None):
            replacement(lambda rows: write(store, rows, lease), store, statements)

        return execute

    def replaced_lines(write):
        return lambda store, records: replacement(lambda rows: write(store, rows), store, records)

    patched.setattr(SqliteStore, "execute", replaced(SqliteStore.execute))
    patched.setattr(LinesStore, "_append", replaced_lines(LinesStore._append))
    if PostgresStore is not None:
        patched.setattr(PostgresStore, "execute", replaced(PostgresStore.execute))


def shorten_waits(patched: pytest.MonkeyPatch, seconds: float) -> None:
    """Wait only so long for the lock of another program."""
    patched.setattr("agentkit.sessions.journal.sqlite.LOCK_TIMEOUT", seconds)
    patched.setattr("agentkit.sessions.journal.lines.LOCK_TIMEOUT", seconds)
    if PostgresStore is not None:
        patched.setattr("agentkit.sessions.journal.postgres.LOCK_TIMEOUT", seconds)


def change_rows(path, *statements: str) -> None:
    """Change rows of a journal behind its back."""
    with opened_store(path) as store:
        store.execute([(sql, ()) for sql in statements])


@contextmanager
def locked(path) -> Iterator[Callable[[], None]]:
    """Let another program lock a journal for writes; yields the function that ends the lock."""
    if str(path).endswith(LINES_SUFFIX):
        other = open(path, "rb")  # noqa: SIM115
        fcntl.flock(other, fcntl.LOCK_EX)
        end = partial(fcntl.flock, other, fcntl.LOCK_UN)
    elif isinstance(path, str):
        import psycopg

        other = psycopg.connect(path)
        other.execute("LOCK TABLE agentkit.leases, agentkit.runs, agentkit.steps, agentkit.messages IN EXCLUSIVE MODE")
        end = other.rollback
    else:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        end = partial(other.execute, "ROLLBACK")
    with closing(other):
        yield end
