"""Events as JSON data, for programs that follow a run: one object for each event."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from ..core.flow import Event
from ..core.masking import MaskedStream, mask_data
from ..core.messages import ToolCall
from ..engine.model import ModelAsked, ModelReplied, Reply, TextDelta, ThinkingDelta, ToolCallDelta
from ..engine.partial_answer import AnswerForming
from ..engine.result import Result, RunEnded, SubRun
from ..tools.execution.call import BoundCall, ToolResult

PIECE_FIELDS: dict[type[Event], str] = {
    TextDelta: "text", ThinkingDelta: "text", ToolCallDelta: "arguments", AnswerForming: "added",
}  # fmt: skip
"""The events that carry a piece of a text, and the field of their records that holds it."""


def encode_event(event: Event) -> dict[str, Any]:
    """Return the event as a JSON object: its type under `event`, then its fields; secrets are masked.

    A secret that arrives in pieces, event by event, is not recognised here: `EventEncoder` withholds pieces for that.
    """
    masked: dict[str, Any] = mask_data(_encode(event))
    return masked


class EventEncoder:
    """Encodes the events of one run, in order; pieces of a text are cut so that no secret is split between two."""

    def __init__(self) -> None:
        self._streams: dict[tuple[Any, ...], tuple[MaskedStream, dict[str, Any]]] = {}
        self._inner: dict[tuple[str, str], EventEncoder] = {}

    def encode(self, event: Event) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects to write for `event`: none, one or several."""
        if isinstance(event, SubRun):
            inner = self._inner.setdefault((event.name, event.call.id if event.call else ""), EventEncoder())
            for entry in inner.encode(event.event):
                yield _wrap_sub_run(event, entry)
            return
        key = PIECE_FIELDS.get(type(event))
        entry = _encode(event)
        if key is None or key not in entry:
            if isinstance(event, ModelReplied | RunEnded):
                yield from self._flush()
            elif isinstance(event, ModelAsked):  # a repeated request withdraws the pieces of the failed one
                self._streams.clear()
            yield mask_data(entry)
            return
        place = (type(event), entry.get("index"))
        stream, _ = self._streams.setdefault(place, (MaskedStream(), entry))
        self._streams[place] = stream, entry
        if text := stream.feed(entry[key]):
            yield {**entry, key: text}

    def _flush(self) -> Iterator[dict[str, Any]]:
        streams = self._streams
        self._streams = {}
        for (kind, _), (stream, entry) in streams.items():
            if text := stream.flush():
                yield {**entry, PIECE_FIELDS[kind]: text}


def _encode(event: Event) -> dict[str, Any]:
    if isinstance(event, AnswerForming):  # only what is new: the whole text each time would be quadratic
        return {"event": "AnswerForming", **({"added": event.added} if event.added else {"value": event.value})}
    if isinstance(event, SubRun):
        return _wrap_sub_run(event, _encode(event.event))
    if isinstance(event, ModelAsked):  # the messages themselves are in the records before it
        request = event.request
        counts = {"messages": len(request.messages), "tools": list(request.tools)}
        return {"event": "ModelAsked", "model": event.model, **counts, "tool_choice": request.tool_choice}
    assert is_dataclass(event)
    values = {entry.name: _encode_value(getattr(event, entry.name)) for entry in fields(event)}
    notice = {"notice": event.notice} if event.notice else {}
    return {"event": type(event).__name__, **values, **notice}


def _wrap_sub_run(event: SubRun, inner: dict[str, Any]) -> dict[str, Any]:
    parent = {"parent": event.parent} if event.parent else {}
    return {"event": "SubRun", "name": event.name, "call": event.call and event.call.id, **parent, "inner": inner}


def _encode_value(value: Any) -> Any:
    match value:
        case ToolCall() if not value.references:
            return {"id": value.id, "name": value.name, "arguments": value.arguments}
        case BoundCall():
            raw = {"raw": value.raw} if value.raw else {}
            return {**_encode_value(value.call), **raw, "repairs": [str(repair) for repair in value.repairs]}
        case ToolResult():
            result = {"content": value.content, "seconds": round(value.seconds, 4), "is_error": value.error is not None}
            return {**_encode_value(value.call), **result}
        case Reply(message, usage, finish_reason, model):
            return {"message": message, "usage": usage.as_dict(), "finish_reason": finish_reason, "model": model}
        case Result():
            return value.as_dict()
        case Exception():
            return str(value)
    return to_jsonable_python(value, fallback=str)
