"""The state of a run as the journal has it."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.messages import Usage
from .encoding import damage_error, reading, step_digest
from .location import JournalError, show_place
from .steps import usage_of
from .store import Store

SELECT_RUNS = "SELECT id, conversation, query, model, first, begun, ended, status, outcome, origin, last FROM runs"
STEP_COLUMNS = "step, call, name, begun, ended, input, arguments, outcome, digest"


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


def describe_run(
    store: Store, row: tuple[Any, ...], steps: Sequence[tuple[Any, ...]], newest_inner: float = math.inf
) -> RunInfo:
    """Return the state of a run.

    Args:
        store: The open journal.
        row: The row of `SELECT_RUNS`.
        steps: The rows of its steps with `STEP_COLUMNS`, the newest first; their digests are checked.
        newest_inner: When the newest run of an agent inside its calls began.

    Raises:
        JournalError: A step is damaged.
    """
    identity, conversation, query, model, first, begun, ended, status, outcome, origin, end = row
    for step, call, name, _, _, number, arguments, text, check in steps:
        if check is not None and check != step_digest(identity, step, call, name, number, arguments, text):
            raise damage_error(store, f"step {step} of run {identity} is not readable")
    result: Mapping[str, Any] = json.loads(outcome) if outcome else {}
    state = "finished" if "answer" in result else status
    if state == "open":
        state = "running" if store.is_leased(conversation) else "interrupted"
    replied = next(((step[4], step[7]) for step in steps if not step[1] and step[7]), (0.0, ""))
    is_simple = bool(replied[1]) and newest_inner < replied[0]
    usage = Usage(**json.loads(replied[1])["usage"]) if is_simple else usage_of(store, identity)
    seen = max([begun, ended or 0.0, *(step[4] or step[3] for step in steps)])
    return RunInfo(
        identity, query, model, state, begun, seen, steps[0][0] if steps else 0, _describe_last(steps),
        result.get("answer"), result.get("error", ""), usage, origin or "", result.get("stopped", ""), first, end,
        conversation,
    )  # fmt: skip


def _describe_last(steps: Sequence[tuple[Any, ...]]) -> str:
    """Describe the last step of a run."""
    if not steps:
        return "had not asked the model yet"
    newest = steps[0][0]
    calls = [(step[2], step[4]) for step in steps if step[0] == newest and step[1]]
    if not calls:
        _, _, name, _, end, *_ = steps[0]
        return f"after a reply of {name}" if end else f"asking {name}"
    open_calls = [name for name, end in calls if end is None]
    return f"calling {', '.join(sorted(open_calls))}" if open_calls else f"{len(calls)} calls had ended"


def find_run(store: Store, run: str) -> RunInfo:
    """Return the run whose id is or begins with `run`; raise `JournalError` unless there is exactly one."""
    start = run.replace("%", "").replace("_", "") + "%"
    rows = store.read(f"{SELECT_RUNS} WHERE id = ?", run) or store.read(f"{SELECT_RUNS} WHERE id LIKE ? LIMIT 2", start)
    exact = [row for row in rows if row[0] == run]
    if len(exact or rows) != 1 or not run:
        which = "several runs have ids that begin with" if rows else "no run has the id"
        raise JournalError(f"{which} {run!r} in {show_place(store.place)!r}; agentkit runs lists them")
    row = (exact or rows)[0]
    steps = store.read(f"SELECT {STEP_COLUMNS} FROM steps WHERE run = ? ORDER BY step DESC, begun DESC", row[0])
    with reading(store, f"runs, run {row[0]}"):
        return describe_run(store, row, steps)
