"""The lease of a conversation: only one run of all processes may continue it at a time.

It is a lock on one byte of a file beside the journal, which the system releases when the process dies.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_guard = threading.Lock()
_held: set[tuple[str, int]] = set()
_files: dict[str, int] = {}
"""Open for the life of the process: to close one would end all its locks (POSIX)."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_held.clear)


def acquire_lease(journal: Path, key: int) -> Callable[[], None] | None:
    """Take the lease of the conversation `key`; return a function that releases it, None if another run has it.

    Raises `OSError` if no file can be created beside the journal.
    """
    path = os.path.realpath(journal) + "-lease"
    with _guard:
        if (path, key) in _held:
            return None
        file = _open_file(path)
        if not _try_lock(file, key):
            return None
        _held.add((path, key))

    def end() -> None:
        with _guard:
            if (path, key) in _held:
                _held.discard((path, key))
                _unlock(file, key)

    return end


def is_leased(journal: Path, key: int) -> bool:
    """Return whether a run of any process has the conversation."""
    try:
        end = acquire_lease(journal, key) if os.path.exists(os.path.realpath(journal) + "-lease") else lambda: None
    except OSError:
        return False
    if end is None:
        return True
    end()
    return False


def _open_file(path: str) -> int:
    file = _files.get(path)
    with suppress(OSError):
        if file is not None and os.path.samestat(os.fstat(file), os.stat(path)):
            return file
    _files[path] = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    return _files[path]


def _try_lock(file: int, key: int) -> bool:
    try:
        if sys.platform == "win32":
            os.lseek(file, key, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, key)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(file: int, key: int) -> None:
    with suppress(OSError):
        if sys.platform == "win32":
            os.lseek(file, key, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_UNLCK, 1)
        else:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, key)
