"""The stores that are open in this process: its parts share one store for each journal."""

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import cast
from weakref import WeakSet

from .location import Place, Sync, absolute_place, is_url, without_scheme
from .sqlite import SqliteStore, SqlStore
from .store import Store

POSTGRES = "agentkit.sessions.journal.postgres"
"""The module that needs psycopg."""
_open: dict[tuple[str, Sync], SqlStore] = {}
_guard = threading.RLock()
_stores: WeakSet[SqlStore] = WeakSet()
"""The stores in `_open`, and those that were replaced in it and still have users."""


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
        if store is None or not store.is_current():
            if store is not None and not store.users:
                store.shut()
            store = _open[key] = _connect(place, sync, must_exist=must_exist)
            _stores.add(store)
        store.users += 1
        return store


def close_store(store: Store) -> None:
    """Release a store; the last release closes a file.  A connection stays open for the next run of the process."""
    if not isinstance(store, SqlStore):
        return
    with _guard:
        store.users -= 1
        if store.users or (is_url(store.place) and store in _open.values()):
            return
        for key in [key for key, other in _open.items() if other is store]:
            del _open[key]
    store.shut()


@contextmanager
def opened_store(place: Place, sync: Sync = "normal", *, must_exist: bool = False) -> Iterator[Store]:
    """Open a journal for the body, see `open_store`."""
    store = open_store(place, sync, must_exist=must_exist)
    try:
        yield store
    finally:
        close_store(store)


def _connect(place: str | os.PathLike[str], sync: Sync, *, must_exist: bool) -> SqlStore:
    if is_url(place):
        store: SqlStore = import_module(POSTGRES).PostgresStore(str(place), sync, must_exist=must_exist)
        return store
    return SqliteStore(place, sync, must_exist=must_exist)


@atexit.register
def _close_connections() -> None:
    for store in [*_open.values()]:
        if is_url(store.place):
            store.shut()


def _begin_fork() -> None:
    _guard.acquire()
    for store in _stores:  # no statement is just running, which the child would have begun too
        store.lock.acquire()


def _end_fork() -> None:
    for store in _stores:
        store.lock.release()
    _guard.release()


def _leave_to_parent() -> None:
    for store in _stores:
        store.shut(is_inherited=True)
    _open.clear()
    _end_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_begin_fork, after_in_parent=_end_fork, after_in_child=_leave_to_parent)
