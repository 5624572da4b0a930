"""One run: what it is asked, what it comes to, and the figures it gathers while its events pass by."""

import os
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from ..core.display import display_with
from ..core.flow import Event
from ..core.messages import Message, ToolCall, Usage
from ..tools.arguments import Repair
from ..tools.execution.call import ToolResult
from ..tools.results.result_text import render
from .model import ModelReplied
from .trace import Trace

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
    trace: Trace = field(default_factory=Trace, repr=False, compare=False)
    """What the time went to; `as_dict` has it as data."""
    error: str = ""
    """Why the run has no answer: of the result that a `RunError` carries."""
    run_id: str = ""
    """What its journal calls it."""

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
        if self.error:
            figures["error"] = self.error
        answer = to_jsonable_python(self.answer, fallback=str)
        usage, trace = self.usage.as_dict(), self.trace.as_dict()
        return {"answer": answer, **figures, "usage": usage, "messages": self.messages, "trace": trace}

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The run as a page that needs nothing else, without secrets; written into the file `path`, if given."""
        page = display_with("agentkit.views.html:result_page")(self.as_dict())
        return str(display_with("agentkit.views.html:write_page")(page, path))

    def _repr_html_(self) -> str:
        return str(display_with("agentkit.views.html:result_view")(self.as_dict()))

    def _repr_markdown_(self) -> str:
        return str(display_with("agentkit.views.html:result_markdown")(self.as_dict()))


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A run begins; one that goes on without a new query has none."""

    query: str
    model: str
    note: str = ""
    """What the person should know before it begins (that no model was named, for example)."""
    run_id: str = ""
    """What its journal calls it."""

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
