"""The state of a run: what its events add up to, its result, and the runs inside its tools that are still open.

Each run of an agent inside a tool ends exactly once for the listeners, also when its tool is cancelled.
"""

import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..core.errors import LimitExceeded, Paused, RunError, RunStopped
from ..core.flow import Event, Listener
from ..core.messages import Message, Usage, text_of
from ..core.threads import Cancellation
from ..engine.loop import Answer
from ..engine.model import ModelAsked, ModelReplied, PartialAnswerReader, TextDelta, ToolCallDelta
from ..engine.result import HandedOver, Result, RunEnded, RunFinished, RunOutcome, RunStarted, SubRun, Trace
from ..policies.answer_checks import AnswerDoubted
from ..policies.limits import LIMIT_NAMES, Budget, Spent
from ..tools.execution.call import ToolResult
from ..tools.execution.turn import ToolFinished
from ..tools.toolset import Toolset

CallPath = tuple[str, ...]
"""The ids of the enclosing calls, the outermost first."""


@dataclass(slots=True)
class _OpenRun:
    started: SubRun
    """The event with the `RunStarted` of the run."""
    run_id: str
    since: float
    usage: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class InnerRunEnds:
    """The runs inside tools that have started and not ended.

    A cancelled tool is no longer waited for, so the end of a run inside it may arrive late or not at all.  Its end is
    reported when the call or the enclosing run ends, and what arrives afterwards is dropped.
    """

    unfinished: dict[CallPath, _OpenRun] = field(default_factory=dict)
    _ended: set[CallPath] = field(default_factory=set)

    def take(self, event: Event) -> Iterable[Event]:
        """Return the ends of the runs that `event` implies, then `event` itself unless it arrived late."""
        if isinstance(event, SubRun):
            return self._take_inner(event)
        if self.unfinished and isinstance(event, ToolFinished):
            return (*self.end_below((event.result.call.id,)), event)
        return (event,)

    def _take_inner(self, event: SubRun) -> Iterator[Event]:
        path, inner = _unwrap(event)
        if isinstance(inner, RunStarted):
            self.unfinished[path] = _OpenRun(event, inner.run_id, time.perf_counter())
            self._ended.discard(path)
        elif path in self._ended:
            return
        elif isinstance(inner, RunEnded):
            self._ended.add(path)
            self.unfinished.pop(path, None)
            yield from self.end_below(path)
        for length in range(1, len(path) + 1):
            if run := self.unfinished.get(path[:length]):
                run.usage += event.usage
        yield event

    def end_below(self, path: CallPath = ()) -> Iterator[Event]:
        """Yield the ends of the open runs inside the call at `path`, the innermost first."""
        start = "".join(f"{identity}/" for identity in path)  # "outer/" also begins the ids of calls in the outer one
        inside = [other for other in self.unfinished if "".join(f"{identity}/" for identity in other).startswith(start)]
        for other in sorted(inside, key=len, reverse=True):
            run = self.unfinished.pop(other)
            self._ended.add(other)
            seconds = time.perf_counter() - run.since
            yield _wrap(run.started, RunEnded("cancelled", None, run.usage, seconds, run.run_id))


def _unwrap(event: SubRun) -> tuple[CallPath, Event]:
    path: CallPath = ()
    inner: Event = event
    while isinstance(inner, SubRun):
        path = (*path, inner.call.id if inner.call else "")
        inner = inner.event
    return path, inner


def _wrap(like: SubRun, event: Event) -> SubRun:
    """Return `event` at the place of the event in `like`."""
    inner = _wrap(like.event, event) if isinstance(like.event, SubRun) else event
    return replace(like, event=inner)


