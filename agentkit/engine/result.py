"""The result of a run with its trace, and the events of a run as a whole.

A trace is what a run spent its time on, and its notices, recorded from its events.  Recording an event costs a few
comparisons; a trace is rendered only when it is read.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from ..core.errors import explain_attributes
from ..core.flow import Event
from ..core.host import find_versions
from ..core.lazy_names import display_with
from ..core.masking import mask
from ..core.messages import (
    Label,
    Message,
    ToolCall,
    Usage,
    assistant,
    calls_of,
    join_labels,
    label_of,
    remove_delimiters,
    text_of,
)
from ..core.portable import to_valid_text
from ..core.values import frozen
from ..tools.arguments.fixes import Repair
from ..tools.execution.call import NOT_RUN, BoundCall, ToolResult
from ..tools.execution.call_tools import ToolFinished, ToolStarted
from ..tools.results.jsonable import to_answer_data
from ..tools.results.result_text import render_text
from .model import ModelAsked, ModelReplied

SpanKind: TypeAlias = Literal["model", "tool", "wait"]

MAX_NOTES = 500
"""Notes of a run; the progress of a tool is a note too, and has no bound of its own."""
MAX_SPAN_ERROR_CHARS = 300
MAX_RAW_CHARS = 2_000
STOPPED_ERROR = "it was stopped before its end"


@frozen
class Span:
    """A request, a tool call or a wait ("model", "tool" or "wait"), with its time in seconds of `time.perf_counter`.

    `place` is the index of a request's reply among the run's messages, `call` the id of a tool call, and `error` the
    reason why it failed. `raw` is what the model wrote, where the arguments became `{}` because it is not a JSON
    object.
    """

    kind: SpanKind
    name: str
    start: float
    end: float
    call: str = ""
    error: object = None
    usage: Usage | None = None
    place: int = 0
    repairs: Sequence[Repair] = ()
    raw: str = ""

    def as_dict(self, began: float) -> dict[str, Any]:
        """Return the span as a JSON object without empty entries; times in seconds since `began`, secrets masked."""
        details = {
            "call": self.call,
            "error": to_valid_text(mask(str(self.error))[:MAX_SPAN_ERROR_CHARS]) if self.error else "",
            "usage": self.usage.as_dict() if self.usage else None,
            "place": self.place,
            "repairs": [str(repair) for repair in self.repairs],
            "raw": to_valid_text(mask(self.raw)[:MAX_RAW_CHARS]) if self.raw else "",
        }
        times = {"start": round(self.start - began, 5), "end": round(self.end - began, 5)}
        return {
            "kind": self.kind,
            "name": self.name,
            **times,
            **{key: value for key, value in details.items() if value},
        }


@frozen
class Note:
    """A notice of a run: its time, text and level, and the number of messages that the run had then."""

    at: float
    text: str
    level: str
    place: int


def _list_planned(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the calls in the conversation of a program that were not made."""
    results = (message for message in messages if message["role"] == "tool")
    not_made = {entry["tool_call_id"] for entry in results if remove_delimiters(text_of(entry)) == NOT_RUN}
    return [call for message in messages for call in calls_of(message) if call.id in not_made]


