"""The state of a run as the queue has it."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import Paused, RunError, RunStopped
from ..core.messages import ToolCall, Usage
from ..core.questions import Question
from .work import CONTINUED, NO_KEY, QueuedRun

ENDED = ("finished", "failed", "stopped", "dead")
"""The states in which a run stays until it is retried."""
STATES = ("queued", "running", "paused", *ENDED)
STATUSES = {"queued": ["ENQUEUED", "DELAYED"], "running": ["PENDING"]}
"""The statuses of DBOS of a run in a state, where they tell it without the outcome."""
_STATES = {
    **{status: state for state, statuses in STATUSES.items() for status in statuses},
    "CANCELLED": "stopped", "ERROR": "failed", "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "dead",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The state of a run.

    Attributes:
        id: The run, also in the journal.
        state: "queued", "running", "paused" (it waits for decisions or answers), "finished", "failed", "stopped", or
            "dead": the attempts are used up, and `error` has the reason.
        agent: The name of the agent.
        query: The question.
        answer: The answer as JSON data.
        error: Why there is no answer.
        calls: The calls that wait for a decision.
        questions: The questions that wait for an answer.
        in_doubt: Calls that a worker had begun when it died: it is not known whether they had an effect.
        changes: How the agent differs from the one that began the run, if another version continued it.
        worker: The worker that has the run, or had it last.
        key: The key of fairness.
        usage: Requests, tokens and dollars, once the run has an outcome.
        steps: Replies of the model.
        submitted: When the run was submitted (seconds since 1970); `age` is the time since then, up to the end.
        ended: When it ended; None before.
    """

    id: str
    state: str
    agent: str = ""
    query: str = ""
    answer: Any = None
    error: str = ""
    calls: tuple[ToolCall, ...] = ()
    questions: tuple[Question, ...] = ()
    in_doubt: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    worker: str = ""
    key: str = ""
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    submitted: float = 0.0
    ended: float | None = None

    @property
    def age(self) -> float:
        """Seconds since the run was submitted, up to its end."""
        return (self.ended or time.time()) - self.submitted


def read_status(found: Sequence[Any]) -> RunStatus:
    """Return the state of a run from its workflows: its first one, and its continuations."""
    ordered = sorted(found, key=continuation_number)
    first, last = ordered[0], ordered[-1]
    work = work_of(last)
    outcome: Mapping[str, Any] = json.loads(last.output) if last.output else {}
    state = outcome.get("state") or _STATES.get(last.status, last.status)
    error = outcome.get("error") or (str(last.error) if last.error else "")
    return RunStatus(
        work.run, state, work.agent, work.query, outcome.get("answer"), error,
        tuple(ToolCall(**call) for call in outcome.get("calls", ())),
        tuple(Question(one["text"], one["schema"], one["id"]) for one in outcome.get("questions", ())),
        tuple(outcome.get("in_doubt", ())), tuple(outcome.get("changes", ())),
        outcome.get("worker") or last.executor_id or "",
        "" if last.queue_partition_key in (None, NO_KEY) else last.queue_partition_key,
        Usage(**outcome.get("usage", {})), outcome.get("steps", 0), first.created_at / 1000,
        last.completed_at / 1000 if last.completed_at else None)  # fmt: skip


def work_of(found: Any) -> QueuedRun:
    """Return the work of a workflow."""
    return QueuedRun.decode(found.input["args"][0])


def run_of(workflow: str) -> str:
    """Return the run of a workflow."""
    return workflow.partition(CONTINUED)[0]


def continuation_number(found: Any) -> int:
    """Return the number of a continuation, 0 for the workflow that begins the run."""
    return int(found.workflow_id.partition(CONTINUED)[2] or 0)


def answer_of(status: RunStatus) -> Any:
    """Return the answer of a run that has an outcome; raise `RunError` for any other outcome.

    Raises:
        Paused: The run waits for a person.
        RunStopped: It was cancelled.
        RunError: It failed, or its attempts are used up.
    """
    if status.state == "finished":
        return status.answer
    if status.state == "paused":
        pause = Paused(status.error or f"run {status.id} waits for a person")
        pause.calls, pause.questions = status.calls, status.questions
        raise pause
    error = RunStopped if status.state == "stopped" else RunError
    is_dead = "is dead" if status.state == "dead" else status.state
    raise error(f"run {status.id} {is_dead}: {status.error or 'cancelled'}")
