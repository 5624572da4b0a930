"""One tool call: bound to its tool and arguments, executed, repeated after a failure, and its result.

An error of the tool is a result too, in the words that the model reads.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from ...core.background import MAX_ITEMS, aresolve, resolve, run_in_thread
from ...core.context import AgentPath, Make, ParentCall, RunContext, enclosed, enclosing
from ...core.errors import ExceptionInfo, Paused, ToolError, explain_attributes
from ...core.flow import WarningEvent
from ...core.masking import mask
from ...core.messages import DEVELOPER, TRUSTED, CallOrigin, Label, Message, ToolCall, tool_message
from ...core.parts import Part
from ...core.pending import CallQuestions, InputRequired, UntrustedValue
from ...core.portable import to_valid_text
from ...core.threads import is_cancelled, raise_outside_error
from ...core.values import copy_with, frozen
from ..arguments.fixes import Repair
from ..final_answer import check_text_answer
from ..json_tool import JsonTool
from ..questions import check_question
from ..results.result_text import RenderedResult, StoredResult, find_values, render_result

_OTHER_THREAD = "can only be used in that same thread"
"""Part of the error of a `sqlite3` connection that another thread opened."""
_THREAD_REMEDY = (
    "agentkit runs tools in threads: open the connection with sqlite3.connect(..., check_same_thread=False) and "
    "declare the tool with @tool(sequential=True), or open the connection in the tool."
)


class CallRefused(ToolError):
    """Raised in the place of a tool that does not run, or whose value is not accepted; the model reads `info`."""

    def __init__(self, info: ExceptionInfo) -> None:
        super().__init__(info.message)
        self.info = replace(info, is_own=True)


def describe_tool_error(error: BaseException) -> ExceptionInfo:
    """Return the error for the model, with secrets masked; of an exception group, each of its members."""
    if isinstance(error, CallRefused):
        return replace(error.info, message=mask(error.info.message))
    info = ExceptionInfo.of(error)
    info = replace(info, message=mask(info.message))
    if _OTHER_THREAD in info.message:
        return replace(info, message=f"{info.message} {_THREAD_REMEDY}")
    if isinstance(error, BaseExceptionGroup):
        return replace(
            info, message=f"{info.message}: {'; '.join(str(describe_tool_error(one)) for one in error.exceptions)}"
        )
    return info


FIRST_RETRY_SECONDS = 0.1
"""Pause before the first retry of a failed call; each further pause is twice as long."""
MAX_TOOL_WAIT_SECONDS = 5.0


@frozen
class ToolRetried(WarningEvent):
    """A call failed and runs again; `failures` counts its failures."""

    call: ToolCall
    error: ExceptionInfo
    failures: int

    @property
    def notice(self) -> str:
        return f"{self.call.name}: {self.error}; retrying"


def choose_pause(first: float, failures: int) -> float:
    """Return the seconds before a retry, with random jitter."""
    longest: float = min(MAX_TOOL_WAIT_SECONDS, first * 2 ** (failures - 1))
    return longest * random.uniform(0.5, 1.0)


MAX_ERROR_CHARS = 2_000
"""Characters of an exception's text that the model reads.  A `ToolError` is meant for it and is never truncated."""
UNKNOWN_OUTCOME = ExceptionInfo(
    "OutcomeUnknown",
    "the run was stopped while this call was under way, so it is not known whether it had an effect. Find that out "
    "before it is called again.",
    is_own=True,
)
NOT_RUN = "Not run (dry run)"
"""The result of a call that a dry run does not make; the same object in each."""
ANSWER_RESULT = "The answer was given."
"""The result of the answer's own call, whose arguments already hold the answer."""


_OTHER_NAMES = {
    **dict.fromkeys(("name", "tool", "tool_name"), "Use .call.name"),
    **dict.fromkeys(("arguments", "args", "input", "parameters"), "Use .call.arguments"),
    **dict.fromkeys(("id", "call_id", "tool_call_id"), "Use .call.id"),
    **dict.fromkeys(("result", "output", "return_value"), "Use .value, or .content for the text that the model reads"),
    "text": "Use .content",
}
"""What to use for attributes that calls or results of tools have elsewhere."""


