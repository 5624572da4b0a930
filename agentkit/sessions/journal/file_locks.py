"""Locks beside a file, which survive when another part of the process opens and closes a copy of the lock's file.

That ends POSIX locks.  So a lock is that of a byte of one file on Windows and on 64-bit Linux (fcntl(2), "Open file
description locks"), and `flock` of a file per conversation elsewhere (flock(2): "the lock is released ... when all such
file descriptors have been closed").

A lock has the journal's path and the key of a conversation; only one thread at a time calls a method.
"""

import os
import struct
import sys
from contextlib import suppress
from typing import Any, TypeAlias

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SLOTS, SLOT_BYTES = 1024, 64
"""Slots at the beginning of the file: each has the key, the process and the start of the last lease of its keys."""


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

    def is_taken(self, path: str, key: int) -> bool:
        """Return whether another process has the lock; on Linux without taking it, which would refuse a run."""
        if not os.path.exists(f"{path}-lease"):
            return False
        if sys.platform == "linux":
            found = fcntl.fcntl(self._open(path), fcntl.F_OFD_GETLK, _byte_lock(fcntl.F_WRLCK, key))
            return bool(struct.unpack("@hhqqi4x", found)[0] != fcntl.F_UNLCK)
        if is_free := self.take(path, key):
            self.free(path, key)
        return not is_free

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
        _close(self._files)

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

    def is_taken(self, path: str, key: int) -> bool:
        """Return whether another process has the lock: whether there is a file that is not left from a dead process."""
        try:
            with open(self._name(path, key), "rb") as file:
                if not file.read(1):  # it is just being taken, which a lock here would prevent
                    return False
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def write_holder(self, path: str, key: int, record: bytes) -> None:
        """Store who has the lock."""
        os.write(self._files[path, key], record)

    def read_holder(self, path: str, key: int) -> bytes:
        """Return what the holder of the lock has stored."""
        with open(self._name(path, key), "rb") as file:
            return file.read(SLOT_BYTES)

    def forget(self) -> None:
        """Close the files that a forked child inherits: their locks are those of the parent."""
        _close(self._files)

    @staticmethod
    def _name(path: str, key: int) -> str:
        return os.path.join(f"{path}-leases", str(key))


def _close(files: dict[Any, int]) -> None:
    for file in files.values():
        with suppress(OSError):
            os.close(file)
    files.clear()


LeaseLocks: TypeAlias = ByteLocks | WholeFileLocks


def _byte_lock(kind: int, key: int) -> bytes:
    return struct.pack("@hhqqi4x", kind, os.SEEK_SET, SLOTS * SLOT_BYTES + key, 1, 0)


def _lock_byte(file: int, key: int, *, take: bool) -> None:
    place = SLOTS * SLOT_BYTES + key
    if sys.platform == "win32":
        os.lseek(file, place, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK if take else msvcrt.LK_UNLCK, 1)
    else:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _byte_lock(fcntl.F_WRLCK if take else fcntl.F_UNLCK, key))


HAS_BYTE_LOCKS = sys.platform == "win32" or (sys.platform == "linux" and struct.calcsize("P") == 8)
"""Whether locks of bytes belong to the open file: on Windows and, with a known layout of the call, on 64-bit Linux."""
LOCKS: LeaseLocks = ByteLocks() if HAS_BYTE_LOCKS else WholeFileLocks()
