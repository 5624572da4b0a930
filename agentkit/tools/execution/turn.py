"""A turn in progress: starts its calls, waits for them and cancels them, blocking or on an event loop.

Tools run in threads, and coroutine functions on an event loop: in a blocking run on the background loop.  All threads
put what happens into one queue: results, progress, and that the lock of a sequential tool was granted.  A thread
records its result itself, so that none is lost when the turn is cancelled at that moment.

A job is one call, or several equal calls that run once.  It waits for its lock, runs, is late, or blocks its loop.
"""

import asyncio
import math
import queue
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from types import coroutine
from typing import Any, Literal, Self, TypeAlias, TypeVar

from ...core.context import Progress
from ...core.errors import ExceptionInfo, RunStopped
from ...core.flow import Event, WarningEvent
from ...core.threads import CancelCallback, FifoLock, count_abandoned
from ...core.values import frozen
from .call import UNKNOWN_OUTCOME, BoundCall, ToolResult, describe_tool_error

T = TypeVar("T")
CallGroup: TypeAlias = tuple[BoundCall, ...]
"""Equal calls, which run once for all of them."""
BLOCKING_SECONDS = 1.0
"""Seconds between two awaits of a coroutine that are reported, or fewer if the timeout of the call is shorter."""
_EFFECT_UNKNOWN = "it is not known whether it had an effect. Find that out before it is called again."
_EFFECT_OF_LATE_CALL: dict[str | None, str] = {
    "read": "it only reads, so nothing has changed.",
    "idempotent": "it is not known whether it had an effect. It may be called again.",
}


@dataclass(eq=False, slots=True)
class Job:
    """A group of calls that waits for its start, or for the lock of a sequential tool, or runs.

    `bound` is the call that runs for all of the group. `started` is `time.perf_counter()` at the start, or at the start
    of waiting. `stop` cancels the job; None before the start. `blocked` are the seconds for which a coroutine blocked
    its event loop.
    """

    bound: BoundCall
    group: CallGroup
    started: float = 0.0
    deadline: float | None = None
    fifo_lock: FifoLock | None = None
    granted: Callable[[], object] | None = None
    stop: CancelCallback | None = None
    blocked: float = 0.0

    @property
    def is_async(self) -> bool:
        """Whether it runs on an event loop."""
        return self.bound.tool is not None and self.bound.tool.is_async

    @property
    def is_threaded(self) -> bool:
        """Whether it runs in a thread of this process, which cannot be stopped."""
        return not self.is_async and (self.bound.tool is None or self.bound.tool.isolate is None)

    def is_late(self, now: float) -> bool:
        """Return whether the timeout has passed; while waiting, the time counts from the lock's last grant."""
        if self.stop is None and self.fifo_lock is not None and self.bound.timeout is not None:
            self.deadline = max(self.started, self.fifo_lock.granted_at) + self.bound.timeout
        return self.deadline is not None and self.deadline <= now

    def describe_timeout(self) -> ExceptionInfo:
        """Return the error for a call that exceeded its timeout, or that could not start within it."""
        bound = self.bound
        tool = self.bound.tool
        effect, isolate = (tool.effect, tool.isolate) if tool is not None else (None, None)
        if self.stop is not None:
            ended = "stopped" if isolate else "abandoned"
            after = f"{bound.timeout:g} second{'' if bound.timeout == 1 else 's'}"
            text = f"did not finish within {after} and was {ended}; {_EFFECT_OF_LATE_CALL.get(effect, _EFFECT_UNKNOWN)}"
        elif bound.began_before:
            return UNKNOWN_OUTCOME
        else:
            text = "was not run, so it had no effect: an earlier call, beside which it may not run, has not ended."
        return ExceptionInfo("TimedOut", f"{bound.call.name} {text}", is_own=True)

    def note_step(self, seconds: float) -> None:
        """Note the longest time that a coroutine ran without awaiting."""
        if seconds >= min(BLOCKING_SECONDS, self.bound.timeout or BLOCKING_SECONDS):
            self.blocked = seconds

    def acquire(self, fifo_lock: FifoLock, granted: Callable[[], object]) -> None:
        """Wait for the lock; `granted` is called when the job may start."""
        self.fifo_lock = fifo_lock
        self.granted = granted
        fifo_lock.acquire(granted)

    def release(self) -> None:
        """Release the lock, or stop waiting for it."""
        if self.fifo_lock is not None and self.granted is not None:
            self.fifo_lock.release(self.granted)


