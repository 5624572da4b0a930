"""What a run spent its time on, and its notices, recorded from its events.

Recording an event costs a few comparisons; a trace is rendered only when it is read.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..core.flow import Event
from ..core.masking import mask
from ..core.messages import Message, ToolCall, Usage, assistant
from ..tools.arguments.fixes import Repair
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import ToolFinished, ToolStarted
from .model import ModelAsked, ModelReplied

SpanKind: TypeAlias = Literal["model", "tool", "wait"]

MAX_NOTES = 500
"""Notes of a run; the progress of a tool is a note too, and has no bound of its own."""
MAX_SPAN_ERROR_CHARS = 300
MAX_RAW_CHARS = 2_000
STOPPED_ERROR = "it was stopped before its end"


@dataclass(frozen=True, slots=True)
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
            "error": mask(str(self.error))[:MAX_SPAN_ERROR_CHARS] if self.error else "",
            "usage": self.usage.as_dict() if self.usage else None,
            "place": self.place,
            "repairs": [str(repair) for repair in self.repairs],
            "raw": mask(self.raw)[:MAX_RAW_CHARS] if self.raw else "",
        }
        times = {"start": round(self.start - began, 5), "end": round(self.end - began, 5)}
        return {
            "kind": self.kind,
            "name": self.name,
            **times,
            **{key: value for key, value in details.items() if value},
        }


@dataclass(frozen=True, slots=True)
class Note:
    """A notice of a run: its time, text and level, and the number of messages that the run had then."""

    at: float
    text: str
    level: str
    place: int


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
            if self._waiting is not None:
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
            {"at": round(note.at - began, 5), "text": note.text, "level": note.level, "place": note.place}
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
