"""Check a damaged journal, and save its sound runs into a new file."""

from contextlib import suppress
from pathlib import Path

from .connections import opened_store
from .location import JournalError, Place, is_url, show_place
from .maintenance import runs
from .run_info import RunInfo, parts_of
from .store import Store
from .tables import COLUMNS, insert


def find_problems(store: Place) -> list[str]:
    """Return a line for each problem of a journal: damage that SQLite finds, and runs that cannot be read."""
    with opened_store(store, must_exist=True) as opened:
        found = opened.find_damage()
    return found + [f"run {run.id}: {run.error}" for run in runs(store) if run.state == "damaged"]


def salvage(store: Place, target: Place) -> int:
    """Copy the runs that can be read into a new journal `target`; return their number.

    Raises:
        JournalError: `target` exists.
    """
    if not is_url(target) and Path(target).exists():
        raise JournalError(f"{show_place(target)!r} exists. Name a new file.")
    sound: list[RunInfo] = []
    with opened_store(store, must_exist=True) as old, opened_store(target) as new:
        for run in (run for run in runs(store) if run.state != "damaged"):
            with suppress(JournalError):  # a run inside it cannot be read
                sound += [*parts_of(old, run)]
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


def _copy(old: Store, new: Store, table: str, where: str, value: str | int) -> None:
    rows = old.read(f"SELECT {', '.join(COLUMNS[table])} FROM {table} WHERE {where}", value)
    new.append([(insert(table), row) for row in rows])
