"""The default store: a SQLite file in WAL mode, which many runs and processes use at once.

Each message, request and call is one row.  Texts are stored whole, secrets included, because a resumed run must make
the calls that it was about to make: protect the file like the data in it.

A file beside it is locked until its process ends; by it other processes see that the owner of leases lives.  flock(2):
"the lock is released ... when all such file descriptors have been closed"; so it survives when another part of the
process opens and closes the file.  On Windows a file that is open cannot be removed, which needs no lock.
"""

import os
import secrets
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import escape, glob
from pathlib import Path
from typing import Any, TypeVar

from ...core.private_files import create_private
from .location import JournalError, Place, Sync
from .store import LOCK_TIMEOUT, Lease, Statement, Store, digest_texts
from .tables import APPLICATION_ID, CHECK_CUT, SCHEMA_VERSION, SELECT_UNCHECKED, migrations_from

if sys.platform != "win32":
    import fcntl

T = TypeVar("T")


class OwnerFile:
    """A locked file beside a journal; `owner` is the number in its name."""

    def __init__(self, journal: str) -> None:
        self.owner = secrets.randbits(60)
        self._path = _path_of(journal, self.owner)
        mode = os.stat(journal).st_mode & 0o777  # all users of the journal must be able to look
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, mode)
        try:
            if sys.platform != "win32":
                os.fchmod(self._file, mode)
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise

    def close(self, *, is_inherited: bool = False) -> None:
        """End the life of the owner, unless that is the parent process."""
        with suppress(OSError):
            os.close(self._file)
            if not is_inherited:
                os.unlink(self._path)


def is_alive(journal: str, owner: int) -> bool:
    """Return whether the process of an owner lives; the file of one that was killed is removed."""
    path = _path_of(journal, owner)
    try:
        if sys.platform == "win32":
            os.unlink(path)
        else:
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            with suppress(OSError):  # the folder may belong to another user, or be read-only
                os.unlink(path)
    except FileNotFoundError:
        return False
    except (BlockingIOError, PermissionError):
        return True
    return False


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
    """Return the number of the process that has locked a file, as Linux lists it; "" where it does not."""
    with suppress(OSError, ValueError, IndexError):
        found = os.stat(path)
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if place in words and int(words[words.index(place) - 1]) > 0:
                return f" (process {words[words.index(place) - 1]})"
    return ""


def _path_of(journal: str, owner: int) -> str:
    return f"{journal}-lease-{owner:x}"


CHECKPOINT_PAGES = 4_000
"""Pages in the write-ahead log before they are moved into the database, which waits for the disk."""


class SqliteStore(Store):
    """An open journal file, usable from any thread; all its errors are `JournalError`s."""

    def __init__(self, path: Place, sync: Sync = "normal", *, must_exist: bool = False) -> None:
        super().__init__(path)
        self.path = Path(path)
        self._real_path = os.path.realpath(path)
        self._is_locked_out = False
        self._owner_file: OwnerFile | None = None
        if must_exist and not self.path.exists():
            raise JournalError(f"{self.named} does not exist")
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
        self._file.execute("BEGIN IMMEDIATE")
        with self._file:
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

    def append(self, statements: Sequence[Statement], lease: Lease | None = None) -> None:  # noqa: ARG002
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
        self._file.execute("BEGIN IMMEDIATE")
        with self._file:
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

    def read_together(self, read: Callable[[], T]) -> T:
        """Return what a function reads, all of whose queries see the same state of the file; other threads wait."""
        with self.lock, self._errors():
            self._file.execute("BEGIN")
            try:
                return read()
            finally:
                self._file.execute("ROLLBACK")

    def _own(self) -> int:
        if self._owner_file is None:
            with self._errors():
                self._owner_file = OwnerFile(self._real_path)
            self._owner = self._owner_file.owner
        return self._owner

    def _is_alive(self, owner: int) -> bool:
        with self._errors():
            return is_alive(self._real_path, owner)

    def remove(self, statements: Sequence[Statement]) -> None:
        """Run statements that delete runs, and release their space unless another process is writing."""
        self.append(statements)
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
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def shut(self, *, is_inherited: bool = False) -> None:
        """Release the file; the last release leaves a single file, without `-wal` and `-shm`."""
        with self.lock, suppress(sqlite3.Error):
            self._held.clear()
            self._file.close()  # also in a child, where SQLite would believe that it has the locks of the parent
        if self._owner_file is not None:
            self._owner_file.close(is_inherited=is_inherited)
            self._owner_file = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeError, OverflowError) as error:
            raise JournalError(f"{self.named}: {error}. {_remedy(error)}") from error


def _remedy(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return "The file is damaged, or not a journal. agentkit.journal.runs() lists what can still be read."
    if primary == sqlite3.SQLITE_FULL:
        return "Make room on the disk."
    return "The folder must exist and be writable, the file too."
