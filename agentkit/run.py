"""One run: what it is asked, what it comes to, and the figures it gathers while its events pass by."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from .calls import ToolResult
from .flow import Event, Listener
from .forming import Forming
from .loop import Answer
from .messages import Message, ToolCall, Usage
from .model import ModelReplied
from .policies.checks import AnswerDoubted
from .policies.landing import Landing
from .repairs import Repair
from .results import render
from .running import ToolFinished

T = TypeVar("T", default=str)


@dataclass(frozen=True)
class Result(Generic[T]):
    """What a run came to.

    `answer` is the answer, in the type the agent was given; `messages` the conversation up to it; `usage` the requests,
    tokens and dollars of this run; `steps` how many replies the model gave; `stopped` why the run ended ("answer",
    "text": a plain text was taken for the answer, "max_steps": the answer was asked for at the limit); `calls` the
    results of all tool calls, in the order they came in; `seconds` how long the run took; `doubts` what checks still
    had against the answer when it was taken; `handed` the names under which the conversation was handed on, the last
    one that of the agent that answered.  What agents inside tools took is in `usage`; their steps and calls are theirs.
    """

    answer: T
    messages: list[Message] = field(repr=False)
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    stopped: str = "answer"
    model: str = ""
    calls: list[ToolResult] = field(default_factory=list, repr=False)
    seconds: float = 0.0
    doubts: tuple[str, ...] = ()
    handed: tuple[str, ...] = ()

    @property
    def cost(self) -> float | None:
        """Dollars that the run took; None where a price is not known."""
        return self.usage.cost

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What was put right in the calls of the run, in the order they came in; each call has its own."""
        return tuple(repair for result in self.calls for repair in result.repairs)

    @property
    def text(self) -> str:
        """The answer as text: a string as it is, data as JSON."""
        return render(self.answer)

    def as_dict(self) -> dict[str, Any]:
        """The result as a JSON object; the answer as plain data."""
        figures = {"steps": self.steps, "stopped": self.stopped, "model": self.model, "seconds": round(self.seconds, 3)}
        answer = to_jsonable_python(self.answer, fallback=str)
        return {"answer": answer, **figures, "usage": self.usage.as_dict(), "messages": self.messages}


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A run begins; one that goes on without a new query has none."""

    query: str
    model: str
    note: str = ""
    """What the person should know before it begins (that no model was named, for example)."""

    @property
    def notice(self) -> str:
        return self.note


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """A run has its answer; always the last event."""

    result: Result[Any]


@dataclass(frozen=True, slots=True)
class SubRun(Event):
    """Something that happened in the run of another agent, inside the tool `name` of this one; `call` is its call."""

    name: str
    call: ToolCall | None
    event: Event

    @property
    def level(self) -> Literal["INFO", "WARNING"]:
        return self.event.level

    @property
    def notice(self) -> str:
        return f"{self.name}: {inner}" if (inner := self.event.notice) else ""

    @property
    def usage(self) -> Usage:
        """What the event says that was taken: by a reply, of whatever depth."""
        event = self.event
        while isinstance(event, SubRun):
            event = event.event
        return event.reply.usage if isinstance(event, ModelReplied) else Usage()


@dataclass(frozen=True, slots=True)
class HandedOver(Event):
    """The conversation goes on under another agent."""

    name: str
    reason: str

    @property
    def notice(self) -> str:
        return f"handed over to {self.name}: {self.reason}"


@dataclass
class Run:
    """A run in progress: it is shown every event, keeps the figures, and passes the event on to the listeners.

    `forming` tells of the answer as it forms, in runs that are streamed.
    """

    model: str
    history: list[Message]
    listeners: Sequence[Listener] = ()
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    landed: str = ""
    calls: list[ToolResult] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    handed: list[str] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    forming: Forming | None = None
    started: float = field(default_factory=time.perf_counter)

    def watch(self, event: Event) -> Iterator[Event]:
        """Take note of `event` and tell the listeners; yields it, and what of the answer it brought."""
        yield self.observe(event)
        if self.forming is not None:
            yield from map(self.observe, self.forming.after(event))

    def observe(self, event: Event) -> Event:
        """Take note of `event` and tell the listeners."""
        if isinstance(event, ModelReplied):
            self.usage += event.reply.usage
            self.steps += 1
        elif isinstance(event, ToolFinished):
            self.calls.append(event.result)
        elif isinstance(event, SubRun):
            self.usage += event.usage
        elif isinstance(event, Landing):
            self.landed = event.reason
        elif isinstance(event, AnswerDoubted):
            self.doubts.append(event.reason)
        elif isinstance(event, HandedOver):
            self.handed.append(event.name)
        for listener in self.listeners:
            listener(event)
        return event

    def finish(self, answer: Answer) -> Result[Any]:
        """The result of the run that ended with `answer`."""
        return Result(
            answer.value,
            list(self.history),
            self.usage,
            self.steps,
            self.landed or answer.stopped,
            self.model,
            self.calls,
            time.perf_counter() - self.started,
            tuple(self.doubts),
            tuple(self.handed),
        )
