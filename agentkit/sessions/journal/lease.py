"""The lease of a conversation: only one run of all processes may continue it at a time.

It is a lock on one byte of a file beside the journal, which the system releases when the process dies.  On Linux the
lock belongs to the open file, so it survives when another part of the process opens and closes a copy of the file
(POSIX locks would end then; fcntl(2), "Open file description locks").
"""

import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .store import JournalError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SLOTS, SLOT_BYTES = 1024, 64
"""Slots at the beginning of the file: each has the key, the process and the start of the last lease of its keys."""
_guard = threading.Lock()
_held: set[tuple[str, int]] = set()
_files: dict[str, int] = {}
"""Open for the life of the process: to close one would end its locks."""


def acquire_lease(journal: Path, key: int, what: str = "the conversation") -> Callable[[], None]:
    """Take the lease of the conversation `key` and return the function that releases it.

    Raises:
        JournalError: Another run has it (the message names `what`, the process and the time), or no file can be
            created beside the journal.
    """
    path = os.path.realpath(journal) + "-lease"
    with _guard:
        try:
            file = _open_file(path)
        except OSError as error:
            reason = f"{error.strerror}. The folder must exist and be writable."
            raise JournalError(f"the journal {os.fspath(journal)!r} cannot be opened: {reason}") from error
        if (path, key) in _held or not _try_lock(file, key):
            raise JournalError(
                f"{what} is in progress: {_read_holder(file, key)} is working on it. Wait until it has ended."
            )
        _held.add((path, key))
        record = f"{key} {os.getpid()} {time.strftime('%Y-%m-%d %H:%M:%S')}".encode()
        with suppress(OSError):  # the holder is only named in messages
            _write_slot(file, key, record.ljust(SLOT_BYTES))

    def release() -> None:
        with _guard:
            if (path, key) in _held:
                _held.discard((path, key))
                _unlock(file, key)

    return release


def is_leased(journal: Path, key: int) -> bool:
    """Return whether a run of any process has the conversation."""
    path = os.path.realpath(journal) + "-lease"
    with _guard:
        if (path, key) in _held:
            return True
        if not os.path.exists(path):
            return False
        try:
            file = _open_file(path)
            if not _try_lock(file, key):
                return True
        except OSError:
            return False
        _unlock(file, key)
        return False


def _read_holder(file: int, key: int) -> str:
    with suppress(OSError, ValueError):
        os.lseek(file, key % SLOTS * SLOT_BYTES, os.SEEK_SET)
        number, process, since = os.read(file, SLOT_BYTES).decode().strip().split(" ", 2)
        if int(number) == key:
            where = "this process" if int(process) == os.getpid() else f"process {process}"
            return f"{where}, since {since},"
    return "another run"


def _write_slot(file: int, key: int, record: bytes) -> None:
    os.lseek(file, key % SLOTS * SLOT_BYTES, os.SEEK_SET)
    os.write(file, record)


def _open_file(path: str) -> int:
    file = _files.get(path)
    with suppress(OSError):
        if file is not None and os.path.samestat(os.fstat(file), os.stat(path)):
            return file
    _files[path] = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    return _files[path]


def _try_lock(file: int, key: int) -> bool:
    try:
        _lock(file, key, take=True)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(file: int, key: int) -> None:
    with suppress(OSError):
        _lock(file, key, take=False)


def _lock(file: int, key: int, *, take: bool) -> None:
    place = SLOTS * SLOT_BYTES + key
    if sys.platform == "win32":
        os.lseek(file, place, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK if take else msvcrt.LK_UNLCK, 1)
    elif sys.platform == "linux" and struct.calcsize("P") == 8:
        kind = fcntl.F_WRLCK if take else fcntl.F_UNLCK
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", kind, os.SEEK_SET, place, 1, 0))
    else:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB if take else fcntl.LOCK_UN, 1, place)


def _close_in_child() -> None:
    """Close the files that a forked child inherits: their locks are those of the parent."""
    global _guard
    _guard = threading.Lock()
    for file in _files.values():
        with suppress(OSError):
            os.close(file)
    _files.clear()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
