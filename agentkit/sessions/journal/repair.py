"""Check a damaged journal, and save its sound runs into a new file."""

from collections import deque
from contextlib import suppress
from pathlib import Path

from .connections import opened_store
from .location import JournalError, Place, is_url, show_place
from .maintenance import runs
from .reader import read_messages
from .run_info import RunInfo, parts_of
from .store import Store
from .tables import COLUMNS, insert


def find_problems(store: Place) -> list[str]:
    """Return a line for each problem of a journal: damage that SQLite finds, and runs that cannot be read."""
    with opened_store(store, must_exist=True) as opened:
        found = opened.find_damage()
        for run in runs(store):
            try:
                _read_parts(opened, run)
            except JournalError as error:
                found.append(f"run {run.id}: {error}")
    return found


def salvage(store: Place, target: Place) -> int:
    """Copy the runs that can be read into a new journal `target`; return their number.

    Raises:
        JournalError: `target` exists.
    """
    if not is_url(target) and Path(target).exists():
        raise JournalError(f"{show_place(target)!r} exists. Name a new file.")
    sound: list[RunInfo] = []
    with opened_store(store, must_exist=True) as old, opened_store(target) as new:
        for run in runs(store):
            with suppress(JournalError):
                sound += _read_parts(old, run)
        for key in {run.conversation for run in sound}:
            _copy(old, new, "conversations", "id = ?", key)
            _copy(old, new, "messages", "conversation = ?", key)
            _copy(old, new, "cut", "conversation = ?", key)
        for run in sound:
            _copy(old, new, "setups", "id = (SELECT setup FROM runs WHERE id = ?)", run.id)
        for run in sorted(sound, key=lambda run: run.begun):
            _copy(old, new, "runs", "id = ?", run.id)
            _copy(old, new, "steps", "run = ?", run.id)
    return sum("/" not in run.origin for run in sound)


def _read_parts(store: Store, run: RunInfo) -> list[RunInfo]:
    """Return a run and those inside it; raise `JournalError` if one of them, or its conversation, is damaged."""
    if run.state == "damaged":
        raise JournalError(run.error)
    parts = [*parts_of(store, run)]
    for part in parts[1:]:
        deque(read_messages(store, part.conversation), maxlen=0)
    return parts


def _copy(old: Store, new: Store, table: str, where: str, value: str | int) -> None:
    rows = old.read(f"SELECT {', '.join(COLUMNS[table])} FROM {table} WHERE {where}", value)
    new.append([(insert(table), row) for row in rows])
