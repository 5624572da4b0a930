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
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..errors import DefinitionError, RunError

Sync: TypeAlias = Literal["normal", "full"]
Statement: TypeAlias = tuple[str, Sequence[Any]]
PATIENCE = 10.0
"""Seconds that a write waits for those of others."""
APPLICATION, VERSION = 0x616B6A6C, 1
"""What SQLite keeps in the file's head: whose it is, and the version of the tables."""
TABLES = """
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
CREATE TABLE setups (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE steps (
    run TEXT, step INTEGER, call TEXT, name TEXT, input INTEGER, arguments TEXT, begun REAL, ended REAL, outcome TEXT,
    PRIMARY KEY (run, step, call)
) WITHOUT ROWID;
"""


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
    errors: Literal["warn", "raise"] = "warn"

    def __post_init__(self) -> None:
        if self.sync not in ("normal", "full"):
            raise DefinitionError(f'Journal(sync={self.sync!r}): give "normal" or "full"')
        if self.errors not in ("warn", "raise"):
            raise DefinitionError(f'Journal(errors={self.errors!r}): give "warn" or "raise"')

    @staticmethod
    def of(place: "str | os.PathLike[str] | Journal") -> "Journal":
        """The journal that is meant by a path, or the journal itself."""
        return place if isinstance(place, Journal) else Journal(place)


Place: TypeAlias = str | os.PathLike[str] | Journal | None
"""Where runs are kept: the path of a journal, or a `Journal`, which says how."""


class Store:
    """An open journal file; may be used from any thread.  Whatever goes wrong with it is a `JournalError`."""

    def __init__(self, path: str | os.PathLike[str], sync: Sync = "normal", *, must_exist: bool = False) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._process = os.getpid()
        if must_exist and not self.path.exists():
            raise JournalError(f"there is no journal {os.fspath(path)!r}")
        with self._told():
            self._file = sqlite3.connect(self.path, PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            with self._told():
                self._set_up(sync)
        except BaseException:
            self._file.close()
            raise

    def _set_up(self, sync: Sync) -> None:
        self._file.execute(f"PRAGMA synchronous={sync}")
        if self._number("application_id") != APPLICATION:
            self._create()
        if (version := self._number("user_version")) != VERSION:
            raise JournalError(f"{self._named} is of version {version}, and this agentkit reads {VERSION}: update it")

    def _create(self) -> None:
        end = time.monotonic() + PATIENCE
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
        if self._process == os.getpid():  # SQLite's file of a parent process is not ours to close
            with self._lock, suppress(sqlite3.Error):
                self._file.close()

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


def _remedy(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return "The file is damaged, or no journal; what can still be read of it, agentkit.journal.runs() lists."
    if primary == sqlite3.SQLITE_FULL:
        return "Make room on the disk."
    return "Its folder must be there, and it and the file must be writable."


def digest(place: object, text: str) -> int:
    """A number that changes with every bit of `text` and with its place."""
    data = f"{place}\0{text}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest()) >> 1


def encoded(value: Any) -> str:
    """`value` as JSON; raises `JournalError` for what JSON does not have."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"a run is kept as JSON, and something in it is none: {error}") from error
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text
