"""List the runs of a journal, with a few queries for many runs."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from .encoding import digest, message_error
from .location import JournalError
from .run_info import SELECT_RUNS, STEP_COLUMNS, RunInfo, describe_run
from .store import Store

RUNS_PER_QUERY = 300
NOT_INNER = "(origin IS NULL OR origin NOT LIKE '%/%')"
"""Runs of agents inside tools are parts of others."""
UNFINISHED = "status NOT IN ('finished', 'superseded')"
IDLE = (
    "begun < ? AND (ended IS NULL OR ended < ?) AND NOT EXISTS "
    "(SELECT 1 FROM steps WHERE steps.run = runs.id AND (steps.begun > ? OR steps.ended > ?))"
)


def list_runs(
    store: Store,
    *,
    unfinished: bool = False,
    idle_since: float | None = None,
    limit: int | None = None,
    conversation: int | None = None,
) -> list[RunInfo]:
    """Return runs, the newest first; a run that cannot be read has the state "damaged".

    Args:
        store: The open journal.
        unfinished: Return only runs that can be resumed to get an answer.
        idle_since: Return only runs that have written nothing since this time (seconds since 1970).
        limit: The greatest number of runs.
        conversation: Return only the runs of the conversation with this key.
    """
    conditions = [NOT_INNER, *([UNFINISHED] if unfinished else ()), *([IDLE] if idle_since is not None else ())]
    values: list[Any] = [idle_since] * 4 if idle_since is not None else []
    if conversation is not None:
        conditions.append("conversation = ?")
        values.append(conversation)
    order = "ORDER BY begun DESC" + (" LIMIT ?" if limit is not None else "")
    where = f"WHERE {' AND '.join(conditions)} {order}"
    try:
        rows = store.read(f"{SELECT_RUNS} {where}", *values, *([limit] if limit is not None else ()))
        inner, checked = _newest_inner_runs(store), dict[int, str]()
        batches = (rows[start : start + RUNS_PER_QUERY] for start in range(0, len(rows), RUNS_PER_QUERY))
        listed = [run for batch in batches for run in _read_batch(store, batch, inner, checked)]
    except JournalError:  # a part of the file is damaged
        listed = _list_one_by_one(store)
        listed = [run for run in listed if idle_since is None or run.seen < idle_since]
        listed = [run for run in listed if conversation is None or run.conversation == conversation]
    return [run for run in listed if run.is_unfinished or not unfinished][:limit]


def _newest_inner_runs(store: Store) -> dict[str, float]:
    """Return when the newest run inside each run began; the query uses an index alone."""
    newest: dict[str, float] = {}
    for origin, begun in store.read("SELECT origin, begun FROM runs WHERE origin > '' AND origin LIKE '%/%'"):
        outer = origin.partition("/")[0]
        newest[outer] = max(begun, newest.get(outer, 0.0))
    return newest


def _read_batch(
    store: Store, rows: Sequence[tuple[Any, ...]], inner: dict[str, float], checked: dict[int, str]
) -> list[RunInfo]:
    """Return the state of runs; `checked` has the damage of the conversations read so far, "" for sound ones."""
    steps: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    marks = ", ".join("?" * len(rows))
    sql = f"SELECT run, {STEP_COLUMNS} FROM steps WHERE run IN ({marks}) ORDER BY step DESC, begun DESC"
    for run, *step in store.read(sql, *(row[0] for row in rows)):
        steps[run].append(tuple(step))
    checked |= _check_conversations(store, {row[1] for row in rows} - checked.keys())
    listed = []
    for row in rows:
        try:
            if damage := checked[row[1]]:
                raise JournalError(damage)
            listed.append(describe_run(store, row, steps[row[0]], inner.get(row[0], -1.0)))
        except (JournalError, ValueError, LookupError, TypeError) as error:
            listed.append(RunInfo(row[0], error=str(error)))
    return listed


def _check_conversations(store: Store, keys: set[int]) -> dict[int, str]:
    """Return the damage of each conversation, "" for one that is as it was written."""
    sql = "SELECT conversation, place, body, digest FROM messages WHERE conversation IN ({}) ORDER BY place"
    places, damage = dict.fromkeys(keys, 0), dict.fromkeys(keys, "")
    try:
        rows = store.read(sql.format(", ".join("?" * len(keys))), *keys)
    except JournalError as error:
        if len(keys) > 1:
            raise
        return dict.fromkeys(keys, str(error))
    for key, place, body, number in rows:
        if not damage[key] and (place != places[key] or digest(place, body) != number):
            damage[key] = str(message_error(store, places[key]))
        places[key] += 1
    return damage


def _list_one_by_one(store: Store) -> list[RunInfo]:
    """Read each run for itself; the queries for the ids use an index alone, so none is missing."""
    inner = {run for (run,) in store.read("SELECT id FROM runs WHERE origin LIKE '%/%' AND origin > ''")}
    newest, checked, found = _newest_inner_runs(store), dict[int, str](), list[RunInfo]()
    for identity in (run for (run,) in store.read("SELECT id FROM runs") if run not in inner):
        try:
            rows = store.read(f"{SELECT_RUNS} WHERE id = ?", identity)
            found.append(_read_batch(store, rows, newest, checked)[0])
        except (JournalError, LookupError) as error:
            found.append(RunInfo(identity, error=str(error)))
    return sorted(found, key=lambda run: run.begun, reverse=True)
