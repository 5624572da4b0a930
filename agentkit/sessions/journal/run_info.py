"""The state of runs as the journal has it: of one, or of many with a few queries."""

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.messages import Usage
from .encoding import check_messages, damage_error, reading, step_digest
from .location import JournalError, show_place
from .steps import StepRow, inner_runs, read_steps, usage_of
from .store import Store

RUNS_PER_QUERY = 300
UNFINISHED = "status NOT IN ('finished', 'superseded')"
_INNER = "origin > '' AND origin LIKE '%/%'"
"""Runs of agents inside tools, which are parts of others; an index has them."""
_SELECT_RUNS = (
    "SELECT id, conversation, query, model, first, last, begun, ended, status, outcome, origin FROM runs WHERE"
)


@dataclass(frozen=True)
class RunInfo:
    """A run in a journal.

    `state` is "running", "interrupted" (it can be resumed), "paused", "failed", "finished", "superseded" (its
    conversation continued with another run) or "damaged".  `begun` and `seen` are the times of its first and last write
    (seconds since 1970); `last` describes the last step; `origin` is the run and step that it was forked from.
    """

    id: str
    query: str = ""
    model: str = ""
    state: str = "damaged"
    begun: float = 0.0
    seen: float = 0.0
    steps: int = 0
    last: str = ""
    answer: Any = None
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    origin: str = ""
    stopped: str = ""
    first: int = field(default=0, repr=False)
    end: int | None = field(default=None, repr=False)
    conversation: int = field(default=0, repr=False)

    @property
    def age(self) -> float:
        """Seconds since the last write."""
        return time.time() - self.seen

    @property
    def is_unfinished(self) -> bool:
        """Whether it can be resumed to get an answer."""
        return self.state in ("interrupted", "paused", "failed")


def find_run(store: Store, run: str) -> RunInfo:
    """Return the run whose id is or begins with `run`; raise `JournalError` unless there is exactly one."""
    rows = store.read(f"{_SELECT_RUNS} id >= ? AND id < ? ORDER BY id LIMIT 2", run, f"{run}{chr(sys.maxunicode)}")
    if not run or not rows or (len(rows) == 2 and rows[0][0] != run):
        which = "several runs have ids that begin with" if rows else "no run has the id"
        raise JournalError(f"{which} {run!r} in {show_place(store.place)!r}; agentkit runs lists them")
    return _describe_run(store, rows[0], read_steps(store, [rows[0][0]])[rows[0][0]])


def parts_of(store: Store, run: RunInfo) -> Iterator[RunInfo]:
    """Yield a run, and the runs of agents inside its calls at any depth."""
    yield run
    for _, inner in inner_runs(store, run.id):
        yield from parts_of(store, find_run(store, inner))


def list_runs(store: Store, condition: str = "", *values: Any, limit: int | None = None) -> list[RunInfo]:
    """Return runs, the newest first; without a condition also those that cannot be read, with the state "damaged".

    Args:
        store: The open journal.
        condition: The wanted runs, as SQL about the columns of the table `runs`.
        *values: The values for the condition.
        limit: The greatest number of runs.
    """
    where = f"(origin IS NULL OR NOT ({_INNER})) AND ({condition or '1 = 1'})"
    inside = store.read(f"SELECT origin, begun FROM runs WHERE {_INNER} ORDER BY begun")
    newest_inner = {origin.partition("/")[0]: begun for origin, begun in inside}
    checked: dict[int, str] = {}
    try:
        end = sys.maxsize if limit is None else limit
        return [*_read_runs(store, f"{where} ORDER BY begun DESC LIMIT ?", (*values, end), newest_inner, checked)]
    except JournalError:  # a part of the file is damaged; the indexes alone have all ids
        ids = store.read(f"SELECT id FROM runs EXCEPT SELECT id FROM runs WHERE {_INNER}")
    listed: list[RunInfo] = []
    for (run,) in ids:
        try:
            listed += _read_runs(store, f"{where} AND id = ?", (*values, run), newest_inner, checked)
        except JournalError as error:
            if not condition:  # which a run that cannot be read may not meet
                listed.append(RunInfo(run, error=str(error)))
    return sorted(listed, key=lambda run: run.begun, reverse=True)[:limit]


def _read_runs(
    store: Store, where: str, values: Sequence[Any], newest_inner: Mapping[str, float], checked: dict[int, str]
) -> Iterator[RunInfo]:
    """Yield the state of runs; `checked` has the damage of the conversations read so far, "" for sound ones."""
    rows = store.read(f"{_SELECT_RUNS} {where}", *values)
    for batch in (rows[start : start + RUNS_PER_QUERY] for start in range(0, len(rows), RUNS_PER_QUERY)):
        steps = read_steps(store, [row[0] for row in batch])
        checked |= _check_conversations(store, {row[1] for row in batch} - checked.keys())
        for row in batch:
            try:
                if damage := checked[row[1]]:
                    raise JournalError(damage)
                yield _describe_run(store, row, steps[row[0]], newest_inner.get(row[0], -1.0))
            except JournalError as error:
                yield RunInfo(row[0], error=str(error))


def _check_conversations(store: Store, keys: set[int]) -> dict[int, str]:
    """Return the damage of each conversation, "" for one that is as it was written."""
    damage = dict.fromkeys(keys, "")
    try:
        for key, _, _, error in check_messages(store, *keys):
            damage[key] = damage[key] or error
    except JournalError as error:
        if len(keys) > 1:
            raise
        return dict.fromkeys(keys, str(error))
    return damage


def _describe_run(
    store: Store, row: Sequence[Any], steps: Sequence[StepRow], newest_inner: float = math.inf
) -> RunInfo:
    """Return the state of a run.

    Args:
        store: The open journal.
        row: The row of the run.
        steps: The rows of its steps, the newest first.
        newest_inner: When the newest run of an agent inside its calls began.

    Raises:
        JournalError: A row is damaged.
    """
    identity, conversation, query, model, first, last, begun, ended, status, outcome, origin = row
    with reading(store, f"runs, run {identity}"):
        for step in steps:
            if step.digest is not None and step.digest != step_digest(*step[:6], step.outcome):
                raise damage_error(store, f"step {step.step} of run {identity} is not readable")
        result: Mapping[str, Any] = json.loads(outcome) if outcome else {}
        state = "finished" if "answer" in result else status
        if state == "open":
            state = "running" if store.is_leased(conversation) else "interrupted"
        reply = next((step for step in steps if not step.call and step.outcome), None)
        if reply and newest_inner < reply.ended:
            usage = Usage(**json.loads(reply.outcome)["usage"])
        else:
            usage = usage_of(store, identity)
        seen = max([begun, ended or 0.0, *(step.ended or step.begun for step in steps)])
        return RunInfo(
            identity, query, model, state, begun, seen, steps[0].step if steps else 0, _describe_last(steps),
            result.get("answer"), result.get("error", ""), usage, origin or "", result.get("stopped", ""), first, last,
            conversation,
        )  # fmt: skip


def _describe_last(steps: Sequence[StepRow]) -> str:
    """Describe the last step of a run."""
    if not steps:
        return "had not asked the model yet"
    newest = steps[0]
    calls = [step for step in steps if step.call and step.step == newest.step]
    if not calls:
        return f"after a reply of {newest.name}" if newest.ended else f"asking {newest.name}"
    open_calls = sorted(call.name for call in calls if call.ended is None)
    return f"calling {', '.join(open_calls)}" if open_calls else f"{len(calls)} calls had ended"
