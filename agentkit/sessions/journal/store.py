"""The file of a journal: SQLite in WAL mode, which many runs and processes use at once.

Each message, request and call is one row.  Texts are stored whole, secrets included, because a resumed run must make
the calls that it was about to make: protect the file like the data in it.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ...core.errors import DefinitionError, RunError
from ...core.private_files import create_private
from .tables import APPLICATION, TABLES, UPGRADE, VERSION

Sync: TypeAlias = Literal["normal", "full"]
JournalErrors: TypeAlias = Literal["warn", "raise"]
Statement: TypeAlias = tuple[str, Sequence[Any]]
LOCK_TIMEOUT = 10.0
"""Seconds that a write waits for the lock of another process."""
CHECKPOINT_PAGES = 4_000
"""Pages in the write-ahead log before they are moved into the database, which waits for the disk."""


class JournalError(RunError):
    """A journal cannot be written or read, or lacks the wanted run; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The file in which runs are recorded, and its settings.

    `sync="normal"` survives the death of the process; "full" that of the machine too, with an fsync per write.  With
    `errors="warn"` a run continues if nothing can be written (a full disk), and reports that once; "raise" ends it
    before a step that would not be recorded.
    """

    path: str | os.PathLike[str]
    sync: Sync = "normal"
    errors: JournalErrors = "warn"

    def __post_init__(self) -> None:
        if self.sync not in ("normal", "full"):
            raise DefinitionError(f'Journal(sync={self.sync!r}): sync must be "normal" or "full"')
        if self.errors not in ("warn", "raise"):
            raise DefinitionError(f'Journal(errors={self.errors!r}): errors must be "warn" or "raise"')

    @staticmethod
    def of(place: "str | os.PathLike[str] | Journal") -> "Journal":
        """Return the journal of a path, or the journal itself."""
        return place if isinstance(place, Journal) else Journal(place)


JournalLocation: TypeAlias = str | os.PathLike[str] | Journal | None
"""The path of a journal, or a `Journal` with settings."""


def resolve_journal(place: JournalLocation, errors: JournalErrors | None) -> JournalLocation:
    """Return the journal, with `errors` if that is given beside it."""
    if errors is None:
        return place
    if place is None:
        raise DefinitionError(f'journal_errors={errors!r} needs a journal: give journal="runs.db" too')
    return replace(Journal.of(place), errors=errors)


class Store:
    """An open journal file, usable from any thread; all its errors are `JournalError`s."""

    def __init__(self, path: str | os.PathLike[str], sync: Sync = "normal", *, must_exist: bool = False) -> None:
        self.path = Path(path)
        self.users = 1
        self._lock = threading.RLock()
        self._is_locked_out = False
        self._process = os.getpid()
        if must_exist and not self.path.exists():
            raise JournalError(f"the journal {os.fspath(path)!r} does not exist")
        create_private(self.path)  # SQLite gives the mode of the file to the ones beside it
        with self._errors():
            self._file = sqlite3.connect(self.path, LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            with self._errors():
                self._set_up(sync)
            found = os.stat(self.path)
            self._identity = found.st_dev, found.st_ino
        except BaseException:
            self._file.close()
            raise

    def _set_up(self, sync: Sync) -> None:
        if self._number("application_id") != APPLICATION:
            self._file.execute(f"PRAGMA synchronous={'off' if sync == 'normal' else sync}")  # a new file
            self._create()
        self._file.execute(f"PRAGMA synchronous={sync}")
        self._file.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        if self._number("user_version") == 1:
            self._upgrade()
        if (version := self._number("user_version")) != VERSION:
            raise JournalError(f"{self._named} has version {version}, expected {VERSION}. Update agentkit.")

    def _create(self) -> None:
        end = time.monotonic() + LOCK_TIMEOUT
        while True:  # SQLite does not wait while another process sets the file to WAL
            try:
                self._file.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
                time.sleep(0.01)
        self._file.execute("BEGIN IMMEDIATE")
        with self._transaction():
            if self._number("application_id") == APPLICATION:
                return
            if self._file.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise JournalError(f"{self._named} is the database of another program. Give a file of its own.")
            for statement in TABLES.split(";\n"):
                self._file.execute(statement)
            self._file.execute(f"PRAGMA application_id={APPLICATION}")
            self._file.execute(f"PRAGMA user_version={VERSION}")

    def _upgrade(self) -> None:
        self._file.execute("BEGIN IMMEDIATE")
        with self._transaction():
            if self._number("user_version") == 1:
                for statement in UPGRADE.strip().split("\n"):
                    self._file.execute(statement)

    def _number(self, pragma: str) -> int:
        return int(self._file.execute(f"PRAGMA {pragma}").fetchone()[0])

    def write(self, statements: Sequence[Statement]) -> None:
        """Run the statements, all or none of them."""
        with self._lock, self._errors():
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
        self._file.execute("BEGIN IMMEDIATE")
        with self._transaction():
            for sql, values in statements:
                self._file.execute(sql, values)

    def _set_patience(self, seconds: float) -> None:
        self._is_locked_out = not seconds
        self._file.execute(f"PRAGMA busy_timeout={int(seconds * 1000)}")

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._lock, self._errors():
            return self._file.execute(sql, values).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all queries of this thread inside the block see the same state of the file; others wait."""
        with self._lock, self._errors():
            self._file.execute("BEGIN")
            try:
                yield
            finally:
                self._file.execute("ROLLBACK")

    def vacuum(self) -> None:
        """Release the space of deleted rows, unless another process is writing."""
        with suppress(JournalError), self._lock, self._errors():
            self._file.execute("VACUUM")

    def close(self) -> None:
        """Release the file; the last release leaves a single file, without `-wal` and `-shm`."""
        with _guard:
            self.users -= 1
            if self.users:
                return
            for place in [place for place, store in _open.items() if store is self]:
                del _open[place]
        if self._process == os.getpid():  # a child must not close a SQLite file of its parent
            with self._lock, suppress(sqlite3.Error):
                self._file.close()

    def is_at(self, path: str | os.PathLike[str]) -> bool:
        """Return whether the open file is still the one at this path; it may have been deleted or replaced."""
        try:
            found = os.stat(path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _named(self) -> str:
        return f"the journal {os.fspath(self.path)!r}"

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            yield
            self._file.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"{self._named}: {error}. {_remedy(error)}") from error


_open: dict[tuple[str, Sync], Store] = {}
_guard = threading.Lock()
_inherited: list[Store] = []
"""The stores of the parent process; a SQLite file must not be used or closed by another process."""


def open_store(path: str | os.PathLike[str], sync: Sync = "normal", *, must_exist: bool = False) -> Store:
    """Open a journal file; its users in this process share one store, and each closes it once."""
    place = (os.path.realpath(path), sync)
    with _guard:
        store = _open.get(place)
        if store is None or not store.is_at(path):
            _open[place] = Store(path, sync, must_exist=must_exist)
            return _open[place]
        store.users += 1
        return store


def _leave_to_parent() -> None:
    global _guard
    _guard = threading.Lock()
    _inherited.extend(_open.values())
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def _remedy(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return "The file is damaged, or not a journal. agentkit.journal.runs() lists what can still be read."
    if primary == sqlite3.SQLITE_FULL:
        return "Make room on the disk."
    return "The folder must exist, and the folder and the file must be writable."
