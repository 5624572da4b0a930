"""A call, or equal calls that are one, on its way: in line, under way, late."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ...core.threads import CancelCallback, FifoLock
from .call import BoundCall

CallGroup: TypeAlias = tuple[BoundCall, ...]
"""Calls that are run once for all of them."""


@dataclass(eq=False, slots=True)
class Job:
    """A group of calls that waits to begin, or is under way."""

    group: CallGroup
    started: float = 0.0
    deadline: float | None = None
    fifo_lock: FifoLock | None = None
    admitted: Callable[[], object] | None = None
    stop: CancelCallback | None = None
    """Gives it up; there is none before it has begun."""

    @property
    def bound(self) -> BoundCall:
        """The call that is run for all."""
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
        """Whether its time is over; a call that stands in line has time as long as the line moves on."""
        if self.stop is None and self.fifo_lock is not None and self.bound.timeout is not None:
            self.deadline = max(self.started, self.fifo_lock.granted_at) + self.bound.timeout
        return self.deadline is not None and self.deadline <= now

    def line_up(self, fifo_lock: FifoLock, admitted: Callable[[], object]) -> None:
        """Stand in line; `admitted` is called when the job may begin."""
        self.fifo_lock, self.admitted = fifo_lock, admitted
        fifo_lock.acquire(admitted)

    def make_way(self) -> None:
        """Leave the line, if it stands in one or has come out of it."""
        if self.fifo_lock is not None and self.admitted is not None:
            self.fifo_lock.release(self.admitted)