@frozen
class ToolBlockedLoop(WarningEvent):
    """A coroutine function ran for `seconds` without awaiting: nothing else on its event loop ran meanwhile.

    The timeout of the call could not take effect either.
    """

    call: BoundCall
    seconds: float

    @property
    def notice(self) -> str:
        return (
            f"{self.call.call.name} blocked the event loop for {self.seconds:.1f} seconds, so its timeout had no "
            "effect: make it a plain function, which runs in a thread, or await asyncio.to_thread(...) for slow parts"
        )


@coroutine
def watch_steps(work: Coroutine[Any, Any, T], report: Callable[[float], object]) -> Generator[Any, Any, T]:
    """Await `work`, and report the seconds of its longest step between two awaits when it ends."""
    value = None
    error = None
    longest = 0.0
    try:
        while True:
            start = time.perf_counter()
            try:
                wanted = work.send(value) if error is None else work.throw(error)
            except StopIteration as stop:
                result: T = stop.value
                return result
            finally:
                longest = max(longest, time.perf_counter() - start)
            value = None
            error = None
            try:
                value = yield wanted
            except GeneratorExit:
                work.close()
                raise
            except BaseException as raised:
                error = raised
    finally:
        report(longest)


MAX_PENDING_EVENTS = 10_000
"""Events that may wait in the queue."""
MAX_OVERLAP = 32
"""Calls of one turn that run side by side; further ones start as these end, so a turn cannot start 4,000 threads."""
NOT_STARTED = ExceptionInfo("Cancelled", "the run was stopped before this call began; it had no effect.", is_own=True)
OUT_OF_TIME = ExceptionInfo("TimedOut", "the run's time is over, so this call was not run.", is_own=True)


@frozen
class ToolStarted(Event):
    """A call starts; its notice names the repairs."""

    call: BoundCall

    @property
    def level(self) -> Literal["INFO", "WARNING"]:
        return "WARNING" if self.call.repairs else "INFO"

    @property
    def notice(self) -> str:
        repairs = "; ".join(map(str, self.call.repairs))
        return f"{self.call.call.name}: {repairs}" if repairs else ""


@frozen
class ToolFinished(Event):
    """A call has its result."""

    result: ToolResult


@frozen
class ToolAbandoned(WarningEvent):
    """A call exceeded its timeout, and its thread cannot be stopped; `threads` such threads still run."""

    call: BoundCall
    threads: int

    @property
    def notice(self) -> str:
        return f"{self.call.call.name} still runs after its timeout; {self.threads} such threads"


Item: TypeAlias = Event | BaseException | tuple[Job, ToolResult | BaseException | None] | None
"""An event; what ends the turn; a job with its outcome, or with None when it may start; None at a timeout."""


