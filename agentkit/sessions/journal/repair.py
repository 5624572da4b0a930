"""Check a damaged journal, and save its sound runs into a new file."""

import os
from pathlib import Path

from .conversation import INSERT_MESSAGE
from .maintenance import runs
from .reader import find_run
from .steps import inner_runs
from .store import JournalError, Store, open_store


def find_problems(store: str | os.PathLike[str]) -> list[str]:
    """Return a line for each problem of a journal: damage that SQLite finds, and runs that cannot be read."""
    with open_store(store, must_exist=True) as opened:
        try:
            found = [str(row[0]) for row in opened.rows("PRAGMA integrity_check") if row[0] != "ok"]
        except JournalError as error:
            found = [str(error)]
    return found + [f"run {run.id}: {run.error}" for run in runs(store) if run.state == "damaged"]


def salvage(store: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Copy the runs that can be read into a new journal `target`; return their number.

    Raises:
        JournalError: `target` exists.
    """
    if Path(target).exists():
        raise JournalError(f"{os.fspath(target)!r} exists. Name a new file.")
    sound = [run for run in runs(store) if run.state != "damaged"]
    number = len(sound)
    with open_store(store, must_exist=True) as old, open_store(target) as new:
        for run in [*sound]:
            sound += [find_run(old, inner) for _, inner in inner_runs(old, run.id)]
        for key in {run.conversation for run in sound}:
            _copy(old, new, "conversations", "id = ?", key)
            rows = old.rows("SELECT * FROM messages WHERE conversation = ?", key)
            new.write([(INSERT_MESSAGE, row) for row in rows])
            _copy(old, new, "cut", "conversation = ?", key)
        for run in sound:
            _copy(old, new, "setups", "id = (SELECT setup FROM runs WHERE id = ?)", run.id)
        for run in sorted(sound, key=lambda run: run.begun):
            _copy(old, new, "runs", "id = ?", run.id)
            _copy(old, new, "steps", "run = ?", run.id)
    return number


def _copy(old: Store, new: Store, table: str, where: str, value: str | int) -> None:
    rows = old.rows(f"SELECT * FROM {table} WHERE {where}", value)
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        new.write([(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row) for row in rows])
