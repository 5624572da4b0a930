"""Locks beside a file, which survive when another part of the process opens and closes a copy of the lock's file.

That ends POSIX locks.  So a lock is that of a byte of one file on Windows and on 64-bit Linux (fcntl(2), "Open file
description locks"), and `flock` of a file per conversation elsewhere (flock(2): "the lock is released ... when all such
file descriptors have been closed").

A lock has the journal's path and the key of a conversation, and is held by an open file.  Locks of bytes share one: a
process with thousands of runs may not open a file for each.
"""

import os
import struct
import sys
from contextlib import suppress
from typing import TypeAlias

from ...core.private_files import MODE

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FLAGS = os.O_RDWR | os.O_CREAT
shared_files: dict[str, int] = {}
"""The open files of `ByteLocks` by their journals, until the process ends: to close one would end its locks."""
SLOTS, SLOT_BYTES = 1024, 64
"""Slots at the beginning of the file: each has the key, the process and the start of the last lease of its keys."""


class ByteLocks:
    """One file beside the journal; the lock of a conversation is that of one byte."""

    def take(self, path: str, key: int) -> int | None:
        """Take the lock and return the open file that holds it; return None if another process has the lock."""
        file = self._open(path)
        try:
            _lock_byte(file, key, take=True)
        except (BlockingIOError, PermissionError):
            return None
        return file

    def free(self, path: str, key: int, file: int) -> None:  # noqa: ARG002
        """Release the lock, also if a process that was just being forked has the open file too."""
        with suppress(OSError):
            _lock_byte(file, key, take=False)

    def _open(self, path: str) -> int:
        name, file = f"{path}-lease", shared_files.get(path)
        with suppress(OSError):
            if file is not None and os.path.samestat(os.fstat(file), os.stat(name)):
                return file
        shared_files[path] = os.open(name, FLAGS, MODE)
        return shared_files[path]

    def is_taken(self, path: str, key: int) -> bool:
        """Return whether another process has the lock; on Linux without taking it, which would refuse a run."""
        with open(f"{path}-lease", "rb") as looked:
            if sys.platform == "linux":
                found = fcntl.fcntl(looked, fcntl.F_OFD_GETLK, _byte_lock(fcntl.F_WRLCK, key))
                return bool(struct.unpack("@hhqqi4x", found)[0] != fcntl.F_UNLCK)
        if (file := self.take(path, key)) is not None:
            self.free(path, key, file)
        return file is None

    def holder_place(self, path: str, key: int) -> tuple[str, int]:
        """Return the file, and the index in it, where the holder of the lock is written."""
        return f"{path}-lease", key % SLOTS * SLOT_BYTES


class WholeFileLocks:
    """A folder beside the journal with a file for each conversation that has a lease; the lock is `flock`."""

    def take(self, path: str, key: int) -> int | None:
        """Take the lock and return the open file that holds it; return None if another process has the lock."""
        name, _ = self.holder_place(path, key)
        while True:
            with suppress(FileExistsError):
                os.mkdir(os.path.dirname(name), 0o700)
            try:
                file = os.open(name, FLAGS, MODE)
            except FileNotFoundError:  # the last lease has just removed the folder
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file), os.stat(name)):
                    return file
            except BlockingIOError:
                os.close(file)
                return None
            except FileNotFoundError:
                pass
            os.close(file)  # the holder has removed the file after this one was opened

    def free(self, path: str, key: int, file: int) -> None:
        """Release the lock and remove its file."""
        name, _ = self.holder_place(path, key)
        with suppress(OSError):
            os.unlink(name)
        os.close(file)
        with suppress(OSError):
            os.rmdir(os.path.dirname(name))

    def is_taken(self, path: str, key: int) -> bool:
        """Return whether another process has the lock: whether there is a file that is not left from a dead process."""
        with open(self.holder_place(path, key)[0], "rb") as file:
            if not file.read(1):  # it is just being taken, which a lock here would prevent
                return False
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def holder_place(self, path: str, key: int) -> tuple[str, int]:
        """Return the file, and the index in it, where the holder of the lock is written."""
        return os.path.join(f"{path}-leases", str(key)), 0


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
