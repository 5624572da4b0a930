"""What the queue holds: a piece of work as JSON, and its outcome."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic_core import to_jsonable_python

from .. import ExceptionInfo, Paused, Result, RunError, RunStopped
from ..extend import join_given, mask

VALID_RUN_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
CONTINUED = "~"
"""Between the id of a run and the number of its continuation, in the id of a workflow."""
DEFAULT_ATTEMPTS = 3
DEFAULT_PRIORITY = 100
NO_KEY = "-"
"""The partition of runs without a key."""


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run to begin or to continue.

    Attributes:
        agent: The name under which workers have the agent.
        run: The id of the run, in the journal too.
        query: The question.
        session: The name of the conversation; "" for one of its own.
        attempts: How often a worker may begin with it: each time after the first, its worker had died or its model
            had failed.
        answers: Decisions and answers, by the ids of what the run waits for.
    """

    agent: str
    run: str
    query: str
    session: str = ""
    attempts: int = DEFAULT_ATTEMPTS
    answers: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.query, str) or not self.query.strip():
            raise RunError(f"query must be a text that is not empty, got {self.query!r:.60}")
        if not VALID_RUN_ID.fullmatch(self.run):
            raise RunError(f"id: {self.run!r:.120} is not the id of a run. Use 1 to 100 of a-z, A-Z, 0-9 and . _ : -")
        if self.attempts < 1:
            raise RunError(f"attempts must be an integer >= 1, got {self.attempts!r}")

    def encode(self) -> str:
        """Return the work as JSON."""
        try:
            return json.dumps(asdict(self), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise RunError(f"run {self.run}: decisions and answers must be JSON data: {error}") from error

    @classmethod
    def decode(cls, text: str) -> "QueuedRun":
        """Return the work that `encode` described."""
        work = json.loads(text)
        work["answers"] = join_given(work.pop("approvals", None), work["answers"])  # older versions have approvals
        return cls(**work)


def result_outcome(result: Result[Any]) -> dict[str, Any]:
    """Return the outcome of a run with an answer."""
    answer = to_jsonable_python(result.answer, fallback=str)
    return {"state": "finished", "answer": answer, "stopped": result.stopped, **_figures(result)}


def error_outcome(error: Exception) -> dict[str, Any]:
    """Return the outcome of a run that an error ended."""
    info = ExceptionInfo.of(error)
    outcome: dict[str, Any] = {"state": "failed", "error": f"{info.name}: {mask(str(error))}"}
    if isinstance(error, Paused):
        outcome["state"] = "paused"
        outcome["pending"] = [entry.as_dict() for entry in error.pending]
    elif isinstance(error, RunStopped):
        outcome["state"] = "stopped"
    return {**outcome, **_figures(getattr(error, "result", None))}


def _figures(result: Result[Any] | None) -> dict[str, Any]:
    return {} if result is None else {"steps": result.steps, "usage": result.usage.as_dict()}


def encode_outcome(outcome: Mapping[str, Any]) -> str:
    """Return an outcome as JSON."""
    return json.dumps(to_jsonable_python(outcome, fallback=str))
