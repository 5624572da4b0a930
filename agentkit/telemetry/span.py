"""One span with its start, its context and its end."""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..core.masking import mask
from . import names
from .api import context as otel_context
from .api import trace

Attributes: TypeAlias = dict[str, Any]
CANCELLED = "cancelled"
MAX_STATUS_CHARS = 500
"""Characters of an exception's text in the status of a span."""


class OpenSpan:
    """A span that has started.  Its duration is that of the metric that is recorded with it.

    Attributes:
        attributes: The attributes that the span had at its start.
        context: The context in which the span is the current one.
    """

    def __init__(
        self,
        tracer: trace.Tracer,
        name: str,
        parent: otel_context.Context,
        attributes: Attributes,
        kind: trace.SpanKind = trace.SpanKind.INTERNAL,
    ) -> None:
        self._began = time.time_ns()
        self.attributes = attributes
        self.span = tracer.start_span(name, parent, kind, attributes, start_time=self._began)
        self.context = trace.set_span_in_context(self.span, parent)

    @property
    def age(self) -> float:
        """Seconds since the start."""
        return (time.time_ns() - self._began) / 1e9

    @property
    def is_recording(self) -> bool:
        """Whether attributes and events of the span are kept."""
        return self.span.is_recording()

    def note(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Add an event."""
        self.span.add_event(name, {key: value for key, value in attributes.items() if value not in (None, "")})

    def fail(self, error_type: str, error: BaseException | None = None) -> None:
        """Mark the operation as failed; `error_type` is a class of errors, not their text."""
        self.attributes = {**self.attributes, names.ERROR_TYPE: error_type}
        if self.is_recording:
            text = mask(str(error))[:MAX_STATUS_CHARS] if error is not None else error_type
            self.span.set_attribute(names.ERROR_TYPE, error_type)
            self.span.set_status(trace.Status(trace.StatusCode.ERROR, text))

    def end(self, attributes: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = {}) -> float:  # noqa: B006
        """End the span with further attributes and return its seconds; a function is called only if they are kept."""
        now = time.time_ns()
        if self.is_recording:
            given = attributes() if callable(attributes) else attributes
            self.span.set_attributes({key: value for key, value in given.items() if value is not None})
        self.span.end(now)
        return (now - self._began) / 1e9
