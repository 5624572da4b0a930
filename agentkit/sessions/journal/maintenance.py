"""Maintain a journal: list, branch and delete its runs."""

import time
from collections.abc import Iterator
from contextlib import suppress

from ...core.errors import DefinitionError
from .connections import opened_store
from .conversation import JournaledConversation
from .encoding import encode_json
from .location import ConversationBusy, Journal, JournalError, Place
from .reader import closed_state, end_of_run, read_conversation
from .run_info import UNFINISHED, RunInfo, find_run, list_runs, parts_of
from .steps import read_steps
from .store import Statement, Store
from .tables import COLUMNS, INSERT_CUT, INSERT_RUN, INSERT_STEP, insert

SECONDS_PER_DAY = 86_400.0
DELETE_SETUPS = "DELETE FROM setups WHERE id NOT IN (SELECT setup FROM runs WHERE setup IS NOT NULL)"
DEFAULT_PATH = "runs.db"
"""The default journal."""


def runs(store: Place = DEFAULT_PATH, *, unfinished: bool = False, limit: int | None = None) -> list[RunInfo]:
    """Return the runs of a journal, the newest first; with `unfinished`, only those that can be resumed.

    A run that cannot be read has the state "damaged".  `limit` is the greatest number of runs.
    """
    with opened_store(store, must_exist=True) as opened:
        if not unfinished:
            return list_runs(opened, limit=limit)
        return [run for run in list_runs(opened, UNFINISHED) if run.is_unfinished][:limit]  # others are running


def name_conversations(store: Place = DEFAULT_PATH) -> dict[int, str]:
    """Return the names of the conversations that `Session.open` began, by the key that `RunInfo.conversation` has."""
    with opened_store(store, must_exist=True) as opened:
        return dict(opened.read("SELECT id, name FROM conversations WHERE name IS NOT NULL AND name != ''"))


def fork(run_id: str, step: int, *, store: Place = DEFAULT_PATH) -> str:
    """Branch a run after its first `step` replies and their calls (0: after the query); return the branch's id.

    The run itself is not changed.  The branch is resumed like any run, also by an agent with other tools or another
    instruction.
    """
    with opened_store(store, must_exist=True) as opened:
        run = find_run(opened, run_id)
        kept, before = read_conversation(opened, Journal(store), run.conversation)
        listed = kept.written[: end_of_run(opened, run)]
        replies = [place for place in range(run.first, len(listed)) if listed[place]["role"] == "assistant"]
        last = len(replies) - (run.state == "finished")
        if not 0 <= step <= last:
            raise JournalError(f"run {run.id}: step must be an integer from 0 to {last}, got {step}")
        end = replies[step] if step < len(replies) else len(listed)
        state = {**kept.state, **closed_state(listed[run.first : end]), "inbox": kept.state.get("inbox", [])}
        steps = [row for row in read_steps(opened, [run.id])[run.id] if row.step <= step]
        branch = JournaledConversation(kept.journal)
        begun = branch.begin_run(), branch.key, run.query, run.model, None, run.first, time.time(), f"{run.id}:{step}"
        opened.append(
            [
                (insert("conversations"), (branch.key, None, encode_json(state))),
                *(statement for _, statement in branch.message_statements(listed[:end])),
                *((INSERT_CUT, (branch.key, name, encode_json(text))) for name, text in before["cut"].items()),
                (INSERT_RUN, begun),
                *((INSERT_STEP, row._replace(run=branch.run, digest=None)) for row in steps),
            ]
        )
    return branch.run


def delete(run_id: str, *, store: Place = DEFAULT_PATH) -> None:
    """Delete a run; with the last run of a conversation also its messages."""
    with opened_store(store, must_exist=True) as opened:
        _delete_run(opened, find_run(opened, run_id))
        opened.remove([(DELETE_SETUPS, ())])


def prune(days: float, *, store: Place = DEFAULT_PATH) -> int:
    """Delete the runs, finished or not, that have written nothing for `days`; return their number."""
    if not days >= 0:
        raise DefinitionError(f"prune: days must be a number >= 0, got {days!r}")
    count = 0
    with opened_store(store, must_exist=True) as opened:
        for run in list_runs(opened, "begun < ?", end := time.time() - days * SECONDS_PER_DAY):
            if run.seen >= end or run.state in ("running", "damaged"):
                continue
            with suppress(ConversationBusy):  # it has just been resumed
                _delete_run(opened, run)
                count += 1
        if count:
            opened.remove([(DELETE_SETUPS, ())])
    return count


def _delete_run(store: Store, run: RunInfo) -> None:
    lease = store.lease(run.conversation, f"run {run.id}")
    try:
        store.append([*_removal_statements(store, run)])
    finally:
        lease.release()


def _removal_statements(store: Store, run: RunInfo) -> Iterator[Statement]:
    for part in parts_of(store, run):
        for table in ("steps", "runs"):
            yield f"DELETE FROM {table} WHERE {COLUMNS[table][0]} = ?", (part.id,)
        for table in ("messages", "cut", "conversations"):
            empty = "NOT EXISTS (SELECT 1 FROM runs WHERE runs.conversation = ?)"
            yield f"DELETE FROM {table} WHERE {COLUMNS[table][0]} = ? AND {empty}", (part.conversation,) * 2