@dataclass(eq=False)
class Trace:
    """The spans and notes of a run.

    Attributes:
        spans: The requests, tool calls and waits, in the order of their ends.
        notes: The notices of events, at most `MAX_NOTES`.
        inner: The traces of agents inside tools, by the ids of the calls.  That of a function which calls agents has
            a call for each of them.
        messages: The conversation of an agent inside a tool, once it has answered.
        began: When the run began, in seconds of `time.perf_counter`.
        started: When the run began, in seconds since 1970.
        limits: The limits that the run has.
    """

    spans: list[Span] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    inner: dict[str, "Trace"] = field(default_factory=dict)
    messages: Sequence[Message] = ()
    began: float = field(default_factory=time.perf_counter)
    started: float = field(default_factory=time.time)
    limits: dict[str, float] = field(default_factory=dict)
    _asked: tuple[str, float, int] | None = None
    _waiting: tuple[str, float] | None = None
    _calls: dict[str, tuple[BoundCall, float]] = field(default_factory=dict)
    _inner_calls: dict[str, tuple[ToolCall, float]] = field(default_factory=dict)

    def note(self, event: Event, place: int = 0) -> None:
        """Record `event`, which happens now; the run has `place` messages."""
        now = time.perf_counter()
        if isinstance(event, ToolStarted):
            self._calls[event.call.call.id] = event.call, now
            return  # its repairs are recorded with the call
        if isinstance(event, ToolFinished):
            result = event.result
            call = result.call
            started, start = self._calls.pop(call.id, (None, now - result.seconds))
            error = result.error
            raw = started.raw if started else ""
            self.spans.append(Span("tool", call.name, start, now, call.id, error, repairs=result.repairs, raw=raw))
            return
        if isinstance(event, ModelAsked):
            self._end_wait(now)
            self._end_request(now)
            self._asked = event.model, now, place
            return
        if isinstance(event, ModelReplied):
            self._end_request(now, None, event.reply.usage)
            return
        if (failure := event.ends_request) is not None:
            self._end_request(now, failure)
        if (wait := event.waits_for) == "":
            self._end_wait(now)
        elif wait is not None:
            self._waiting = wait, now
        if (text := event.notice) and len(self.notes) < MAX_NOTES:
            self.notes.append(Note(now, text, event.level, place))

    def begin_inner(self, call: ToolCall) -> None:
        """Record that an agent begins to work in the function call of this trace; `call` has its id and its query."""
        if call.id not in self._inner_calls:
            self.messages = [*self.messages, assistant(None, [call])]
        self._inner_calls[call.id] = call, time.perf_counter()

    def end_inner(self, identity: str, error: object) -> None:
        """Record that the work of an agent in the function call of this trace has ended."""
        if identity in self._inner_calls:
            call, start = self._inner_calls[identity]
            self.spans.append(Span("tool", call.name, start, time.perf_counter(), identity, error))

    def within(self, call: str) -> "Trace":
        """Return the trace of the agent inside the tool call with this id."""
        return self.inner.setdefault(call, Trace())

    def close(self, error: object = STOPPED_ERROR) -> None:
        """End the spans that are still open, with `error` for a request."""
        now = time.perf_counter()
        self._end_wait(now)
        self._end_request(now, error)
        for identity, (bound, start) in self._calls.items():
            self.spans.append(Span("tool", bound.call.name, start, now, identity, STOPPED_ERROR, raw=bound.raw))
        self._calls.clear()

    def as_dict(self, began: float | None = None) -> dict[str, Any]:
        """Return the trace as a JSON object; times in seconds since `began` (default: the beginning of the run)."""
        began = self.began if began is None else began
        spans = [span.as_dict(began) for span in self.spans]
        for span in spans:
            if inner := self.inner.get(span.get("call", "")):
                span["inner"] = {**inner.as_dict(began), "messages": [*inner.messages]}
        notes = [
            {
                "at": round(note.at - began, 5),
                "text": to_valid_text(note.text),
                "level": note.level,
                "place": note.place,
            }
            for note in self.notes
        ]
        return {"spans": spans, "notes": notes}

    def _end_request(self, now: float, error: object = "it ended without a reply", usage: Usage | None = None) -> None:
        if self._asked is not None:
            (name, start, place) = self._asked
            self._asked = None
            self.spans.append(Span("model", name, start, now, "", error and str(error), usage, place))

    def _end_wait(self, now: float) -> None:
        if self._waiting is not None:
            (name, start) = self._waiting
            self._waiting = None
            self.spans.append(Span("wait", name, start, now))


T = TypeVar("T", default=str)
RunOutcome: TypeAlias = Literal["answer", "paused", "stopped", "limit", "error", "cancelled"]


_OTHER_NAMES = {
    **dict.fromkeys(("output", "data", "final_output", "final_answer", "final_result"), "Use result.answer"),
    **dict.fromkeys(("response", "value", "result"), "Use result.answer"),
    **dict.fromkeys(("content", "output_text"), "Use result.answer, or result.text for the answer as text"),
    **dict.fromkeys(("all_messages", "new_messages", "history", "to_input_list"), "Use result.messages"),
    "tool_calls": "Use result.calls",
    "tool_results": "Use result.calls",
}
"""Attributes of results elsewhere, and what they are called here."""


