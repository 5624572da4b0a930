"""The stores that are open in this process: its parts share one store for each journal."""

import atexit
import os
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import cast
from weakref import WeakSet

from .lines import LINES_SUFFIX, LinesStore
from .sqlite import SqliteStore
from .store import Place, SharedStore, Store, Sync, absolute_place, is_url, without_scheme

POSTGRES = "agentkit.sessions.journal.postgres"
"""The module that needs psycopg."""
_open: dict[tuple[str, Sync], SharedStore] = {}
_guard = threading.RLock()
_stores: WeakSet[SharedStore] = WeakSet()
"""The stores in `_open`, and those that were replaced in it and still have users."""
IDLE_SECONDS = 0.25
"""How long a file stays open without users: opening and closing it takes as much CPU as a short run."""
MAX_IDLE_FILES = 8
"""The most files that stay open without users."""
_idle: dict[SharedStore, float] = {}
"""The files without users, the oldest first, and since when they have none."""
_closer: threading.Thread | None = None
"""Closes them after a while; it ends when no file is left."""


def open_store(place: Place, sync: Sync = "normal", *, must_exist: bool = False) -> Store:
    """Open a journal; its users in this process share one store, and each calls `close_store` once.

    A store of the program's own is open already, and the program closes it.

    Raises:
        JournalError: The journal cannot be opened, or with `must_exist` does not exist.
    """
    if not isinstance(place, str | os.PathLike):
        return cast(Store, place)
    place = without_scheme(place)
    key = absolute_place(place), sync
    with _guard:
        store = _open.get(key)
        if store is None or not (store.can_wake() if store in _idle else store.is_current()):
            if store is not None and not store.users:
                _idle.pop(store, None)
                store.close()
            store = _open[key] = _connect(place, sync, must_exist=must_exist)
            _stores.add(store)
        _idle.pop(store, None)
        store.users += 1
        return store


def close_store(store: Store, *, may_rest: bool = False) -> None:
    """Release a store; the last release closes a file.  A connection stays open for the next run of the process.

    Args:
        store: The store.
        may_rest: Whether the file may stay open, too, for `IDLE_SECONDS` to twice that.
    """
    if not isinstance(store, SharedStore):
        return
    with _guard:
        store.users -= 1
        if store.users:
            return
        unused: list[SharedStore] = [store]
        if store in _open.values():
            if store.is_server:
                return
            if may_rest and store.can_rest() and _start_closer():
                _idle[store] = time.monotonic()
                unused = [*_idle][:-MAX_IDLE_FILES]
        _forget(unused)
    for store in unused:
        store.close()


def _forget(unused: Collection[SharedStore]) -> None:
    for store in unused:
        _idle.pop(store, None)
    for key in [key for key, store in _open.items() if store in unused]:
        del _open[key]


def _start_closer() -> bool:
    """Start the thread that closes files, unless it runs; return False if the exit of the interpreter allows none."""
    global _closer
    if _closer is None:
        closer = threading.Thread(target=_close_idle, name="agentkit journals", daemon=True)
        try:
            closer.start()
        except RuntimeError:
            return False
        _closer = closer
    return True


def _close_idle() -> None:
    """Close the files that have had no users for `IDLE_SECONDS`, until none is left."""
    global _closer
    while True:
        time.sleep(IDLE_SECONDS)
        with _guard:
            unused = [store for store, since in _idle.items() if time.monotonic() - since >= IDLE_SECONDS]
            _forget(unused)
            is_last = not _idle
            if is_last:
                _closer = None
        for store in unused:
            store.close()
        if is_last:
            return


@contextmanager
def opened_store(place: Place, sync: Sync = "normal", *, must_exist: bool = False) -> Iterator[Store]:
    """Open a journal for the body, see `open_store`."""
    store = open_store(place, sync, must_exist=must_exist)
    try:
        yield store
    finally:
        close_store(store)


def _connect(place: str | os.PathLike[str], sync: Sync, *, must_exist: bool) -> SharedStore:
    if is_url(place):
        store: SharedStore = import_module(POSTGRES).PostgresStore(str(place), sync, must_exist=must_exist)
        return store
    open_file = LinesStore if Path(place).suffix == LINES_SUFFIX else SqliteStore
    return open_file(place, sync, must_exist=must_exist)


@atexit.register
def close_idle_stores() -> None:
    """Close the stores without users; those that another thread is closing are closed when this returns."""
    with _guard:
        unused = [store for store in _stores if store.is_server or not store.users]
        _forget(unused)
    for store in unused:
        store.close()


def _begin_fork() -> None:
    _guard.acquire()
    for store in _stores:  # no statement is just running, which the child would have begun too
        store.lock.acquire()


def _end_fork() -> None:
    for store in _stores:
        store.lock.release()
    _guard.release()


def _leave_to_parent() -> None:
    global _closer
    for store in _stores:
        store.close(is_inherited=True)
    _open.clear()
    _idle.clear()
    _closer = None
    _end_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_begin_fork, after_in_parent=_end_fork, after_in_child=_leave_to_parent)
