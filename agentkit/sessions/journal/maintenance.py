"""Maintain a journal: list, branch and delete its runs."""

import json
import secrets
import time

from .connections import opened_store
from .conversation import message_row
from .encoding import encode_json, reading
from .location import JournalError, Place
from .reader import end_of_run, find_damage, handoffs_in, read_messages
from .run_info import SELECT_RUNS, RunInfo, find_run, read_info
from .steps import inner_runs
from .store import Statement, Store
from .tables import INSERT_MESSAGE

_ONCE = "ON CONFLICT DO NOTHING"
SECONDS_PER_DAY = 86_400.0
DEFAULT_PATH = "runs.db"
"""The default journal."""


def runs(store: Place = DEFAULT_PATH, *, unfinished: bool = False) -> list[RunInfo]:
    """Return the runs of a journal, the newest first; with `unfinished`, only those that can be resumed.

    A run that cannot be read has the state "damaged".
    """
    with opened_store(store, must_exist=True) as opened:
        listed = _list_runs(opened)
    listed.sort(key=lambda run: run.begun, reverse=True)
    return [run for run in listed if run.is_unfinished or not unfinished]


def _list_runs(store: Store) -> list[RunInfo]:
    """Return all runs except those of agents inside tools, which are parts of others.

    Both queries use an index alone, so that a run with a damaged row is listed too.
    """
    inner = {run for (run,) in store.read("SELECT id FROM runs WHERE origin LIKE '%/%' AND origin > ''")}
    checked: dict[int, str] = {}
    return [_read_run(store, run, checked) for (run,) in store.read("SELECT id FROM runs") if run not in inner]


def _read_run(store: Store, identity: str, checked: dict[int, str]) -> RunInfo:
    """Return the state of a run; `checked` has the damage of the conversations read so far, "" for sound ones."""
    try:
        run = read_info(store, store.read(f"{SELECT_RUNS} WHERE id = ?", identity)[0])
        if run.conversation not in checked:
            checked[run.conversation] = find_damage(store, run.conversation)
        if damage := checked[run.conversation]:
            return RunInfo(identity, error=damage)
    except (JournalError, ValueError, LookupError, TypeError) as error:
        return RunInfo(identity, error=str(error))
    return run


def fork(run_id: str, step: int, *, store: Place = DEFAULT_PATH) -> str:
    """Branch a run after its first `step` replies and their calls (0: after the query); return the branch's id.

    The run itself is not changed.  The branch is resumed like any run, also by an agent with other tools or another
    instruction.
    """
    with opened_store(store, must_exist=True) as opened:
        run = find_run(opened, run_id)
        listed = [message for message, _ in read_messages(opened, run.conversation)]
        listed = listed[: end_of_run(opened, run, len(listed))]
        replies = [place for place in range(run.first, len(listed)) if listed[place]["role"] == "assistant"]
        last = len(replies) - (run.state == "finished")
        if not 0 <= step <= last:
            raise JournalError(f"run {run.id}: step must be an integer from 0 to {last}, got {step}")
        end = replies[step] if step < len(replies) else len(listed)
        with reading(opened, f"conversations, run {run.id}"):
            state = json.loads(opened.read("SELECT state FROM conversations WHERE id = ?", run.conversation)[0][0])
        state |= {"waiting": {}, "nested": {}, "handed": handoffs_in(listed[run.first : end])}
        branch, key = secrets.token_hex(6), secrets.randbits(60)
        opened.append(
            [
                (f"INSERT INTO conversations (id, state) VALUES (?, ?) {_ONCE}", (key, encode_json(state))),
                *((INSERT_MESSAGE, message_row(key, place, listed[place])) for place in range(end)),
                (
                    f"INSERT INTO cut SELECT ?, key, body FROM cut WHERE conversation = ? {_ONCE}",
                    (key, run.conversation),
                ),
                (
                    "INSERT INTO runs (id, conversation, query, model, first, begun, status, origin) "
                    f"SELECT ?, ?, query, model, first, ?, 'open', ? FROM runs WHERE id = ? {_ONCE}",
                    (branch, key, time.time(), f"{run.id}:{step}", run.id),
                ),
                (
                    "INSERT INTO steps SELECT ?, step, call, name, input, arguments, begun, ended, outcome, NULL "
                    f"FROM steps WHERE run = ? AND step <= ? {_ONCE}",
                    (branch, run.id, step),
                ),
            ]
        )
    return branch


def delete(run_id: str, *, store: Place = DEFAULT_PATH) -> None:
    """Delete a run; with the last run of a conversation also its messages."""
    with opened_store(store, must_exist=True) as opened:
        run = find_run(opened, run_id)
        if opened.is_leased(run.conversation):
            raise JournalError(f"run {run.id} is in progress. Delete it when it has ended.")
        opened.remove(_removal_statements(opened, run.id, run.conversation))


def prune(days: float, *, store: Place = DEFAULT_PATH) -> int:
    """Delete the runs, finished or not, that have written nothing for `days`; return their number."""
    with opened_store(store, must_exist=True) as opened:
        old = [
            run
            for run in _list_runs(opened)
            if run.state not in ("running", "damaged") and run.age > days * SECONDS_PER_DAY
        ]
        if old:
            parts = (_removal_statements(opened, run.id, run.conversation) for run in old)
            opened.remove([statement for part in parts for statement in part])
    return len(old)


def _removal_statements(store: Store, run: str, key: int) -> list[Statement]:
    inner = [find_run(store, identity) for _, identity in inner_runs(store, run)]
    empty = "NOT EXISTS (SELECT 1 FROM runs WHERE runs.conversation = ?)"
    return [
        *(statement for part in inner for statement in _removal_statements(store, part.id, part.conversation)),
        ("DELETE FROM steps WHERE run = ?", (run,)),
        ("DELETE FROM runs WHERE id = ?", (run,)),
        *((f"DELETE FROM {table} WHERE conversation = ? AND {empty}", (key, key)) for table in ("messages", "cut")),
        (f"DELETE FROM conversations WHERE id = ? AND {empty}", (key, key)),
        ("DELETE FROM setups WHERE id NOT IN (SELECT setup FROM runs WHERE setup IS NOT NULL)", ()),
    ]
