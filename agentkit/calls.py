"""Running tools: a bound call, its result, and the effect that runs the calls of one turn side by side."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from .data import valid_text
from .errors import ExceptionInfo, ToolError
from .flow import Done, Event
from .json_tool import JsonTool
from .messages import Message, ToolCall, tool_message
from .repairs import Repair
from .results import Part, rendering
from .workers import MOST_ITEMS, asettled, collected, in_thread, is_lazy, settled, start_thread

T = TypeVar("T")

MAX_ERROR = 2_000
"""Characters of an exception's text that the model reads; what a `ToolError` says is meant for it, however long."""
ANSWERED = "The answer was given."
"""What the answer's own call is answered with: the answer stands in its arguments already."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of one call: the value, or an `ExceptionInfo`; `content` is the text that the model reads.

    `images` are the content parts of the images in the value, which the model sees after the text.
    """

    call: ToolCall
    value: Any
    content: str
    seconds: float = 0.0
    is_answer: bool = False
    exception: Exception | None = field(default=None, repr=False, compare=False)
    """What the tool raised, with its traceback; for logs."""
    images: Sequence[Part] = field(default=(), repr=False)
    repairs: tuple[Repair, ...] = ()
    """What was put right in the call before it was made."""

    @property
    def error(self) -> ExceptionInfo | None:
        """What went wrong, if something did."""
        return self.value if isinstance(self.value, ExceptionInfo) else None

    @property
    def message(self) -> Message:
        """The tool message that answers the call."""
        return tool_message(self.call, self.content, self.images)


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call with its tool and validated arguments; one that cannot be made (`problem`) tells so when invoked.

    `shorten` makes a long text for the model a shorter one; without it, the model reads all of it.
    """

    call: ToolCall
    run: Callable[[], Any]
    tool: JsonTool[..., Any] | None = None
    problem: ExceptionInfo | None = None
    is_answer: bool = False
    shorten: Callable[[str], str] = str
    repairs: tuple[Repair, ...] = ()

    @classmethod
    def impossible(
        cls,
        call: ToolCall,
        problem: ExceptionInfo,
        tool: JsonTool[..., Any] | None = None,
        repairs: tuple[Repair, ...] = (),
    ) -> "BoundCall":
        """The call that cannot be made; invoking it results in `problem`."""
        return cls(call, lambda: problem, tool, problem, repairs=repairs)

    def within(self, variable: ContextVar[T], value: T) -> "BoundCall":
        """The same call, run with a context variable set."""

        def run() -> Any:
            variable.set(value)  # each call of a run has a context of its own
            return self.run()

        return replace(self, run=run)

    def invoke(self) -> ToolResult:
        """Run the tool here, blocking; whatever it raises becomes the result."""
        start = time.perf_counter()
        try:
            return self._result(settled(self.run(), MOST_ITEMS), start)
        except Exception as error:
            return self._failure(error, start)

    async def ainvoke(self) -> ToolResult:
        """Run the tool: a coroutine function on this event loop, any other in a thread."""
        start = time.perf_counter()
        try:
            in_place = self.tool is None or self.tool.is_async
            value = self.run() if in_place else await in_thread(self._run_settled)
            return self._result(await asettled(value, MOST_ITEMS), start)
        except Exception as error:
            return self._failure(error, start)

    def _run_settled(self) -> Any:
        """Run the tool, in a worker thread; an iterator is consumed there too, a coroutine is left to the caller."""
        value = self.run()
        return collected(value, MOST_ITEMS) if is_lazy(value) else value

    def _result(self, value: Any, start: float) -> ToolResult:
        if isinstance(value, ExceptionInfo):
            return self._told(value, start)
        if self.is_answer:
            seconds = time.perf_counter() - start
            return ToolResult(self.call, value, ANSWERED, seconds, is_answer=True, repairs=self.repairs)
        shown = rendering(value)
        text = self.shorten(shown.text)
        seconds = time.perf_counter() - start
        return ToolResult(self.call, value, text, seconds, images=shown.images, repairs=self.repairs)

    def _failure(self, error: Exception, start: float) -> ToolResult:
        return self._told(ExceptionInfo.of(error), start, error)

    def _told(self, info: ExceptionInfo, start: float, error: Exception | None = None) -> ToolResult:
        text = valid_text(str(info))
        if len(text) > MAX_ERROR and not isinstance(error, ToolError):
            text = f"{text[:MAX_ERROR]}... ({len(text) - MAX_ERROR:,} more characters)"
        seconds = time.perf_counter() - start
        return ToolResult(self.call, info, self.shorten(text), seconds, exception=error, repairs=self.repairs)


@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    """A call begins."""

    call: BoundCall


@dataclass(frozen=True, slots=True)
class ToolFinished(Event):
    """A call has its result."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class CallTools:
    """The effect that runs the calls of one turn, side by side; its outcome is their results, in call order.

    `finished` is filled while they run (call id -> result), so that an interrupted turn keeps what was done.  What a
    tool with `on_error="raise"` raised is raised when all calls are done.
    """

    calls: tuple[BoundCall, ...]
    finished: dict[str, ToolResult] = field(default_factory=dict)

    def perform(self) -> Generator[Event, None, list[ToolResult]]:
        queue: SimpleQueue[Event | BaseException] = SimpleQueue()
        for bound in self.calls:
            yield ToolStarted(bound)
            start_thread(partial(_report, bound, queue))
        for _ in self.calls:
            yield self._note(queue.get())
        return self._results()

    async def aperform(self) -> AsyncGenerator[Event | Done[list[ToolResult]], None]:
        tasks = []
        try:
            for bound in self.calls:
                yield ToolStarted(bound)
                tasks.append(asyncio.create_task(bound.ainvoke()))
            for task in asyncio.as_completed(tasks):
                yield self._note(ToolFinished(await task))
        finally:
            for task in tasks:
                task.cancel()
        yield Done(self._results())

    def _note(self, outcome: Event | BaseException) -> Event:
        if isinstance(outcome, BaseException):  # an interrupt or an exit that a tool raised: it is the caller's
            raise outcome
        if isinstance(outcome, ToolFinished):
            self.finished[outcome.result.call.id] = outcome.result
        return outcome

    def _results(self) -> list[ToolResult]:
        results = [self.finished[bound.call.id] for bound in self.calls]
        for bound, result in zip(self.calls, results, strict=True):
            is_for_caller = bound.tool is not None and bound.tool.on_error == "raise"
            if is_for_caller and result.exception is not None and not isinstance(result.exception, ToolError):
                raise result.exception
        return results


def _report(bound: BoundCall, queue: "SimpleQueue[Event | BaseException]") -> None:
    try:
        queue.put(ToolFinished(bound.invoke()))
    except BaseException as error:
        queue.put(error)
