"""One call, or several equal calls that run once: waiting for its lock, running, late, or blocking its event loop."""

import time
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from types import coroutine
from typing import Any, TypeAlias, TypeVar

from ...core.errors import ExceptionInfo
from ...core.flow import WarningEvent
from ...core.threads import CancelCallback, FifoLock
from .call import BoundCall

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

    `started` is `time.perf_counter()` at the start, or at the start of waiting. `stop` cancels the job; None before
    the start. `blocked` are the seconds for which a coroutine blocked its event loop.
    """

    group: CallGroup
    started: float = 0.0
    deadline: float | None = None
    fifo_lock: FifoLock | None = None
    granted: Callable[[], object] | None = None
    stop: CancelCallback | None = None
    blocked: float = 0.0

    @property
    def bound(self) -> BoundCall:
        """The call that runs for all of the group."""
        return self.group[0]

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
        bound, tool = self.bound, self.bound.tool
        effect, isolate = (tool.effect, tool.isolate) if tool is not None else (None, None)
        if self.stop is not None:
            ended = "stopped" if isolate else "abandoned"
            after = f"{bound.timeout:g} second{'' if bound.timeout == 1 else 's'}"
            text = f"did not finish within {after} and was {ended}; {_EFFECT_OF_LATE_CALL.get(effect, _EFFECT_UNKNOWN)}"
        else:
            text = "was not run, so it had no effect: an earlier call, beside which it may not run, has not ended."
        return ExceptionInfo("TimedOut", f"{bound.call.name} {text}")

    def note_step(self, seconds: float) -> None:
        """Note the longest time that a coroutine ran without awaiting."""
        if seconds >= min(BLOCKING_SECONDS, self.bound.timeout or BLOCKING_SECONDS):
            self.blocked = seconds

    def acquire(self, fifo_lock: FifoLock, granted: Callable[[], object]) -> None:
        """Wait for the lock; `granted` is called when the job may start."""
        self.fifo_lock, self.granted = fifo_lock, granted
        fifo_lock.acquire(granted)

    def release(self) -> None:
        """Release the lock, or stop waiting for it."""
        if self.fifo_lock is not None and self.granted is not None:
            self.fifo_lock.release(self.granted)


@dataclass(frozen=True, slots=True)
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
    value, error, longest = None, None, 0.0
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
            value, error = None, None
            try:
                value = yield wanted
            except GeneratorExit:
                work.close()
                raise
            except BaseException as raised:
                error = raised
    finally:
        report(longest)
