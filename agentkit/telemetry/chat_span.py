"""The span `chat` of one request to a model, and its metrics."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol
from urllib.parse import urlsplit

from ..core.messages import Usage
from ..engine.model import AskModel, Reply
from . import names
from .api import context as otel_context
from .api import trace
from .content import reply_content, request_content
from .span import CANCELLED, Attributes, OpenSpan
from .span_events import error_type
from .traced_model import TracedModel


class Recorder(Protocol):
    """What the spans need of the telemetry's settings."""

    content: bool
    agent_name: str
    tracer: trace.Tracer

    def record(self, metric: str, value: float, attributes: Attributes, context: Any = None) -> None:
        """Add a value to a histogram."""
        ...


def model_attributes(operation: str, model: str, settings: Mapping[str, Any]) -> Attributes:
    """Return the attributes of an operation with a model: its provider, its name there, its address if that is set."""
    provider = names.name_provider(model)
    attributes: Attributes = {names.OPERATION: operation, names.PROVIDER: provider}
    attributes[names.REQUEST_MODEL] = model.partition("/")[2] or model
    address = urlsplit(str(settings.get("api_base") or settings.get("base_url") or ""))
    if address.hostname:
        attributes[names.SERVER_ADDRESS] = address.hostname
        attributes[names.SERVER_PORT] = address.port or (80 if address.scheme == "http" else 443)
    return attributes


def option_attributes(settings: Mapping[str, Any]) -> Attributes:
    """Return the attributes of the options that go to the model: temperature, seed, and so on."""
    found: Attributes = {}
    for option, attribute in names.REQUEST_OPTIONS.items():
        if (value := settings.get(option)) is not None:
            found[attribute] = [value] if option == "stop" and isinstance(value, str) else value
    return found


def usage_attributes(usage: Usage) -> Attributes:
    """Return the attributes of tokens and cost; the details only if there are some."""
    return {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHED_TOKENS: usage.cached_tokens or None,
        names.REASONING_TOKENS: usage.reasoning_tokens or None,
        names.COST: usage.cost,
    }


class ChatSpan:
    """A request that was sent and has no reply yet."""

    def __init__(
        self, recorder: Recorder, effect: AskModel, parent: otel_context.Context, settings: Mapping[str, Any],
        extra: Attributes,
    ) -> None:  # fmt: skip
        self._recorder = recorder
        self._measured = model_attributes(names.CHAT, effect.model.name, settings)
        more = {names.REQUEST_STREAM: True} if effect.request.stream else {}
        limit = {names.REQUEST_OPTIONS["max_tokens"]: effect.request.max_tokens} if effect.request.max_tokens else {}
        attributes = {**self._measured, **option_attributes(settings), **limit, **more, **extra}
        kind = trace.SpanKind.INTERNAL if attributes[names.PROVIDER] == names.OWN_PROVIDER else trace.SpanKind.CLIENT
        self.span = OpenSpan(recorder.tracer, f"chat {attributes[names.REQUEST_MODEL]}", parent, attributes, kind)
        self._first_chunk: float | None = None
        if recorder.content and self.span.is_recording:
            self.span.span.set_attributes(request_content(effect.request))

    def within_span(self, effect: AskModel) -> AskModel:
        """Return the request as one whose work is done in the context of the span."""
        return replace(effect, model=TracedModel(effect.model, self.span.context))

    def note_piece(self) -> None:
        """Note that a piece of the reply arrived."""
        if self._first_chunk is None:
            self._first_chunk = self.span.age

    def finish(self, reply: Reply) -> None:
        """End the span with a reply."""
        if reply.model:
            self._measured = {**self._measured, names.RESPONSE_MODEL: reply.model}

        def describe() -> Attributes:
            return {
                names.RESPONSE_MODEL: reply.model or None,
                names.FINISH_REASONS: [reply.finish_reason] if reply.finish_reason else None,
                names.FIRST_CHUNK_SECONDS: self._first_chunk,
                **usage_attributes(reply.usage),
                **(reply_content(reply) if self._recorder.content else {}),
            }

        self._end(describe)
        for kind, tokens in (("input", reply.usage.input_tokens), ("output", reply.usage.output_tokens)):
            if tokens:
                attributes = {**self._measured, names.TOKEN_TYPE: kind}
                self._recorder.record(names.TOKEN_USAGE, tokens, attributes, self.span.context)

    def fail(self, error: BaseException) -> None:
        """End the span with the error that ended the request; a closed stream or a stopped run cancels it."""
        is_error = isinstance(error, Exception)
        kind = error_type(error) if is_error else CANCELLED
        self.span.fail(kind, error if is_error else None)
        self._measured = {**self._measured, names.ERROR_TYPE: kind}
        self._end(dict)

    def _end(self, describe: Any) -> None:
        seconds = self.span.end(describe)
        self._recorder.record(names.OPERATION_DURATION, seconds, self._measured, self.span.context)
