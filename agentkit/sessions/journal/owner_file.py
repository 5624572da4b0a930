"""The file by which other processes see that the owner of leases lives: it is locked until its process ends.

flock(2): "the lock is released ... when all such file descriptors have been closed"; so it survives when another part
of the process opens and closes the file.  On Windows a file that is open cannot be removed, which needs no lock.
"""

import os
import secrets
import sys
from contextlib import suppress

if sys.platform != "win32":
    import fcntl


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


def _path_of(journal: str, owner: int) -> str:
    return f"{journal}-lease-{owner:x}"
