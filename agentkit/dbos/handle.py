"""A submitted run: its state as the queue has it, its result, its events, and what a person decides about it."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from .. import Paused, Pending, Question, RunError, RunStopped, ToolCall, Usage
from ..extend import Decision, Given, JournalError, join_given, read_answers, run_in_thread
from .database import is_unreachable
from .queue_tables import CONTINUED, NO_KEY, QueuedRun, check_wait, run_of

ENDED = ("finished", "failed", "stopped", "dead")
"""The states in which a run stays until it is retried."""
STATES = ("queued", "running", "paused", *ENDED, "superseded", "deleted")
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
        state: "queued", "running", "paused" (it waits for decisions or answers), "finished", "failed", "stopped",
            "dead" (the attempts are used up, and `error` has the reason), "superseded" (it was paused, and its
            conversation was continued by another run, which `error` names) or "deleted" from the journal.
        agent: The name of the agent.
        query: The question.
        answer: The answer as JSON data.
        error: Why there is no answer.
        pending: What the run waits for: decisions about calls, then answers to questions.
        in_doubt: Calls that a worker had begun when it died or the run was cancelled: it is not known whether they had
            an effect.
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
    pending: tuple[Pending, ...] = ()
    in_doubt: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    worker: str = ""
    key: str = ""
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    submitted: float = 0.0
    ended: float | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that wait for a decision."""
        return tuple(entry.call for entry in self.pending if entry.is_approval)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions that wait for an answer."""
        return tuple(entry.question for entry in self.pending if not entry.is_approval)

    @property
    def age(self) -> float:
        """Seconds since the run was submitted, up to its end."""
        return (self.ended or time.time()) - self.submitted


def read_status(found: Sequence[Any]) -> RunStatus:
    """Return the state of a run from its workflows: its first one, and its continuations."""
    ordered = sorted(found, key=continuation_number)
    first = ordered[0]
    last = ordered[-1]
    if not isinstance(last.input, dict):
        return _status_without_work(first, last)
    work = work_of(last)
    outcome: Mapping[str, Any] = json.loads(last.output) if last.output else {}
    state = outcome.get("state") or _STATES.get(last.status, last.status)
    error = outcome.get("error") or (str(last.error) if last.error else "")
    return RunStatus(
        work.run,
        state,
        work.agent,
        work.query,
        outcome.get("answer"),
        error,
        tuple(map(Pending.from_dict, _list_waiting(outcome))),
        tuple(outcome.get("in_doubt", ())),
        tuple(outcome.get("changes", ())),
        outcome.get("worker") or last.executor_id or "",
        "" if last.queue_partition_key in (None, NO_KEY) else last.queue_partition_key,
        Usage(**outcome.get("usage", {})),
        outcome.get("steps", 0),
        first.created_at / 1000,
        last.completed_at / 1000 if last.completed_at else None,
    )


def _list_waiting(outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a run waits for; rows of older versions have calls and questions, and these without their calls."""
    calls = [{"call": call} for call in outcome.get("calls", ())]
    unknown = {"id": "", "name": ""}
    return [*outcome.get("pending", ()), *calls, *({"call": unknown, **one} for one in outcome.get("questions", ()))]


def _status_without_work(first: Any, last: Any) -> RunStatus:
    """Return the state of a run that was deleted, or whose row the client has refused to read."""
    is_deleted = last.input is None
    return RunStatus(
        run_of(first.workflow_id),
        "deleted" if is_deleted else "failed",
        error="it was deleted from the journal" if is_deleted else "its row in the queue is not JSON and was not read",
        submitted=first.created_at / 1000,
        ended=last.completed_at / 1000 if last.completed_at else None,
    )


def work_of(found: Any) -> QueuedRun:
    """Return the work of a workflow; raise `RunError` if it was deleted, or is not JSON."""
    if not isinstance(found.input, dict):
        raise RunError(f"run {run_of(found.workflow_id)}: its work is not in the queue any more. Submit it again")
    return QueuedRun.decode(found.input["args"][0])


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
        pause = Paused()
        pause.pending = status.pending
        pause.run_id = status.id
        why = status.error.removeprefix("Paused: ").removesuffix(str(pause)).strip()  # its text has the rest
        pause.args = (why,) if why else ()
        raise pause
    error = RunStopped if status.state == "stopped" else RunError
    state = f"is {status.state}" if status.state in ("dead", "superseded", "deleted") else status.state
    raise error(f"run {status.id} {state}: {status.error or 'cancelled'}")


