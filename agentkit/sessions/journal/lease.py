"""The lease of a conversation in a file: only one run of all processes may continue it at a time.

It is a lock beside the journal, which the system releases when the process dies.  It must survive when another part of
the process opens and closes a copy of the lock's file, which ends POSIX locks.  So it is the lock of a byte of one file
on Windows and on 64-bit Linux (fcntl(2), "Open file description locks"), and `flock` of a file per conversation
elsewhere (flock(2): "the lock is released ... when all such file descriptors have been closed").
"""

import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from .location import JournalError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SLOTS, SLOT_BYTES = 1024, 64
"""Slots at the beginning of the file: each has the key, the process and the start of the last lease of its keys."""
_guard = threading.Lock()
_held: set[tuple[str, int]] = set()


class LeaseLocks(Protocol):
    """Locks by the journal's path and the key of a conversation; only one thread at a time calls a method."""

    def take(self, path: str, key: int) -> bool:
        """Take the lock; return False if another process has it."""
        ...

    def free(self, path: str, key: int) -> None:
        """Release the lock."""
        ...

    def write_holder(self, path: str, key: int, record: bytes) -> None:
        """Store who has the lock."""
        ...

    def read_holder(self, path: str, key: int) -> bytes:
        """Return what the last holder of the lock has stored."""
        ...

    def forget(self) -> None:
        """Close the files that a forked child inherits: their locks are those of the parent."""
        ...


class ByteLocks:
    """One file beside the journal; the lock of a conversation is that of one byte."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        """Open for the life of the process: to close one would end its locks."""

    def take(self, path: str, key: int) -> bool:
        """Take the lock; return False if another process has it."""
        try:
            _lock_byte(self._open(path), key, take=True)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def free(self, path: str, key: int) -> None:
        """Release the lock."""
        with suppress(OSError):
            _lock_byte(self._open(path), key, take=False)

    def write_holder(self, path: str, key: int, record: bytes) -> None:
        """Store who has the lock."""
        os.lseek(self._open(path), key % SLOTS * SLOT_BYTES, os.SEEK_SET)
        os.write(self._open(path), record)

    def read_holder(self, path: str, key: int) -> bytes:
        """Return what the last holder of the lock has stored."""
        os.lseek(self._open(path), key % SLOTS * SLOT_BYTES, os.SEEK_SET)
        return os.read(self._open(path), SLOT_BYTES)

    def forget(self) -> None:
        """Close the files that a forked child inherits: their locks are those of the parent."""
        for file in self._files.values():
            with suppress(OSError):
                os.close(file)
        self._files.clear()

    def _open(self, path: str) -> int:
        name, file = f"{path}-lease", self._files.get(path)
        with suppress(OSError):
            if file is not None and os.path.samestat(os.fstat(file), os.stat(name)):
                return file
        self._files[path] = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        return self._files[path]


class WholeFileLocks:
    """A folder beside the journal with a file for each conversation that has a lease; the lock is `flock`."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, int], int] = {}

    def take(self, path: str, key: int) -> bool:
        """Take the lock; return False if another process has it."""
        name = self._name(path, key)
        while True:
            with suppress(FileExistsError):
                os.mkdir(os.path.dirname(name), 0o700)
            try:
                file = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:  # the last lease has just removed the folder
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file), os.stat(name)):
                    self._files[path, key] = file
                    return True
            except BlockingIOError:
                os.close(file)
                return False
            except FileNotFoundError:
                pass
            os.close(file)  # the holder has removed the file after this one was opened

    def free(self, path: str, key: int) -> None:
        """Release the lock and remove its file."""
        name = self._name(path, key)
        with suppress(OSError):
            os.unlink(name)
        os.close(self._files.pop((path, key)))
        with suppress(OSError):
            os.rmdir(os.path.dirname(name))

    def write_holder(self, path: str, key: int, record: bytes) -> None:
        """Store who has the lock."""
        os.write(self._files[path, key], record)

    def read_holder(self, path: str, key: int) -> bytes:
        """Return what the holder of the lock has stored."""
        with open(self._name(path, key), "rb") as file:
            return file.read(SLOT_BYTES)

    def forget(self) -> None:
        """Close the files that a forked child inherits: their locks are those of the parent."""
        for file in self._files.values():
            with suppress(OSError):
                os.close(file)
        self._files.clear()

    @staticmethod
    def _name(path: str, key: int) -> str:
        return os.path.join(f"{path}-leases", str(key))


HAS_BYTE_LOCKS = sys.platform == "win32" or (sys.platform == "linux" and struct.calcsize("P") == 8)
"""Whether locks of bytes belong to the open file: on Windows and, with a known layout of the call, on 64-bit Linux."""
LOCKS: LeaseLocks = ByteLocks() if HAS_BYTE_LOCKS else WholeFileLocks()


def acquire_lease(
    journal: str | os.PathLike[str], key: int, what: str = "the conversation", *, locks: LeaseLocks = LOCKS
) -> Callable[[], None]:
    """Take the lease of the conversation `key` and return the function that releases it.

    Raises:
        JournalError: Another run has it (the message names `what`, the process and the time), or no file can be
            created beside the journal.
    """
    path = os.path.realpath(journal)
    with _guard:
        try:
            is_free = (path, key) not in _held and locks.take(path, key)
        except OSError as error:
            reason = f"{error.strerror}. The folder must exist and be writable."
            raise JournalError(f"the journal {os.fspath(journal)!r} cannot be opened: {reason}") from error
        if not is_free:
            raise JournalError(describe_lease(what, *_read_holder(locks, path, key)))
        _held.add((path, key))
        record = f"{key} {os.getpid()} {time.strftime('%Y-%m-%d %H:%M:%S')}".encode()
        with suppress(OSError):  # the holder is only named in messages
            locks.write_holder(path, key, record.ljust(SLOT_BYTES))

    def release() -> None:
        with _guard:
            if (path, key) in _held:
                _held.discard((path, key))
                locks.free(path, key)

    return release


def is_leased(journal: str | os.PathLike[str], key: int, *, locks: LeaseLocks = LOCKS) -> bool:
    """Return whether a run of any process has the conversation."""
    path = os.path.realpath(journal)
    with _guard:
        if (path, key) in _held:
            return True
        if not (os.path.exists(f"{path}-lease") or os.path.exists(f"{path}-leases")):
            return False
        try:
            if not locks.take(path, key):
                return True
        except OSError:
            return False
        locks.free(path, key)
        return False


def describe_lease(what: str, holder: str = "another run", since: str = "") -> str:
    """Return the message of the error that refuses a second run."""
    when = f", since {since}," if since else ""
    return f"{what} is in progress: {holder}{when} is working on it. Wait until it has ended."


def _read_holder(locks: LeaseLocks, path: str, key: int) -> tuple[str, ...]:
    with suppress(OSError, ValueError):
        number, process, since = locks.read_holder(path, key).decode().strip().split(" ", 2)
        if int(number) == key:
            return "this process" if int(process) == os.getpid() else f"process {process}", since
    return ()


def _lock_byte(file: int, key: int, *, take: bool) -> None:
    place = SLOTS * SLOT_BYTES + key
    if sys.platform == "win32":
        os.lseek(file, place, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK if take else msvcrt.LK_UNLCK, 1)
    else:
        kind = fcntl.F_WRLCK if take else fcntl.F_UNLCK
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", kind, os.SEEK_SET, place, 1, 0))


def _close_in_child() -> None:
    global _guard
    _guard = threading.Lock()
    LOCKS.forget()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