class ToolTurn(ABC):
    """The calls of one turn while they run; `finished` is filled with their results by call id."""

    def __init__(
        self, calls: Sequence[BoundCall], finished: dict[str, ToolResult], clock: Callable[[], float], max_pending: int
    ) -> None:
        self.finished = finished
        self._calls = calls
        self._clock = clock
        self._max_pending = max_pending
        self._begun: set[str] = set()
        self._jobs: dict[Job, None] = {}
        self._waiting: deque[Job] = deque()
        self._running = 0
        self.inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self.alarm: float | None = None
        for bound in self._calls:
            if bound.context is not None:
                bound.context.channel.send = self._send

    @property
    def is_open(self) -> bool:
        """Whether calls are running or waiting."""
        return bool(self._jobs)

    def begin(self, stage: Sequence[CallGroup]) -> Iterator[Event]:
        """Start these calls, or wait for their locks; yields the events."""
        jobs = [Job(group[0], group) for group in stage]
        self._jobs.update(dict.fromkeys(jobs))
        for job in jobs:
            tool = job.bound.tool
            if tool is None or tool.fifo_lock is None or job.bound.problem is not None or job.bound.is_stored:
                self._waiting.append(job)
            else:
                self._set_deadline(job)
                job.acquire(tool.fifo_lock, partial(self.put, (job, None)))
        yield from self._start_waiting()

    def take(self, item: Item) -> Iterator[Event]:
        """Handle an item of `wait` and yield its events; raises an item that ends the turn."""
        if item is None:
            yield from self._expire()
        elif isinstance(item, BaseException):
            raise item
        elif isinstance(item, Event):
            yield item
        elif item[0] in self._jobs:  # else it was cancelled
            job, outcome = item
            if outcome is None:
                yield from self._start(job)
            elif isinstance(outcome, asyncio.CancelledError):  # by the tool: this turn cancels no job that it waits for
                self._record(job, job.bound.fail(describe_tool_error(outcome), job.started, outcome))
                yield from self._finish(job)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                yield from self._finish(job)

    @property
    def seconds_left(self) -> float:
        """Seconds until the next timeout."""
        return math.inf if self.alarm is None else self.alarm - self._clock()

    def stop(self) -> None:
        """Cancel the turn, from any thread, because the enclosing run was cancelled."""
        self.put(RunStopped("cancelled: the enclosing run was stopped"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop waiting: cancel the running calls and record which calls never started."""
        jobs = self._jobs
        self._jobs = {}
        for bound in self._calls:
            if bound.context is not None:
                bound.context.channel.send = None
            if bound.call.id not in self._begun and not bound.began_before:
                self.finished.setdefault(bound.call.id, bound.fail(bound.problem or NOT_STARTED))
        for job in jobs:
            self._cancel(job)

    def put(self, item: Item) -> None:
        """Add an item to the queue that `wait` reads; from any thread."""
        self.inbox.put(item)

    @abstractmethod
    def launch(self, job: Job) -> CancelCallback:
        """Start the job; return a function that cancels it."""

    def _start_waiting(self) -> Iterator[Event]:
        while self._waiting and self._running < MAX_OVERLAP:
            yield from self._start(self._waiting.popleft())

    def _start(self, job: Job) -> Iterator[Event]:
        for bound in job.group:
            bound.mark_begun()
            yield ToolStarted(bound)
        self._begun.update([bound.call.id for bound in job.group])
        if job.bound.problem is not None:
            self._end(job, job.bound.fail(job.bound.problem))
        elif job.bound.timeout is not None and job.bound.timeout <= 0:
            self._end(job, job.bound.fail(UNKNOWN_OUTCOME if job.bound.began_before else OUT_OF_TIME))
        else:
            self._set_deadline(job)
            self._running += 1
            job.stop = self.run_here(job) if job.bound.is_own_check else self.launch(job)

    def run_here(self, job: Job) -> CancelCallback:
        """Run the job on the thread that waits; return a function that has nothing to cancel."""
        copy_context().run(partial(self.work, job, on_caller=True))
        return lambda: None

    def work(self, job: Job, loop: asyncio.AbstractEventLoop | None = None, *, on_caller: bool = False) -> None:
        try:
            outcome: ToolResult | BaseException = job.bound.invoke(loop, on_caller=on_caller)
        except BaseException as error:
            outcome = error
        self._end(job, outcome)

    async def attend(self, job: Job) -> None:
        try:
            outcome: ToolResult | BaseException = await watch_steps(job.bound.ainvoke(), job.note_step)
        except BaseException as error:
            outcome = error
        self._end(job, outcome)

    def _end(self, job: Job, outcome: ToolResult | BaseException) -> None:
        if isinstance(outcome, ToolResult) and job in self._jobs:
            self._record(job, outcome)
        self.put((job, outcome))
        job.release()

    def _record(self, job: Job, result: ToolResult) -> bool:
        """Record the result of a job; return False if it already has one."""
        is_first = True
        for bound in job.group:
            own = result if bound is job.bound else replace(result, call=bound.call, repairs=bound.repairs)
            is_first &= self.finished.setdefault(bound.call.id, own) is own
        return is_first

    def _finish(self, job: Job) -> Iterator[Event]:
        del self._jobs[job]
        self._running -= job.stop is not None
        if job.blocked:
            yield ToolBlockedLoop(job.bound, job.blocked)
        for bound in job.group:
            yield ToolFinished(self.finished[bound.call.id])
        yield from self._start_waiting()

    def _set_deadline(self, job: Job) -> None:
        job.started = self._clock()
        if job.bound.timeout is not None:
            job.deadline = job.started + job.bound.timeout
            self.alarm = job.deadline if self.alarm is None else min(self.alarm, job.deadline)

    def _expire(self) -> Iterator[Event]:
        """End the calls whose timeout has passed."""
        now = self._clock()
        for job in [job for job in self._jobs if job.is_late(now)]:
            late = job.describe_timeout()
            if self._record(job, job.bound.fail(late, job.started)):  # else its result arrived at the last moment
                self._cancel(job)
                if job.is_threaded and job.stop is not None:
                    yield ToolAbandoned(job.bound, count_abandoned())
            yield from self._finish(job)
        self.alarm = min((job.deadline for job in self._jobs if job.deadline is not None), default=None)

    def _cancel(self, job: Job) -> None:
        if job.stop is not None:
            job.stop()
        else:
            job.release()

    def _send(self, event: Event) -> None:
        """Queue an event that a tool emits; drops progress of a call that has its result, and above the limit."""
        if isinstance(event, Progress):
            identity = event.call.id if event.call is not None else ""
            is_late = identity in self.finished or (identity and identity not in self._begun)
            if is_late or self.inbox.qsize() >= self._max_pending:
                return
        self.put(event)