EVENT_SECONDS = 0.1
STATUS_SECONDS = 0.3
"""Seconds between two looks for new events, and for the state."""
AWAY_SECONDS = 10.0
"""Seconds for which an action is repeated while the database cannot be reached."""


class Queue(Protocol):
    """What a handle needs of a client."""

    def workflows(self, run: str) -> Any: ...
    def states(self, ids: Iterable[str], *, seconds: float = ...) -> list["RunStatus"]: ...
    def continue_run(self, run: str, number: int, work: QueuedRun, priority: int, key: str) -> bool: ...
    def cancel(self, workflow: str) -> None: ...
    def read_events(self, run: str, after: int) -> Any: ...


@dataclass(frozen=True)
class RunHandle:
    """A run that was submitted.  Other processes get it with `client.run(id)`."""

    queue: Queue
    id: str

    @property
    def status(self) -> RunStatus:
        """The state of the run; raises `RunError` if no such run was submitted."""
        return self._read()

    def _read(self, seconds: float = AWAY_SECONDS) -> RunStatus:
        found = self.queue.states([self.id], seconds=seconds)
        if not found:
            raise RunError(f"run {self.id}: no such run was submitted")
        return found[0]

    def _read_outcome(self) -> RunStatus | None:
        """Return the state of a run that is neither queued nor running; None also while the database is away."""
        try:
            status = self._read(0.0)
        except JournalError as error:
            if not is_unreachable(error):
                raise
            return None
        return None if status.state in ("queued", "running") else status

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the answer and return it as JSON data; `agent.resume(handle.id, journal=url)` has the whole result.

        Args:
            timeout: Seconds to wait, also for a database that cannot be reached; None for no limit.

        Raises:
            Paused: The run waits for a person: `approve` or `answer`, then wait again.
            RunStopped: It was cancelled.
            RunError: It failed, or its attempts are used up.
            TimeoutError: The time is over; the run continues.
        """
        check_wait(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        while (status := self._read_outcome()) is None:
            _check_time(self.id, end)
            time.sleep(STATUS_SECONDS)
        return answer_of(status)

    async def aresult(self, timeout: float | None = None) -> Any:
        """Do `result` on the running event loop."""
        check_wait(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        while (status := await run_in_thread(self._read_outcome)) is None:
            _check_time(self.id, end)
            await asyncio.sleep(STATUS_SECONDS)
        return answer_of(status)

    async def astatus(self) -> RunStatus:
        """Return `status` on the running event loop."""
        return await run_in_thread(lambda: self.status)

    def events(self) -> Generator[dict[str, Any], None, None]:
        """Yield the frames as JSON objects, as `agentkit run --jsonl`, up to the end of the run or its next pause.

        A worker writes them ten times a second; they are kept for a day.  `decode_frame` of `agentkit.extend` reads one
        back, and every view draws it.  A run that is continued by another worker or tried again opens again.
        """
        reader = _EventReader(self)
        while not reader.is_over:
            yield from reader.read()
            if not reader.is_over:
                time.sleep(EVENT_SECONDS)

    async def aevents(self) -> AsyncGenerator[dict[str, Any], None]:
        """Do `events` on the running event loop."""
        reader = _EventReader(self)
        while not reader.is_over:
            for event in await run_in_thread(reader.read):
                yield event
            if not reader.is_over:
                await asyncio.sleep(EVENT_SECONDS)

    def stop(self) -> None:
        """Cancel the run: at once if it is queued or paused, within about a second if a worker has it."""
        while True:
            last = self._read_last()
            self.queue.cancel(last.workflow_id)
            if self.status.state != "paused":
                return
            self._submit_next(last, {})  # a workflow that has ended cannot be cancelled, and its continuation can

    async def astop(self) -> None:
        """Do `stop` on the running event loop."""
        await run_in_thread(self.stop)

    def approve(self, *calls: ToolCall | str, decision: Decision = True) -> None:
        """Continue a paused run with a decision about calls, or about all that wait.

        Args:
            calls: The calls or their ids; without one, all that wait.
            decision: True; False or a reason to refuse; or other arguments.
        """
        wanted = [_id_of(call) for call in calls]
        self.proceed(approvals=dict.fromkeys(wanted or [call.id for call in self.status.calls], decision))

    def answer(self, pending: Pending | Question | str, value: Any) -> None:
        """Continue a paused run with an answer to what it waits for, or to its id."""
        self.proceed(answers={_id_of(pending): value})

    def proceed(self, *, answers: Given | None = None, approvals: Given | None = None) -> None:
        """Continue a paused run with several decisions and answers, by the ids of what it waits for.

        `approvals` are decisions about calls alone.

        Raises:
            RunError: The run is not paused, an id is not among those that wait, or a decision or an answer is not
                valid.  The run stays paused.
            DefinitionError: A yes is given as a text, which would refuse the call.
        """
        last = self._read_last()
        status = self.status
        if status.state != "paused":
            why = f" ({status.error})" if status.state == "superseded" else ""
            raise RunError(f"run {self.id} is {status.state}{why}: only a paused run takes decisions and answers")
        given = read_answers(join_given(approvals, answers), status.pending)
        if not given:
            listed = ", ".join(repr(entry.id) for entry in status.pending) or "none"
            raise RunError(f"run {self.id}: no answer is given. Waiting: {listed}.")
        self._continue(last, given)

    async def aproceed(self, **given: Any) -> None:
        """Do `proceed` on the running event loop."""
        await run_in_thread(partial(self.proceed, **given))

    def retry(self) -> None:
        """Put a run that failed, was stopped or is dead into the queue again; completed steps are not repeated."""
        last = self._read_last()
        if (state := self.status.state) not in ENDED or state == "finished":
            raise RunError(f"run {self.id} is {state}: only a failed, stopped or dead run is retried")
        self._continue(last, {})

    def _read_last(self) -> Any:
        """Return the last workflow of the run; read before its state, so that no other one comes between them."""
        return max(self.queue.workflows(self.id), key=continuation_number)

    def _continue(self, last: Any, answers: Mapping[str, Any]) -> None:
        if not self._submit_next(last, answers):
            raise RunError(f"run {self.id} was continued by another program at the same time")

    def _submit_next(self, last: Any, answers: Mapping[str, Any]) -> bool:
        """Put a continuation after the last workflow into the queue; return False if there is one."""
        work = replace(work_of(last), answers=answers)
        number = continuation_number(last) + 1
        return self.queue.continue_run(self.id, number, work, last.priority, last.queue_partition_key)


class _EventReader:
    """Reads the events of a run up to its end."""

    def __init__(self, handle: RunHandle) -> None:
        self._handle = handle
        self._number = 0
        self._checked = 0.0
        self.is_over = False

    def read(self) -> list[dict[str, Any]]:
        """Return the new events."""
        is_ended = False
        if time.monotonic() - self._checked > STATUS_SECONDS:
            is_ended = self._handle.status.state not in ("queued", "running")
            self._checked = time.monotonic()
        batches = self._handle.queue.read_events(self._handle.id, self._number)  # after the state: these are the last
        if batches:
            self._number = batches[-1][0]
        self.is_over = is_ended
        return [event for _, body in batches for event in json.loads(body)]


def _id_of(entry: Pending | Question | ToolCall | str) -> str:
    """Return the id of what a run waits for; raise `RunError` for anything else."""
    found = entry if isinstance(entry, str) else getattr(entry, "id", None)
    if not isinstance(found, str):
        raise RunError(f"expected what the run waits for, or its id, got {entry!r:.60}. status.pending lists it")
    return found


def _check_time(run: str, end: float | None) -> None:
    if end is not None and time.monotonic() > end:
        raise TimeoutError(f"run {run} has no result yet; it continues")