@explain_attributes(_OTHER_NAMES)
@frozen
class ToolResult:
    """The result of one tool call.

    Attributes:
        call: The call.
        value: The returned value, or an `ExceptionInfo`.
        content: The text that the model reads.
        seconds: The duration.
        is_answer: Whether the value is the answer of the run.
        exception: The exception of the tool, with its traceback, for logs.
        repairs: What was repaired in the call before it ran.
        rendered: The whole text of the value and its images; `content` may be truncated.
        label: The label of the content; without one it counts as untrusted.
        notes: What policies say about the result; `content` has these texts, too.
        stopped: Why the run ends with the answer, as in `Result.stopped`.
    """

    call: ToolCall
    value: Any
    content: str
    seconds: float = 0.0
    is_answer: bool = False
    exception: BaseException | None = field(default=None, repr=False, compare=False)
    repairs: tuple[Repair, ...] = ()
    rendered: RenderedResult | None = field(default=None, repr=False, compare=False)
    label: Label | None = field(default=None, repr=False, compare=False)
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)
    stopped: str = field(default="answer", repr=False, compare=False)

    @property
    def images(self) -> Sequence[Part]:
        """Content parts of the images in the value, which the model sees after the text."""
        return () if self.rendered is None else self.rendered.images

    @property
    def error(self) -> ExceptionInfo | None:
        """The error, if the call failed."""
        return self.value if isinstance(self.value, ExceptionInfo) else None

    @property
    def is_open(self) -> bool:
        """Whether the call has no result yet, because it waits for a decision inside it or for an answer."""
        return self.exception is not None and isinstance(self.exception, Paused | InputRequired)

    @property
    def message(self) -> Message:
        """The tool message that answers the call."""
        is_refusal = self.error is not None and self.error.is_refusal
        return tool_message(self.call, self.content, self.images, label=self.label, is_refusal=is_refusal)