@dataclass
class Run:
    """A run in progress: observe every event, add up usage, calls and notes, and pass the event to the listeners.

    `budgets` are those of the agents that have had the run, the last one first.  `spent` is what the run had used
    before it was resumed.  `partial_answer` reads the answer from the pieces of a streamed reply.
    """

    model: str
    history: list[Message]
    listeners: Sequence[Listener] = ()
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    calls: list[ToolResult] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    handed: list[str] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    budgets: list[Budget] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    partial_answer: PartialAnswerReader | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)
    trace: Trace = field(default_factory=Trace)
    run_id: str = field(default_factory=partial(secrets.token_hex, 6))
    inner: InnerRunEnds = field(default_factory=InnerRunEnds)
    toolsets: list[Toolset] = field(default_factory=list)
    """The toolsets that the run has opened."""
    is_started: bool = False
    is_finished: bool = False
    pieces: list[str] = field(default_factory=list)
    """The streamed text of the current reply."""

    def continue_from(self, run_id: str, spent: Spent) -> None:
        """Continue a run that was stopped, with what it had used."""
        self.run_id = run_id
        self.spent = spent
        self.usage = spent.usage
        self.steps = spent.steps

    def watch(self, event: Event) -> Iterable[Event]:
        """Observe `event` and return it, after the inner runs that it ends and before the parts of the answer in it."""
        if not event.is_piece:
            if self.partial_answer is not None or self.inner.unfinished or isinstance(event, SubRun):
                return self._watch_step(event)
            return (self.observe(event),)
        self.observe(event)
        if self.partial_answer is None or not isinstance(event, ToolCallDelta):
            return (event,)
        return (event, *map(self.observe, self.partial_answer.read(event)))

    def _watch_step(self, event: Event) -> Iterator[Event]:
        events = self.inner.take(event) if isinstance(event, SubRun | ToolFinished) else (event,)
        yield from map(self.observe, events)
        if self.partial_answer is not None:
            yield from map(self.observe, self.partial_answer.read(event))

    def observe(self, event: Event) -> Event:
        """Record `event`, pass it to the listeners and return it."""
        if event.is_piece:
            if isinstance(event, TextDelta):
                self.pieces.append(event.text)
            for listener in self.listeners:
                listener(event)
            return event
        match event:
            case ModelAsked():
                self.pieces.clear()
            case ModelReplied():
                self.usage += event.reply.usage
                self.steps += 1
            case ToolFinished() if not event.result.is_open:
                self.calls.append(event.result)
            case SubRun():
                self.usage += event.usage
                self._trace_inner(event)
            case AnswerDoubted():
                self.doubts.append(event.reason)
            case HandedOver():
                self.handed.append(event.name)
            case RunStarted():
                self.is_started = True
        if not isinstance(event, SubRun):
            self.trace.note(event, len(self.history))
        for listener in self.listeners:
            listener(event)
        return event

    @property
    def partial(self) -> str:
        """The text of the current reply as far as it is streamed, else the last text of the model."""
        texts = (text_of(message) for message in reversed(self.history) if message["role"] == "assistant")
        return "".join(self.pieces) or next(filter(None, texts), "")

    def finish(self, answer: Answer) -> Result[Any]:
        """Return the result of the run that ended with `answer`."""
        self.is_finished = True
        return self._result(answer.value, answer.stopped)

    def fail(self, error: RunError) -> None:
        """Add what the run has come to so far to the error that ends it."""
        self.trace.close(error)
        error.history = list(self.history)
        error.usage = self.usage
        error.partial = error.partial or self.partial
        reason = getattr(error, "reason", "error")
        stopped = "paused" if isinstance(error, Paused) else reason
        error.result = self._result(None, stopped, f"{type(error).__name__}: {error}")

    @contextmanager
    def reporting_end(self) -> Iterator[None]:
        """Report the end of the run to its listeners, whatever ends it."""
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise
        self.end(None)

    def end(self, error: BaseException | None) -> None:
        """Report the end of the run to all listeners, even if one of them fails."""
        if not self.is_started:
            return
        for event in self.inner.end_below():
            self.observe(event)
        known = error if isinstance(error, Exception) else None
        outcome = "answer" if self.is_finished and known is None else _outcome_of(error)
        ended = RunEnded(outcome, known, self.usage, time.perf_counter() - self.trace.began, self.run_id)
        with ExitStack() as stack:
            for listener in reversed(self.listeners):
                stack.callback(listener, ended)

    def _result(self, answer: Any, stopped: str, error: str = "") -> Result[Any]:
        if self.budgets:
            limits = self.budgets[0].limits.given
            self.trace.limits = {name: limits[name] for name in LIMIT_NAMES if limits[name] is not None}
        return Result(
            answer,
            list(self.history),
            self.usage,
            self.steps,
            stopped,
            self.model,
            self.calls,
            time.perf_counter() - self.trace.began,
            tuple(self.doubts),
            tuple(self.handed),
            self.trace,
            error,
            self.run_id,
        )

    def _trace_inner(self, event: Event) -> None:
        trace = self.trace
        while isinstance(event, SubRun):
            outer = trace.within(event.parent) if event.parent else trace
            call = event.call
            identity = call.id if call else ""
            trace = outer.within(identity)
            if call and event.parent and isinstance(event.event, RunStarted):
                outer.begin_inner(call)
            elif event.parent and isinstance(event.event, RunEnded):
                outer.end_inner(identity, event.event.error)
            event = event.event
            if isinstance(event, RunFinished):  # the inner run has recorded its events and their places
                outer.inner[identity] = event.result.trace
                event.result.trace.messages = event.result.messages
                return
        if isinstance(event, RunEnded):
            trace.close(event.error or event.outcome)
        else:
            trace.note(event, 0)


def _outcome_of(error: BaseException | None) -> RunOutcome:
    kinds: dict[type[BaseException], RunOutcome] = {
        Paused: "paused",
        RunStopped: "stopped",
        LimitExceeded: "limit",
        Exception: "error",
    }
    return next((outcome for kind, outcome in kinds.items() if isinstance(error, kind)), "cancelled")