@explain_attributes(_OTHER_NAMES)
@frozen(slots=False)
class Result(Generic[T]):
    """The result of a run.

    Attributes:
        answer: The answer, in the type that the agent declares.
        messages: The conversation up to the answer.
        usage: Requests, tokens and dollars of this run, those of agents inside its tools included.
        steps: How many replies the model gave; the steps of agents inside tools are not counted.
        stopped: Why the run ended: "answer"; "text" (a plain text was taken as the answer); or the limit at which
            the answer was requested, "max_steps", say.
        model: The name of the model that answered.
        calls: The results of all tool calls, in the order of their arrival.
        seconds: How long the run took.
        doubts: Objections of answer checks that were still open when the answer was accepted.
        handed: The names of the agents that the conversation was handed over to; the last one answered.
        trace: What the time was spent on; `as_dict` returns it as data.
        error: Why there is no answer; set on the result that a `RunError` carries.
        run_id: The id of the run; a journal has the run under this id.
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
    error: str = ""
    run_id: str = field(default="", repr=False, compare=False)

    @property
    def cost(self) -> float | None:
        """The run's cost in dollars; None where a price is unknown."""
        return self.usage.cost

    @property
    def label(self) -> Label:
        """The label of the answer: that of all the messages which the model had read."""
        read = (entry for entry in self.messages if entry["role"] != "assistant" or "label" in entry)
        return join_labels(map(label_of, read))

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """All repairs of tool calls of the run, in the order of the calls."""
        return tuple(repair for result in self.calls for repair in result.repairs)

    @property
    def planned(self) -> tuple[ToolCall, ...]:
        """The calls that a dry run (`dry_run=True`) did not make, in the order of the model; those of programs, too."""
        not_made = {
            result.call.id for result in self.calls if isinstance(result.value, str) and result.value == NOT_RUN
        }
        found: list[ToolCall] = []
        for call in (call for message in self.messages for call in calls_of(message)):
            if call.id in self.trace.inner:
                found += _list_planned(self.trace.inner[call.id].messages)
            elif call.id in not_made:
                found.append(call)
        return tuple(found)

    @property
    def text(self) -> str:
        """The answer as text: a string unchanged, data as JSON."""
        return render_text(self.answer)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as a JSON object; the answer as plain data."""
        figures = {"steps": self.steps, "stopped": self.stopped, "model": self.model, "seconds": round(self.seconds, 3)}
        if self.error:
            figures["error"] = to_valid_text(self.error)
        answer = to_answer_data(self.answer)
        usage = self.usage.as_dict()
        trace = self.trace.as_dict()
        about = {
            "started": datetime.fromtimestamp(self.trace.started, UTC).isoformat(timespec="seconds"),
            "limits": self.trace.limits,
            "versions": find_versions(),
        }
        return {"answer": answer, **figures, "usage": usage, **about, "messages": self.messages, "trace": trace}

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, compare: "Result[Any] | Mapping[str, Any] | None" = None
    ) -> str:
        """Return the run as a self-contained HTML page, with secrets masked.

        Args:
            path: A file that the page is written to.
            compare: Another run, or its `as_dict()`; the page then shows both side by side.
        """
        if compare is None:
            page = display_with("agentkit.views.html:result_page")(self.as_dict())
        else:
            other = compare.as_dict() if isinstance(compare, Result) else compare
            page = display_with("agentkit.views.html:compare_page")(self.as_dict(), other)
        return str(display_with("agentkit.views.html:write_page")(page, path))

    _repr_html_ = display_with("agentkit.views.html:result_view", as_dict)
    _repr_markdown_ = display_with("agentkit.views.html:result_markdown", as_dict)


@frozen
class RunStarted(Event):
    """A run begins; `query` is "" where a run continues without a new one."""

    query: str
    model: str
    note: str = ""
    """A notice for the person, that no model was named, say."""
    run_id: str = ""

    @property
    def notice(self) -> str:
        return self.note


@frozen
class RunFinished(Event):
    """A run has its answer; always the last event of a stream."""

    result: Result[Any]


@frozen
class RunEnded(Event):
    """A run ended, however that was; every run that started has exactly one, the last event that its listeners get.

    A stream does not yield it, as it ends with `RunFinished` or an exception.  Of a run inside a tool it arrives in a
    `SubRun`.

    Attributes:
        outcome: "answer"; "paused", "stopped" (by `stop`) or "limit" for these errors; "error" for all others;
            "cancelled" for a closed stream, a cancelled task and an interrupt.
        error: The exception that ended the run; None for "answer" and "cancelled".
        usage: Requests, tokens and dollars, as in `Result.usage`.
        seconds: How long the run took.
        run_id: The id of the run, as in its `RunStarted`.
    """

    outcome: RunOutcome
    error: Exception | None
    usage: Usage
    seconds: float
    run_id: str

    @property
    def level(self) -> Literal["INFO", "WARNING"]:
        return "WARNING" if self.outcome in ("error", "limit") else "INFO"

    @property
    def notice(self) -> str:
        if self.outcome == "answer":
            return ""
        reason = f": {type(self.error).__name__}: {self.error}" if self.error else ""
        return f"the run ended without an answer ({self.outcome}){reason}"


@frozen
class SubRun(Event):
    """An event of another agent's run inside a tool.

    Attributes:
        name: The name of the tool.
        call: The call that started the run: of the agent that is a tool; or, where a function calls an agent, a call
            with the id "outer/inner" and the query as its argument.
        event: The event.
        parent: The id of the call of the function that calls the agent; "" for an agent that is a tool.
    """

    name: str
    call: ToolCall | None
    event: Event
    parent: str = ""

    @property
    def level(self) -> Literal["INFO", "WARNING"]:
        return self.event.level

    @property
    def notice(self) -> str:
        return f"{self.name}: {inner}" if (inner := self.event.notice) else ""

    @property
    def usage(self) -> Usage:
        """What the event's reply used, at any depth of nesting; zero for other events."""
        event = self.event
        while isinstance(event, SubRun):
            event = event.event
        return event.reply.usage if isinstance(event, ModelReplied) else Usage()


@frozen
class HandedOver(Event):
    """The conversation continues under another agent."""

    name: str
    reason: str

    @property
    def notice(self) -> str:
        return f"handed over to {self.name}: {self.reason}"
