"""One call of a tool: bound to its tool and arguments, run, and its result."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from ...core.background import MAX_ITEMS, aresolve, resolve, run_in_thread
from ...core.context import RunContext
from ...core.errors import ExceptionInfo, ToolError
from ...core.flow import WarningEvent
from ...core.masking import mask
from ...core.messages import Message, ToolCall, tool_message
from ...core.portable import to_valid_text
from ...core.threads import is_cancelled
from ..arguments.repair import Repair
from ..json_tool import JsonTool
from ..results.result_text import Part, render_result

T = TypeVar("T")

MAX_ERROR_CHARS = 2_000
"""Characters of an exception's text that the model reads; what a `ToolError` says is meant for it, however long."""
FIRST_RETRY_SECONDS = 0.1
"""Seconds before a call that failed is made again; each pause is twice the one before."""
MAX_RETRY_SECONDS = 5.0
ANSWER_RESULT = "The answer was given."
"""What the answer's own call is answered with: the answer stands in its arguments already."""
_EFFECT_UNKNOWN = "it is not known whether it had an effect. Find that out before it is called again."
_EFFECT_OF_LATE_CALL: dict[str | None, str] = {
    "read": "it only reads, so nothing has changed.",
    "idempotent": "it is not known whether it had an effect. It may be called again.",
}


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
    exception: BaseException | None = field(default=None, repr=False, compare=False)
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

    `shorten` makes a long text for the model a shorter one; without it, the model reads all of it.  `timeout` is how
    many seconds a turn waits for it (None: for ever), and `context` the run that makes it.  `needs_approval` says why a
    person must decide about the call first; "" if nobody need.
    """

    call: ToolCall
    run: Callable[[], Any]
    tool: JsonTool[..., Any] | None = None
    problem: ExceptionInfo | None = None
    is_answer: bool = False
    shorten: Callable[[str], str] = str
    repairs: tuple[Repair, ...] = ()
    timeout: float | None = None
    context: RunContext[Any] | None = field(default=None, repr=False, compare=False)
    needs_approval: str = ""
    raw: str = ""
    """What the model wrote where the call has `{}`, since it is no JSON object."""

    @property
    def as_written(self) -> ToolCall:
        """The call with the arguments that the model wrote, for whoever watches."""
        return replace(self.call, arguments=self.raw) if self.raw else self.call

    @classmethod
    def impossible(
        cls,
        call: ToolCall,
        problem: ExceptionInfo,
        tool: JsonTool[..., Any] | None = None,
        repairs: tuple[Repair, ...] = (),
        raw: str = "",
    ) -> "BoundCall":
        """The call that cannot be made; invoking it results in `problem`."""
        return cls(call, lambda: problem, tool, problem, repairs=repairs, raw=raw)

    def refuse(self, text: str) -> "BoundCall":
        """The same call, not made; the model is told `text`."""
        problem = ExceptionInfo(ToolError.__name__, text)
        return BoundCall.impossible(self.call, problem, self.tool, self.repairs, self.raw)

    def with_variable(self, variable: ContextVar[T], value: T) -> "BoundCall":
        """The same call, run with a context variable set."""

        def run() -> Any:
            variable.set(value)  # each call of a run has a context of its own
            return self.run()

        return replace(self, run=run)

    def invoke(self, loop: asyncio.AbstractEventLoop | None = None) -> ToolResult:
        """Run the tool here, blocking; what it raises becomes the result, but for an interrupt and an exit.

        A coroutine that a plain function returns is awaited on `loop`, if given (the running one of another thread).
        """
        start, failures = time.perf_counter(), 0
        while True:
            try:
                return self._result(resolve(self.run(), MAX_ITEMS, loop), start)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                failures += 1
                if not self._is_retried(failures, error):
                    return self.fail(_describe_error(error), start, error)
            time.sleep(_choose_pause(failures))

    async def ainvoke(self) -> ToolResult:
        """Run the tool: a coroutine function on this event loop, any other in a thread."""
        if self.tool is not None and not self.tool.is_async:
            return await run_in_thread(partial(self.invoke, asyncio.get_running_loop()))
        start, failures = time.perf_counter(), 0
        while True:
            try:
                return self._result(await aresolve(self.run(), MAX_ITEMS), start)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                    raise
                failures += 1
                if not self._is_retried(failures, error):
                    return self.fail(_describe_error(error), start, error)
            await asyncio.sleep(_choose_pause(failures))

    def fail(self, info: ExceptionInfo, start: float | None = None, error: BaseException | None = None) -> ToolResult:
        """The result of a call that came to nothing, for the reason that the model is to read."""
        text = to_valid_text(str(info))
        if len(text) > MAX_ERROR_CHARS and not isinstance(error, ToolError):
            text = f"{text[:MAX_ERROR_CHARS]}... ({len(text) - MAX_ERROR_CHARS:,} more characters)"
        seconds = 0.0 if start is None else time.perf_counter() - start
        return ToolResult(self.call, info, self.shorten(text), seconds, exception=error, repairs=self.repairs)

    def describe_timeout(self, *, has_begun: bool) -> ExceptionInfo:
        """What the model reads when the call has taken longer than `timeout`, or could not begin within it."""
        effect, isolate = (self.tool.effect, self.tool.isolate) if self.tool is not None else (None, None)
        if has_begun:
            ended = "stopped" if isolate else "abandoned"
            after = f"{self.timeout:g} second{'' if self.timeout == 1 else 's'}"
            text = f"did not finish within {after} and was {ended}; {_EFFECT_OF_LATE_CALL.get(effect, _EFFECT_UNKNOWN)}"
        else:
            text = "was not run, so it had no effect: an earlier call, beside which it may not run, has not ended."
        return ExceptionInfo("TimedOut", f"{self.call.name} {text}")

    def _result(self, value: Any, start: float) -> ToolResult:
        if isinstance(value, ExceptionInfo):
            return self.fail(value, start)
        if self.is_answer:
            seconds = time.perf_counter() - start
            return ToolResult(self.call, value, ANSWER_RESULT, seconds, is_answer=True, repairs=self.repairs)
        shown = render_result(value)
        text = self.shorten(shown.text)
        seconds = time.perf_counter() - start
        return ToolResult(self.call, value, text, seconds, images=shown.images, repairs=self.repairs)

    def _is_retried(self, failures: int, error: BaseException) -> bool:
        """Whether the call is made again after so many failures; if so, whoever watches the run is told."""
        retries = self.tool.retries if self.tool is not None else 0
        if failures > retries or isinstance(error, ToolError | GeneratorExit) or is_cancelled():
            return False
        if self.context is not None:
            self.context.emit(ToolRetried(self.call, _describe_error(error), failures))
        return True


@dataclass(frozen=True, slots=True)
class ToolRetried(WarningEvent):
    """A call failed so many times by now, and is made again."""

    call: ToolCall
    error: ExceptionInfo
    failures: int

    @property
    def notice(self) -> str:
        return f"{self.call.name}: {self.error}; calling it again"


def _describe_error(error: BaseException) -> ExceptionInfo:
    """What the model reads of an exception, without secrets; of a group, what it reads of each in it."""
    info = ExceptionInfo.of(error)
    info = replace(info, message=mask(info.message))
    if isinstance(error, BaseExceptionGroup):
        return replace(
            info, message=f"{info.message}: {'; '.join(str(_describe_error(one)) for one in error.exceptions)}"
        )
    return info


def _choose_pause(failures: int) -> float:
    """Seconds before a call is made again, spread by chance."""
    longest: float = min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** (failures - 1))
    return longest * random.uniform(0.5, 1.0)


def _is_cancelled() -> bool:
    """Whether it is the running task that was cancelled, and not something that it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
