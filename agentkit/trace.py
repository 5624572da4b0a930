"""What a run spent its time on: each request, each call of a tool and each wait, with its beginning and its end."""

import time
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .flow import Event
from .messages import Usage
from .model import ModelAsked, ModelReplied
from .policies.retry import Retrying
from .running import ToolFinished, ToolStarted

Kind: TypeAlias = Literal["model", "tool", "wait"]


@dataclass(frozen=True, slots=True)
class Span:
    """One thing that took time: from `start` to `end`, in seconds since the run began.

    `name` is the model's or the tool's, `call` the id of the call; `error` says what it came to if it failed; a
    request has its `usage`.
    """

    kind: Kind
    name: str
    start: float
    end: float
    call: str = ""
    error: str = ""
    usage: Usage | None = None

    def as_dict(self) -> dict[str, Any]:
        """The span as a JSON object, without what it does not have."""
        figures = {"start": round(self.start, 4), "end": round(self.end, 4)}
        told = {"call": self.call, "error": self.error, "usage": self.usage.as_dict() if self.usage else None}
        return {"kind": self.kind, "name": self.name, **figures, **{key: value for key, value in told.items() if value}}


@dataclass
class Trace:
    """The spans of a run, which it learns from the run's events as they pass by."""

    spans: list[Span] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    _asked: tuple[str, float] | None = None
    _calls: dict[str, float] = field(default_factory=dict)

    def note(self, event: Event) -> None:
        """Take note of `event`, which happens now."""
        now = time.perf_counter() - self.began
        match event:
            case ModelAsked(model):
                self._asked = model, now
            case ModelReplied(reply) if self._asked:
                self._end_request(now, usage=reply.usage)
            case Retrying(error, seconds) if self._asked:
                self._end_request(now, error=str(error))
                self.spans.append(Span("wait", "retry", now, now + seconds))
            case ToolStarted(bound):
                self._calls[bound.call.id] = now
            case ToolFinished(result):
                start = self._calls.pop(result.call.id, now - result.seconds)
                failed = str(result.error) if result.error else ""
                self.spans.append(Span("tool", result.call.name, start, now, result.call.id, failed))

    def _end_request(self, now: float, *, usage: Usage | None = None, error: str = "") -> None:
        assert self._asked is not None
        (name, start), self._asked = self._asked, None
        self.spans.append(Span("model", name, start, now, error=error, usage=usage))
