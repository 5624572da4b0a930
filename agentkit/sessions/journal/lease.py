"""The lease of a conversation in a file: only one run of all processes may continue it at a time.

It is a lock beside the journal, which the system releases when the process dies, see `file_locks`.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from .file_locks import LOCKS, SLOT_BYTES, LeaseLocks, shared_files
from .location import ConversationBusy, JournalError

ATTEMPTS, SECONDS_BETWEEN_ATTEMPTS = 4, 0.005
_guard = threading.RLock()
_held: dict[tuple[str, int], int] = {}
"""The open files that hold the locks of this process, by the paths of journals and the keys of conversations."""


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
            file = None if (path, key) in _held else _take_lock(locks, path, key)
        except OSError as error:
            reason = f"{error.strerror}. The folder must exist and be writable."
            raise JournalError(f"the journal {os.fspath(journal)!r} cannot be opened: {reason}") from error
        if file is None:
            raise ConversationBusy(describe_lease(what, *_read_holder(locks, path, key)))
        _held[path, key] = file
        record = f"{key} {os.getpid()} {time.strftime('%Y-%m-%d %H:%M:%S')}".encode()
        with suppress(OSError):  # the holder is only named in messages
            os.lseek(file, locks.holder_place(path, key)[1], os.SEEK_SET)
            os.write(file, record.ljust(SLOT_BYTES))

    def release() -> None:
        with _guard:
            if (held := _held.pop((path, key), None)) is not None:
                locks.free(path, key, held)

    return release


def is_leased(journal: str | os.PathLike[str], key: int, *, locks: LeaseLocks = LOCKS) -> bool:
    """Return whether a run of any process has the conversation."""
    path = os.path.realpath(journal)
    with _guard:
        if (path, key) in _held:
            return True
        with suppress(OSError):
            return locks.is_taken(path, key)
        return False


def _take_lock(locks: LeaseLocks, path: str, key: int) -> int | None:
    """Take a lock; wait a moment for a process that only looks whether it is taken."""
    for _ in range(ATTEMPTS - 1):
        if (file := locks.take(path, key)) is not None:
            return file
        time.sleep(SECONDS_BETWEEN_ATTEMPTS)
    return locks.take(path, key)


def describe_lease(what: str, holder: str = "another run", since: str = "") -> str:
    """Return the message of the error that refuses a second run."""
    when = f", since {since}," if since else ""
    return f"{what} is in progress: {holder}{when} is working on it. Wait until it has ended."


def _read_holder(locks: LeaseLocks, path: str, key: int) -> tuple[str, ...]:
    with suppress(OSError, ValueError):
        name, place = locks.holder_place(path, key)
        with open(name, "rb") as file:
            file.seek(place)
            number, process, since = file.read(SLOT_BYTES).decode().strip().split(" ", 2)
        if int(number) == key:
            return "this process" if int(process) == os.getpid() else f"process {process}", since
    return ()


def _close_in_child() -> None:
    for file in {*_held.values(), *shared_files.values()}:  # the locks are those of the parent
        with suppress(OSError):
            os.close(file)
    _held.clear()
    shared_files.clear()
    _guard.release()


if hasattr(os, "register_at_fork"):  # no lock is just being taken, so a child knows all open files
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_close_in_child)
