"""What a span holds: its start, context and end, the events of a run, and messages as the conventions' JSON.

An event of a run becomes an event of its span.  Its attributes are counts and names; the notice of an event may quote a
model or a tool, so it is content.  Messages have roles with parts, and their secrets are masked.  Source:
gen-ai-input-messages.json and gen-ai-output-messages.json of the conventions.  On spans they are JSON texts.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from .. import ModelError
from ..events import (
    ApprovalAsked,
    ApprovalGiven,
    Compacted,
    Event,
    FallenBack,
    FinalRequest,
    HandedOver,
    Retrying,
    Throttled,
    ToolAbandoned,
    ToolRetried,
)
from ..extend import Message, Part, Reply, Request, mask, mask_data, parse_json
from . import names
from .api import context as otel_context
from .api import trace

Attributes: TypeAlias = dict[str, Any]
CANCELLED_ERROR_TYPE = "cancelled"
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
        """Mark the operation as failed; `error_type` is a class of errors.  The text of `error` is content."""
        self.attributes = {**self.attributes, names.ERROR_TYPE: error_type}
        if self.is_recording:
            text = mask(str(error))[:MAX_STATUS_CHARS] if error is not None else error_type
            self.span.set_attribute(names.ERROR_TYPE, error_type)
            self.span.set_status(trace.Status(trace.StatusCode.ERROR, text))

    def end(self, attributes: Mapping[str, Any] | Callable[[], Mapping[str, Any]]) -> float:
        """End the span with further attributes and return its seconds; a function is called only if they are kept."""
        now = time.time_ns()
        if self.is_recording:
            given = attributes() if callable(attributes) else attributes
            self.span.set_attributes({key: value for key, value in given.items() if value is not None})
        self.span.end(now)
        return (now - self._began) / 1e9


def error_type(error: BaseException) -> str:
    """Return the class of an error: a model's kind of failure ("rate_limit"), else the name of the exception."""
    return error.kind if isinstance(error, ModelError) else type(error).__name__


def describe_event(event: Event) -> tuple[str, dict[str, Any]] | None:
    """Return the name and the attributes of the span's event; None for an event that has none.

    Any other warning is an event too, under the name of its class.
    """
    match event:
        case Retrying(error=error, seconds=seconds):
            return "agentkit.retry", {names.ERROR_TYPE: error_type(error), "agentkit.retry.wait_seconds": seconds}
        case FallenBack(error=error, model=model):
            return "agentkit.fallback", {names.ERROR_TYPE: error_type(error), names.REQUEST_MODEL: model}
        case Throttled():
            return "agentkit.throttled", {}
        case ToolRetried(error=info, failures=failures):
            return "agentkit.tool_retry", {names.ERROR_TYPE: info.name, "agentkit.failures": failures}
        case ToolAbandoned(threads=threads):
            return "agentkit.tool_abandoned", {"agentkit.abandoned_threads": threads}
        case ApprovalAsked(call=call):
            return "agentkit.approval_asked", {names.TOOL_NAME: call.name, names.TOOL_CALL: call.id}
        case ApprovalGiven(call=call, decision=decision):
            is_approved = decision is True or isinstance(decision, dict)
            shown = {names.TOOL_NAME: call.name, names.TOOL_CALL: call.id, "agentkit.approved": is_approved}
            return "agentkit.approval_given", shown
        case FinalRequest(reason=reason):
            return "agentkit.final_request", {"agentkit.reason": reason}
        case Compacted():
            return "agentkit.compacted", {}
        case HandedOver(name=name):
            return "agentkit.handed_over", {names.AGENT_NAME: name}
    return (f"agentkit.{type(event).__name__}", {}) if event.level == "WARNING" else None


MAX_ARGUMENT_LEVELS = 100
"""Levels of arguments that are recorded as data; deeper ones, which a model wrote by mistake, are recorded as text."""


def request_content(request: Request) -> dict[str, str]:
    """Return the attributes with the messages, the instruction and the tools of a request."""
    instruction = [part for message in request.messages if message["role"] == "system" for part in _parts(message)]
    messages = [_convert(message) for message in request.messages if message["role"] != "system"]
    tools = [{"type": "function", **tool["function"]} for tool in request.tools.schemas("openai")]
    found = {names.SYSTEM_INSTRUCTIONS: instruction, names.INPUT_MESSAGES: messages, names.TOOL_DEFINITIONS: tools}
    return {name: encode(value) for name, value in found.items() if value}


def reply_content(reply: Reply) -> dict[str, str]:
    """Return the attribute with the message of a reply."""
    finish = reply.finish_reason or "stop"
    return {names.OUTPUT_MESSAGES: encode([{**_convert(reply.message), "finish_reason": finish}])}


def text_content(attribute: str, role: str, text: str) -> dict[str, str]:
    """Return an attribute with one message that is a text."""
    finish = {"finish_reason": "stop"} if role == "assistant" else {}
    return {attribute: encode([{"role": role, "parts": [{"type": "text", "content": text}], **finish}])}


def encode(data: Any) -> str:
    """Return JSON data as text, its secrets masked."""
    return mask(json.dumps(mask_data(data), ensure_ascii=False, default=str))


def _convert(message: Message) -> dict[str, Any]:
    return {"role": message["role"], "parts": [*_parts(message)]}


def _parts(message: Message) -> Iterator[Part]:
    if message["role"] == "tool":
        yield {"type": "tool_call_response", "id": message["tool_call_id"], "response": _plain(message["content"])}
        return
    content = message.get("content") or ()
    if isinstance(content, str):
        yield {"type": "text", "content": content}
    else:
        yield from map(_convert_part, content)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield {
            "type": "tool_call",
            "id": call["id"],
            "name": function["name"],
            "arguments": _load(function["arguments"]),
        }


def _convert_part(part: Part) -> Part:
    """Return a part of a message; data inside the message is left out, because spans are small."""
    if part.get("type") == "text":
        return {"type": "text", "content": part.get("text", "")}
    url = (part.get("image_url") or {}).get("url", "") if part.get("type") == "image_url" else ""
    if url and not url.startswith("data:"):
        return {"type": "uri", "modality": "image", "uri": url}
    return {"type": str(part.get("type", "blob")), "content": "(not recorded)"}


def _plain(content: str | Sequence[Any]) -> Any:
    if isinstance(content, str):
        return content
    return [_convert_part(part if isinstance(part, dict) else {"type": "text", "text": str(part)}) for part in content]


def _load(arguments: str) -> Any:
    data = parse_json(arguments)
    return arguments if _is_deeper(data, MAX_ARGUMENT_LEVELS) else data


def _is_deeper(data: Any, levels: int) -> bool:
    entries = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return not levels or any(_is_deeper(entry, levels - 1) for entry in entries)
