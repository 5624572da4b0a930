"""The state of a run as the journal has it."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.messages import Usage
from .encoding import reading, step_digest
from .location import JournalError, show_place
from .steps import usage_of
from .store import Store

SELECT_RUNS = "SELECT id, conversation, query, model, first, begun, ended, status, outcome, origin, last FROM runs"


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


def read_info(store: Store, row: tuple[Any, ...]) -> RunInfo:
    """Return the state of a run from a row of `SELECT_RUNS` and its steps."""
    identity, conversation, query, model, first, begun, ended, status, outcome, origin, end = row
    steps = read_steps(store, identity)
    result: Mapping[str, Any] = json.loads(outcome) if outcome else {}
    state = "finished" if "answer" in result else status
    if state == "open":
        state = "running" if store.is_leased(conversation) else "interrupted"
    seen = max([begun, ended or 0.0, *(time or start for _, _, _, start, time in steps)])
    return RunInfo(
        identity, query, model, state, begun, seen, steps[0][0] if steps else 0, _describe_last(steps),
        result.get("answer"), result.get("error", ""), usage_of(store, identity), origin or "",
        result.get("stopped", ""), first, end, conversation,
    )  # fmt: skip


def read_steps(store: Store, run: str) -> list[tuple[int, str, str, float, float | None]]:
    """Return step, call, name, start and end of the steps of a run, the newest first; check their digests."""
    columns = "step, call, name, begun, ended, input, arguments, outcome, digest"
    rows = store.read(f"SELECT {columns} FROM steps WHERE run = ? ORDER BY step DESC, begun DESC", run)
    for step, call, name, _, _, number, arguments, outcome, check in rows:
        if check is not None and check != step_digest(run, step, call, name, number, arguments, outcome):
            raise JournalError(
                f"the journal {show_place(store.place)!r} is damaged: step {step} of run {run} is not readable"
            )
    return [row[:5] for row in rows]


def _describe_last(steps: list[tuple[Any, ...]]) -> str:
    """Describe the last step of a run."""
    if not steps:
        return "had not asked the model yet"
    newest = steps[0][0]
    calls = [(name, end) for step, call, name, _, end in steps if step == newest and call]
    if not calls:
        _, _, name, _, end = steps[0]
        return f"after a reply of {name}" if end else f"asking {name}"
    open_calls = [name for name, end in calls if end is None]
    return f"calling {', '.join(sorted(open_calls))}" if open_calls else f"{len(calls)} calls had ended"


def find_run(store: Store, run: str) -> RunInfo:
    """Return the run whose id is or begins with `run`; raise `JournalError` unless there is exactly one."""
    rows = store.read(f"{SELECT_RUNS} WHERE id LIKE ? LIMIT 2", run.replace("%", "").replace("_", "") + "%")
    exact = [row for row in rows if row[0] == run]
    if len(exact or rows) != 1 or not run:
        which = "several runs have ids that begin with" if rows else "no run has the id"
        raise JournalError(f"{which} {run!r} in {show_place(store.place)!r}; agentkit runs lists them")
    row = (exact or rows)[0]
    with reading(store, f"runs, run {row[0]}"):
        return read_info(store, row)
