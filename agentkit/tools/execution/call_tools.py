"""Run the tool calls of one turn: the effect, its two drivers, and the order of the calls.

Calls overlap, at most 32 at a time.  A call whose tool has side effects runs alone, after all calls before it and
before all calls after it.
Equal calls of a tool that only reads run once and have the same result, unless such a call stands between them.
A call that exceeds its timeout results in an error, and its later result is discarded.
"""

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from queue import Empty
from typing import Self

from ...core.background import start_coroutine
from ...core.errors import DefinitionError, InnerPaused, RunError, ToolError
from ...core.flow import Done, Event
from ...core.pending import InputRequired
from ...core.portable import to_canonical_text
from ...core.threads import POLL_SECONDS, CancelCallback, Work, on_cancel
from ...core.values import copy_with, frozen
from ..isolation.process import NotIsolable
from ..settings import ORDERED_EFFECTS
from .call import BoundCall, ToolResult
from .turn import MAX_PENDING_EVENTS, CallGroup, Item, Job, ToolAbandoned, ToolFinished, ToolStarted, ToolTurn

CALLER_IN_ASYNC_RUN = (
    "JsonAgent(tool_thread='caller'): an async run, map and an agent inside a tool have no calling thread for tools. "
    "Call the agent with agent(...) or agent.run(...), or set tool_thread='worker'"
)
__all__ = ["CallTools", "ToolAbandoned", "ToolFinished", "ToolStarted"]


@frozen(slots=False)  # for `copy_with`
class CallTools:
    """The effect that runs the calls of one turn; its outcome is their results, in the order of the calls.

    The exception of a tool with `on_error="raise"` is raised when all calls have ended, an exit as a
    `RunError`.  An interrupt is raised at once.

    Attributes:
        calls: The calls.
        finished: Filled with results by call id while the calls run, so that a cancelled turn keeps them.  A cancelled
            turn also adds a result for each call that had not started.
        sequential: Runs the calls one after another.
        clock: Returns the seconds that timeouts are measured with.
        max_pending: Events that may wait in the queue; further progress events are dropped.
        on_caller: Runs plain functions on the calling thread, one after another, which only a blocking run can.
    """

    calls: tuple[BoundCall, ...]
    finished: dict[str, ToolResult] = field(default_factory=dict)
    sequential: bool = False
    clock: Callable[[], float] = time.perf_counter
    max_pending: int = MAX_PENDING_EVENTS
    on_caller: bool = False

    def with_calls(self, calls: Iterable[BoundCall]) -> Self:
        """Return the same effect with other calls; most policies do this in each turn."""
        return copy_with(self, {"calls": tuple(calls)})

    def perform(self) -> Generator[Event, None, list[ToolResult]]:
        turn_type = CallerToolTurn if self.on_caller else BlockingToolTurn
        turn = turn_type(self.calls, self.finished, self.clock, self.max_pending)
        with turn, on_cancel(turn.stop):
            for stage in plan_stages(self.calls, sequential=self.sequential or self.on_caller):
                yield from turn.begin(stage)
                while turn.is_open:
                    yield from turn.take(turn.wait())
        return self._results()

    async def aperform(self) -> AsyncGenerator[Event | Done[list[ToolResult]], None]:
        if self.on_caller:
            raise DefinitionError(CALLER_IN_ASYNC_RUN)
        turn = AsyncToolTurn(self.calls, self.finished, self.clock, self.max_pending)
        with turn, on_cancel(turn.stop):
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
            error = None if isinstance(result.exception, InputRequired) else result.exception
            is_for_caller = bound.tool is not None and bound.tool.on_error == "raise"
            is_raised = is_for_caller and isinstance(error, Exception) and not isinstance(error, ToolError)
            if error is not None and (is_raised or isinstance(error, NotIsolable | InnerPaused)):
                raise error
            if is_for_caller and isinstance(error, SystemExit):
                raise RunError(f"{bound.call.name}: the tool exited with SystemExit({error})") from error
        return results


class BlockingToolTurn(ToolTurn):
    """A turn that is waited for by blocking."""

    def wait(self) -> Item:
        """Return the next item; None at the next timeout, also while progress events keep arriving."""
        while (left := self.seconds_left) > 0:
            try:
                return self.inbox.get(timeout=min(left, POLL_SECONDS))
            except Empty:
                continue
        return None

    def launch(self, job: Job) -> CancelCallback:
        if job.is_async:
            return start_coroutine(self.attend(job))
        return Work(partial(self.work, job)).cancel


class CallerToolTurn(BlockingToolTurn):
    """A turn whose plain functions run on the thread that waits: their timeouts cannot be kept."""

    def launch(self, job: Job) -> CancelCallback:
        if not job.is_threaded:
            return super().launch(job)
        return self.run_here(job)


class AsyncToolTurn(ToolTurn):
    """A turn that is waited for on the running event loop."""

    def __init__(
        self, calls: Sequence[BoundCall], finished: dict[str, ToolResult], clock: Callable[[], float], max_pending: int
    ) -> None:
        super().__init__(calls, finished, clock, max_pending)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._wake = asyncio.Event()

    async def wait(self) -> Item:
        """Return the next item, or None at the next timeout; other tasks of the loop run in between."""
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
        super().put(item)
        if threading.get_ident() == self._thread:
            self._wake.set()
        else:
            with suppress(RuntimeError):  # the loop is closed, so there is no waiter
                self._loop.call_soon_threadsafe(self._wake.set)

    def launch(self, job: Job) -> CancelCallback:
        if not job.is_async:
            return Work(partial(self.work, job, self._loop)).cancel
        task = self._loop.create_task(self.attend(job))
        return partial(self._cancel_task, task)

    def _cancel_task(self, task: "asyncio.Task[None]") -> None:
        if not self._loop.is_closed():
            self._loop.call_soon(task.cancel)  # only after it has started, so that it always ends


def plan_stages(calls: Sequence[BoundCall], *, sequential: bool = False) -> Iterator[list[CallGroup]]:
    """Yield the stages of a turn: groups of calls that run side by side, each group once for all its calls."""
    if len(calls) == 1:
        yield [(calls[0],)]
        return
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
    """Return whether the call keeps its place among the others, because its tool declares side effects."""
    return bound.tool is not None and bound.problem is None and bound.tool.effect in ORDERED_EFFECTS


def read_key(bound: BoundCall) -> tuple[int, str] | None:
    """Return a key that equal reads share; None for a call that may do more than read."""
    if bound.tool is None or bound.problem is not None or bound.tool.effect != "read":
        return None
    return id(bound.tool), to_canonical_text(bound.call.arguments)
