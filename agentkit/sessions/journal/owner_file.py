"""The file by which other processes see that the owner of leases lives: it is locked until its process ends.

flock(2): "the lock is released ... when all such file descriptors have been closed"; so it survives when another part
of the process opens and closes the file.  On Windows a file that is open cannot be removed, which needs no lock.
"""

import os
import secrets
import sys
import threading
from contextlib import suppress

from ...core.private_files import MODE

if sys.platform != "win32":
    import fcntl

_guard = threading.Lock()
_open: set[int] = set()


class OwnerFile:
    """A locked file beside a journal; `owner` is the number in its name."""

    def __init__(self, journal: str | os.PathLike[str]) -> None:
        self.owner = secrets.randbits(60)
        self._path = _path_of(journal, self.owner)
        with _guard:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, MODE)
            _open.add(self._file)
            if sys.platform != "win32":
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """End the life of the owner."""
        with _guard, suppress(OSError):
            _open.discard(self._file)
            os.close(self._file)
            os.unlink(self._path)


def is_alive(journal: str | os.PathLike[str], owner: int) -> bool:
    """Return whether the process of an owner lives; the file of one that was killed is removed."""
    path = _path_of(journal, owner)
    try:
        if sys.platform != "win32":
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.unlink(path)
    except FileNotFoundError:
        return False
    except (BlockingIOError, PermissionError):
        return True
    return False


def _path_of(journal: str | os.PathLike[str], owner: int) -> str:
    return f"{os.path.realpath(journal)}-lease-{owner:x}"


def _close_in_child() -> None:
    for file in _open:  # the locks are those of the parent
        os.close(file)
    _open.clear()
    _guard.release()


if hasattr(os, "register_at_fork"):  # no file is just being opened, so a child knows all of them
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_close_in_child)
