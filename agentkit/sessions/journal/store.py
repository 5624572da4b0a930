"""The file of a journal: SQLite in WAL mode, which many runs and processes use at once.

Each message, request and call is one row, so the file grows with what was said.  Texts are kept whole, secrets
included: a run that goes on must make the calls that it was about to make.  Keep the file as you keep its data.
"""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ...core.errors import DefinitionError, RunError
from .tables import APPLICATION, TABLES, VERSION

Sync: TypeAlias = Literal["normal", "full"]
JournalErrors: TypeAlias = Literal["warn", "raise"]
Statement: TypeAlias = tuple[str, Sequence[Any]]
LOCK_TIMEOUT = 10.0
"""Seconds that a write waits for those of others."""
CHECKPOINT_PAGES = 4_000
"""Pages that are written before they are put in their places, for which the disk is waited for."""


class JournalError(RunError):
    """A journal cannot be written or read, or does not hold what is wanted of it; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Journal:
    """Where runs are kept, and how.

    `sync="normal"` survives the death of the process, "full" that of the machine too, for an fsync per write.  With
    `errors="warn"` a run goes on when nothing can be written (a full disk), and says so once; "raise" ends it, before
    anything is done that would not be known.
    """

    path: str | os.PathLike[str]
    sync: Sync = "normal"
    errors: JournalErrors = "warn"

    def __post_init__(self) -> None:
        if self.sync not in ("normal", "full"):
            raise DefinitionError(f'Journal(sync={self.sync!r}): give "normal" or "full"')
        if self.errors not in ("warn", "raise"):
            raise DefinitionError(f'Journal(errors={self.errors!r}): give "warn" or "raise"')

    @staticmethod
    def of(place: "str | os.PathLike[str] | Journal") -> "Journal":
        """The journal that is meant by a path, or the journal itself."""
        return place if isinstance(place, Journal) else Journal(place)


JournalLocation: TypeAlias = str | os.PathLike[str] | Journal | None
"""Where runs are kept: the path of a journal, or a `Journal`, which says how."""


def resolve_journal(place: JournalLocation, errors: JournalErrors | None) -> JournalLocation:
    """Where runs are kept, with what is to be done when nothing can be written, if that is said beside it."""
    if errors is None:
        return place
    if place is None:
        raise DefinitionError(f'journal_errors={errors!r} goes with a journal: give journal="runs.db", too')
    return replace(Journal.of(place), errors=errors)


class Store:
    """An open journal file; may be used from any thread.  Whatever goes wrong with it is a `JournalError`."""

    def __init__(self, path: str | os.PathLike[str], sync: Sync = "normal", *, must_exist: bool = False) -> None:
        self.path = Path(path)
        self.users = 1
        self._lock = threading.Lock()
        self._process = os.getpid()
        if must_exist and not self.path.exists():
            raise JournalError(f"there is no journal {os.fspath(path)!r}")
        with self._told():
            self._file = sqlite3.connect(self.path, LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            with self._told():
                self._set_up(sync)
            found = os.stat(self.path)
            self._identity = found.st_dev, found.st_ino
        except BaseException:
            self._file.close()
            raise

    def _set_up(self, sync: Sync) -> None:
        if self._number("application_id") != APPLICATION:
            self._file.execute(f"PRAGMA synchronous={'off' if sync == 'normal' else sync}")  # nothing is in it to lose
            self._create()
        self._file.execute(f"PRAGMA synchronous={sync}")
        self._file.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        if (version := self._number("user_version")) != VERSION:
            raise JournalError(f"{self._named} is of version {version}, and this agentkit reads {VERSION}: update it")

    def _create(self) -> None:
        end = time.monotonic() + LOCK_TIMEOUT
        while True:  # SQLite does not wait while another process turns the file to WAL
            try:
                self._file.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
                time.sleep(0.01)
        self._file.execute("BEGIN IMMEDIATE")
        with self._ended():
            if self._number("application_id") == APPLICATION:
                return
            if self._file.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise JournalError(f"{self._named} is the database of another program: give a file of its own")
            for statement in TABLES.split(";\n"):
                self._file.execute(statement)
            self._file.execute(f"PRAGMA application_id={APPLICATION}")
            self._file.execute(f"PRAGMA user_version={VERSION}")

    def _number(self, pragma: str) -> int:
        return int(self._file.execute(f"PRAGMA {pragma}").fetchone()[0])

    def write(self, statements: Sequence[Statement]) -> None:
        """Run the statements, all or none of them."""
        with self._lock, self._told():
            if len(statements) == 1:  # a transaction by itself
                self._file.execute(*statements[0])
                return
            self._file.execute("BEGIN IMMEDIATE")
            with self._ended():
                for sql, values in statements:
                    self._file.execute(sql, values)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query finds."""
        with self._lock, self._told():
            return self._file.execute(sql, values).fetchall()

    def vacuum(self) -> None:
        """Give the space of what was deleted back, unless others write just now."""
        with suppress(JournalError), self._lock, self._told():
            self._file.execute("VACUUM")

    def close(self) -> None:
        """Let go of the file; the last one to do so leaves a single file, without `-wal` and `-shm`."""
        with _guard:
            self.users -= 1
            if self.users:
                return
            for place in [place for place, store in _open.items() if store is self]:
                del _open[place]
        if self._process == os.getpid():  # SQLite's file of a parent process is not ours to close
            with self._lock, suppress(sqlite3.Error):
                self._file.close()

    def is_at(self, path: str | os.PathLike[str]) -> bool:
        """Whether what is open is still the file of this path: it may have been deleted, or replaced."""
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
    def _ended(self) -> Iterator[None]:
        try:
            yield
            self._file.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")
            raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"{self._named}: {error}. {_remedy(error)}") from error


_open: dict[tuple[str, Sync], Store] = {}
_guard = threading.Lock()
_inherited: list[Store] = []
"""What the parent process has open; SQLite's files must not be closed, nor used, by another process."""


def open_store(path: str | os.PathLike[str], sync: Sync = "normal", *, must_exist: bool = False) -> Store:
    """The journal file, which all that use it at a time in this process share; each of them closes it once."""
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
        return "The file is damaged, or no journal; what can still be read of it, agentkit.journal.runs() lists."
    if primary == sqlite3.SQLITE_FULL:
        return "Make room on the disk."
    return "Its folder must be there, and it and the file must be writable."


_write_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def digest(place: object, text: str) -> int:
    """A number that changes with every bit of `text` and with its place."""
    data = f"{place}\0{text}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest()) >> 1


def encode_json(value: Any) -> str:
    """`value` as JSON; raises `JournalError` for what JSON does not have."""
    try:
        text = _write_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"a run is kept as JSON, and something in it is none: {error}") from error
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text
