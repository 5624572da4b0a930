"""Running tools: a bound call, its result, and the effect that runs the calls of one turn side by side."""

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

from .errors import ExceptionInfo
from .flow import Done, Event
from .json_tool import JsonTool
from .messages import Message, ToolCall, tool_message
from .results import render
from .workers import asettled, in_thread, settled, start_thread

ANSWERED = "The answer was given."
"""What the answer's own call is answered with: the answer stands in its arguments already."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of one call: the value, or an `ExceptionInfo`; `content` is the text that the model reads."""

    call: ToolCall
    value: Any
    content: str
    seconds: float = 0.0
    is_answer: bool = False
    exception: Exception | None = field(default=None, repr=False, compare=False)
    """What the tool raised, with its traceback; for logs."""

    @property
    def error(self) -> ExceptionInfo | None:
        """What went wrong, if something did."""
        return self.value if isinstance(self.value, ExceptionInfo) else None

    @property
    def message(self) -> Message:
        """The tool message that answers the call."""
        return tool_message(self.call, self.content)


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call with its tool and validated arguments; one that cannot be made (`problem`) tells so when invoked."""

    call: ToolCall
    run: Callable[[], Any]
    tool: JsonTool[..., Any] | None = None
    problem: ExceptionInfo | None = None
    is_answer: bool = False

    @classmethod
    def impossible(cls, call: ToolCall, problem: ExceptionInfo, tool: JsonTool[..., Any] | None = None) -> "BoundCall":
        """The call that cannot be made; invoking it results in `problem`."""
        return cls(call, lambda: problem, tool, problem)

    def invoke(self) -> ToolResult:
        """Run the tool here, blocking; whatever it raises becomes the result."""
        start = time.perf_counter()
        try:
            return self._result(settled(self.run()), start)
        except Exception as error:
            return self._failure(error, start)

    async def ainvoke(self) -> ToolResult:
        """Run the tool: a coroutine function on this event loop, any other in a thread."""
        start = time.perf_counter()
        try:
            in_place = self.tool is None or self.tool.is_async
            value = self.run() if in_place else await in_thread(self._run_settled)
            return self._result(await asettled(value), start)
        except Exception as error:
            return self._failure(error, start)

    def _run_settled(self) -> Any:
        """Run the tool, in a worker thread; a generator is consumed there too, a coroutine is left to the caller."""
        value = self.run()
        return list(value) if inspect.isgenerator(value) else value

    def _result(self, value: Any, start: float) -> ToolResult:
        is_answer = self.is_answer and not isinstance(value, ExceptionInfo)
        content = ANSWERED if is_answer else str(value) if isinstance(value, ExceptionInfo) else render(value)
        return ToolResult(self.call, value, content, time.perf_counter() - start, is_answer)

    def _failure(self, error: Exception, start: float) -> ToolResult:
        info = ExceptionInfo.of(error)
        return ToolResult(self.call, info, str(info), time.perf_counter() - start, exception=error)


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

    `finished` is filled while they run (call id -> result), so that an interrupted turn keeps what was done.
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
        return [self.finished[bound.call.id] for bound in self.calls]


def _report(bound: BoundCall, queue: "SimpleQueue[Event | BaseException]") -> None:
    try:
        queue.put(ToolFinished(bound.invoke()))
    except BaseException as error:
        queue.put(error)
