"""Running the calls of one turn: the effect, its two drivers, and what runs beside what.

Calls overlap.  One whose tool is declared to change something runs alone, after all before it and before all after it;
equal calls of a tool that only reads, with no such call between them, are one call with several results.  A call that
takes longer than it may is answered with that, and what it still does is lost.
"""

import asyncio
import json
import math
import threading
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty

from ...core.background import start_coroutine, start_thread
from ...core.errors import ToolError
from ...core.flow import Done, Event
from ...core.threads import POLL_SECONDS, CancelCallback, on_cancel
from ..isolation.process import NotIsolable
from ..settings import ORDERED_EFFECTS
from .call import BoundCall, ToolResult
from .job import CallGroup, Job
from .turn import Item, ToolAbandoned, ToolFinished, ToolStarted, ToolTurn

__all__ = ["CallTools", "ToolAbandoned", "ToolFinished", "ToolStarted"]


@dataclass(frozen=True, slots=True)
class CallTools:
    """The effect that runs the calls of one turn; its outcome is their results, in call order.

    `finished` is filled while they run (call id -> result), so that an interrupted turn keeps what was done; when the
    turn is stopped, it says of the calls that had not begun that they did not.  What a tool with `on_error="raise"`
    raised is raised when all calls are done; an interrupt or an exit that a tool raised, at once.  `sequential` runs
    the calls one after the other.
    """

    calls: tuple[BoundCall, ...]
    finished: dict[str, ToolResult] = field(default_factory=dict)
    sequential: bool = False

    def perform(self) -> Generator[Event, None, list[ToolResult]]:
        turn = BlockingToolTurn(self.calls, self.finished)
        with closing(turn), on_cancel(turn.stop):
            for stage in plan_stages(self.calls, sequential=self.sequential):
                yield from turn.begin(stage)
                while turn.is_open:
                    yield from turn.take(turn.wait())
        return self._results()

    async def aperform(self) -> AsyncGenerator[Event | Done[list[ToolResult]], None]:
        turn = AsyncToolTurn(self.calls, self.finished)
        with closing(turn), on_cancel(turn.stop):
            for stage in plan_stages(self.calls, sequential=self.sequential):
                for event in turn.begin(stage):
                    yield event
                while turn.is_open:
                    for event in turn.take(await turn.wait()):
                        yield event
        yield Done(self._results())

    def _results(self) -> list[ToolResult]:
        results = [self.finished[bound.call.id] for bound in self.calls]
        for bound, result in zip(self.calls, results, strict=True):
            error = result.exception
            is_for_caller = bound.tool is not None and bound.tool.on_error == "raise"
            is_raised = is_for_caller and isinstance(error, Exception) and not isinstance(error, ToolError)
            if error is not None and (is_raised or isinstance(error, NotIsolable)):
                raise error
        return results


class BlockingToolTurn(ToolTurn):
    """A turn that is waited for by blocking."""

    def wait(self) -> Item:
        """The next thing that happens; the end of a call's time comes before what it tells without a pause."""
        while (left := self.seconds_left) > 0:
            with suppress(Empty):
                return self.inbox.get(timeout=min(left, POLL_SECONDS))
        return None

    def put(self, item: Item) -> None:
        self.inbox.put(item)

    def launch(self, job: Job) -> CancelCallback:
        if job.is_async:
            return start_coroutine(self.attend(job))
        return start_thread(partial(self.work, job)).cancel


class AsyncToolTurn(ToolTurn):
    """A turn that is waited for on the running event loop."""

    def __init__(self, calls: Sequence[BoundCall], finished: dict[str, ToolResult]) -> None:
        super().__init__(calls, finished)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._wake = asyncio.Event()

    async def wait(self) -> Item:
        """The next thing that happens; whatever else is on the loop gets its turn, too."""
        if not self.inbox.empty():
            await asyncio.sleep(0)
        while (left := self.seconds_left) > 0:
            if not self.inbox.empty():
                return self.inbox.get_nowait()
            self._wake.clear()
            timer = None if left == math.inf else self._loop.call_later(left, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                if timer is not None:
                    timer.cancel()
        return None

    def put(self, item: Item) -> None:
        self.inbox.put(item)
        if threading.get_ident() == self._thread:
            self._wake.set()
        else:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any longer
                self._loop.call_soon_threadsafe(self._wake.set)

    def launch(self, job: Job) -> CancelCallback:
        if not job.is_async:
            return start_thread(partial(self.work, job, self._loop)).cancel
        task = self._loop.create_task(self.attend(job))
        return partial(self._cancel, task)

    def _cancel(self, task: "asyncio.Task[None]") -> None:
        if not self._loop.is_closed():
            self._loop.call_soon(task.cancel)  # not before it has begun, so that it always comes to its end


def plan_stages(calls: Sequence[BoundCall], *, sequential: bool = False) -> Iterator[list[CallGroup]]:
    """What is run side by side, stage after stage: groups of calls, each of which is run once for all in it."""
    stage: dict[object, CallGroup] = {}
    for bound in calls:
        if sequential or is_ordered(bound):
            if stage:
                yield [*stage.values()]
                stage = {}
            yield [(bound,)]
        else:
            key = read_key(bound) or id(bound)
            stage[key] = (*stage.get(key, ()), bound)
    if stage:
        yield [*stage.values()]


def is_ordered(bound: BoundCall) -> bool:
    """Whether the call has its place among the others: it changes something, as far as its tool says."""
    return bound.tool is not None and bound.problem is None and bound.tool.effect in ORDERED_EFFECTS


def read_key(bound: BoundCall) -> tuple[int, str] | None:
    """What calls have in common that read the same; None for a call that may do more than read."""
    if bound.tool is None or bound.problem is not None or bound.tool.effect != "read":
        return None
    return id(bound.tool), json.dumps(json.loads(bound.call.arguments), sort_keys=True)