@frozen(slots=False)  # for `copy_with`
class BoundCall:
    """A call with its tool and validated arguments.

    Attributes:
        call: The call as the history holds it.
        run: Calls the function.
        tool: The tool; None for an unknown name.
        problem: The error that the call results in, if it cannot run.
        is_answer: Whether the value is the answer of the run.
        shorten: Truncates long text for the model; default: no limit.
        repairs: What was repaired in the call.
        timeout: Seconds that a turn waits for the call; None: no limit.
        context: The run that makes the call.
        needs_approval: Why a person must decide about the call first; "" if no decision is needed.
        raw: The text that the model wrote, where the call has `{}` because that text is not a JSON object.
        untrusted: The values of the call that need a decision, with their origins.
        origin: The origin of the arguments and of what the tool reads, which gives the label of the result.
        begun: Gets the id of the call when it begins to run; copies of the call share it.
        began_before: Whether the call began in an earlier run, so that it may have had an effect already.
        is_stored: Whether `run` returns a result that is there already: the tool is not run, and no person is asked.
        first_pause: Seconds before the first retry of a failed call; each further pause is twice as long.
        inside: Make the values that enclose each run of the call, see `core.context`.
        resolved: The call with the values of its references, which a decision is about; None if it has none.
        rebind: Binds the call to other arguments, which may have references; default: they have none.
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
    untrusted: tuple[UntrustedValue, ...] = ()
    begun: set[str] = field(default_factory=set, repr=False, compare=False)
    began_before: bool = False
    is_stored: bool = False
    first_pause: float = FIRST_RETRY_SECONDS
    origin: CallOrigin = field(default_factory=CallOrigin, repr=False, compare=False)
    inside: tuple[Make, ...] = field(default=(), repr=False, compare=False)
    resolved: ToolCall | None = field(default=None, repr=False, compare=False)
    rebind: "Callable[[BoundCall, Mapping[str, Any]], BoundCall] | None" = field(
        default=None, repr=False, compare=False
    )

    @property
    def to_decide(self) -> ToolCall:
        """The call as those who decide about it see it."""
        return self.resolved or self.call

    @property
    def is_own_check(self) -> bool:
        """Whether the call only checks the text of an answer, which needs no thread: `run` has no policy around it."""
        return isinstance(self.run, partial) and self.run.func is check_text_answer

    @property
    def as_written(self) -> ToolCall:
        """The call with the arguments that the model wrote, for display."""
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
        """Return a call that cannot run; invoking it results in `problem`."""
        problem = replace(problem, is_own=True)
        return cls(call, lambda: problem, tool, problem, repairs=repairs, raw=raw)

    def refuse(self, text: str) -> "BoundCall":
        """Return the same call as one that does not run; the model reads `text`."""
        problem = ExceptionInfo(ToolError.__name__, text)
        refused = BoundCall.impossible(self.call, problem, self.tool, self.repairs, self.raw)
        return replace(refused, origin=self.origin, began_before=self.began_before)

    def with_arguments(self, arguments: Mapping[str, Any]) -> "BoundCall":
        """Return the same call with other arguments; its `problem` says what is wrong with them."""
        if self.rebind is not None:
            return self.rebind(self, arguments)
        assert self.tool is not None  # the call of an unknown tool has a problem
        again = self.tool.bind(arguments, self.context)
        if isinstance(again.ready, ExceptionInfo):
            return self.change(problem=again.ready)
        return self.change(call=replace(self.call, arguments=again.arguments), run=again.ready)

    def hold(self, reason: str, untrusted: Iterable[UntrustedValue] = ()) -> "BoundCall":
        """Return the same call as one that needs a decision for one reason more."""
        reasons = "; ".join(filter(None, [self.needs_approval, reason]))
        return self.change(needs_approval=reasons, untrusted=(*self.untrusted, *untrusted))

    def within(self, *makers: Make) -> "BoundCall":
        """Return the same call, each run of which the values of `makers` enclose."""
        return copy_with(self, {"inside": (*makers, *self.inside)})

    def change(self, **changes: Any) -> "BoundCall":
        """Return a copy with these fields changed; policies copy each call often."""
        return copy_with(self, changes)

    def mark_begun(self) -> None:
        """Add the id of the call to `begun`: from here on, the call may have had an effect."""
        self.begun.add(self.call.id)

    def invoke(self, loop: asyncio.AbstractEventLoop | None = None, *, on_caller: bool = False) -> ToolResult:
        """Run the tool in this thread, blocking, and return its result.

        An exception of the tool becomes the result, an exit (`SystemExit`) too; an interrupt is raised, as is what a
        handler of a signal raises.

        Args:
            loop: A running loop of another thread, on which a coroutine that a plain function returns is awaited.
            on_caller: Whether this is the thread of the caller, in which a framework may raise an exception of its own.
        """
        self.mark_begun()
        start = time.perf_counter()
        failures = 0
        while True:
            with enclosed(self._makers()):
                try:
                    return self._result(resolve(self.run(), MAX_ITEMS, loop), start)
                except InputRequired as asking:
                    return self._pause(asking, start)
                except BaseException as error:
                    if isinstance(error, KeyboardInterrupt) or (on_caller and _is_of_host(error)):
                        raise
                    raise_outside_error(error)
                    failures += 1
                    if not self._is_retried(failures, error):
                        return self.fail(describe_tool_error(error), start, error)
            time.sleep(choose_pause(self.first_pause, failures))

    async def ainvoke(self) -> ToolResult:
        """Run the tool: a coroutine function on this event loop, any other function in a thread."""
        if self.tool is not None and not self.tool.is_async:
            return await run_in_thread(partial(self.invoke, asyncio.get_running_loop()))
        self.mark_begun()
        start = time.perf_counter()
        failures = 0
        while True:
            with enclosed(self._makers()):
                try:
                    return self._result(await aresolve(self.run(), MAX_ITEMS), start)
                except KeyboardInterrupt:
                    raise
                except InputRequired as asking:
                    return self._pause(asking, start)
                except BaseException as error:
                    if isinstance(error, asyncio.CancelledError) and _is_task_cancelled():
                        raise
                    raise_outside_error(error)
                    failures += 1
                    if not self._is_retried(failures, error):
                        return self.fail(describe_tool_error(error), start, error)
            await asyncio.sleep(choose_pause(self.first_pause, failures))

    def _makers(self) -> Sequence[Make]:
        """Return what makes the values that enclose one run of the function: the call itself, and those of policies."""
        if self.context is None or self.is_answer:
            return self.inside
        outer = enclosing(AgentPath)
        path = partial(AgentPath, (*(outer.names if outer else ()), self.call.name))
        return (path, partial(ParentCall, self.call, self.context), *self.inside)

    def fail(self, info: ExceptionInfo, start: float | None = None, error: BaseException | None = None) -> ToolResult:
        """Return the result of a failed call, with the error for the model."""
        text = to_valid_text(str(info))
        if len(text) > MAX_ERROR_CHARS and not isinstance(error, ToolError):
            text = f"{text[:MAX_ERROR_CHARS]}... ({len(text) - MAX_ERROR_CHARS:,} more characters)"
        seconds = 0.0 if start is None else time.perf_counter() - start
        shown = self.shorten(text)
        label = self.origin.label
        return ToolResult(self.call, info, shown, seconds, exception=error, repairs=self.repairs, label=label)

    def _pause(self, asking: InputRequired, start: float) -> ToolResult:
        """Return the result of a call that ended for questions, and register these."""
        for question in asking.questions:
            if problem := check_question(question):
                return self.fail(ExceptionInfo("InvalidQuestion", problem), start)
        if (questions := enclosing(CallQuestions)) is not None:
            questions.register(asking)
        content = f"This call needs an answer to a question, and no person was asked: {asking}"
        return ToolResult(self.call, None, content, time.perf_counter() - start, exception=asking)

    def _result(self, value: Any, start: float) -> ToolResult:
        if isinstance(value, ExceptionInfo):
            return self.fail(replace(value, is_own=False), start)
        shown = None if self.is_answer else render_result(value)
        value = value.value if isinstance(value, StoredResult) else value
        text = ANSWER_RESULT if shown is None else self.shorten(shown.text)
        return ToolResult(
            self.call,
            value,
            text,
            time.perf_counter() - start,
            self.is_answer,
            repairs=self.repairs,
            rendered=shown,
            label=self._label(value),
        )

    def _label(self, value: Any) -> Label:
        """Return the label of a result, with the values of its trusted fields."""
        if self.is_answer:  # its text is fixed; what it reads is the value's
            return DEVELOPER if self.origin.own is TRUSTED else self.origin.own
        label = self.origin.label
        trust = self.tool.trust if self.tool is not None else None
        return label if trust is None or isinstance(trust, str) else replace(label, vouched=find_values(value, trust))

    def _is_retried(self, failures: int, error: BaseException) -> bool:
        """Return whether the call runs again after `failures` failures, and emit an event if so."""
        retries = self.tool.retries if self.tool is not None else 0
        if failures > retries or isinstance(error, ToolError | GeneratorExit) or is_cancelled():
            return False
        if self.context is not None:
            self.context.emit(ToolRetried(self.call, describe_tool_error(error), failures))
        return True


def _is_of_host(error: BaseException) -> bool:
    """Return whether an exception is one that no tool raises on its own, but a framework in the thread that it runs.

    Such are the `Timeout` of gevent, the time limit of Dramatiq, and the request of Streamlit to run the script again.
    """
    return not isinstance(error, Exception | SystemExit | GeneratorExit | asyncio.CancelledError)


def _is_task_cancelled() -> bool:
    """Return whether the running task was cancelled, and not something that it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
