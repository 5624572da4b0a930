"""Events as plain data, for machines that read along: one JSON object for each."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from ..core.flow import Event
from ..core.masking import mask_data
from ..engine.model import ModelAsked, ModelReplied, Reply, TextDelta, ThinkingDelta, ToolCallDelta
from ..engine.partial_answer import AnswerForming
from ..engine.result import Result, SubRun
from ..tools.execution.call import BoundCall, ToolResult
from .streamed_text import Pieces

PIECES: dict[type[Event], str] = {
    TextDelta: "text", ThinkingDelta: "text", ToolCallDelta: "arguments", AnswerForming: "added",
}  # fmt: skip
"""The events that bring a piece of a text, and where it stands in their records."""


def record(event: Event) -> dict[str, Any]:
    """The event as a JSON object: its type under `event`, and what it holds; secrets are masked.

    A secret that comes in pieces, event by event, is not seen here: `Recorder` holds pieces back for that.
    """
    masked: dict[str, Any] = mask_data(_unmasked(event))
    return masked


class Recorder:
    """Records of the events of one run, in order; the pieces of a text are cut so that no secret falls in two.

    `records(event)` gives what is to be written now: none, one or several.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[Any, ...], tuple[Pieces, dict[str, Any]]] = {}
        self._inner: dict[tuple[str, str], Recorder] = {}

    def records(self, event: Event) -> Iterator[dict[str, Any]]:
        """What is to be written now that `event` has happened."""
        if isinstance(event, SubRun):
            inner = self._inner.setdefault((event.name, event.call.id if event.call else ""), Recorder())
            for entry in inner.records(event.event):
                yield _inside(event, entry)
            return
        key = PIECES.get(type(event))
        entry = _unmasked(event)
        if key is None or key not in entry:
            if isinstance(event, ModelReplied):
                yield from self._rest()
            elif isinstance(event, ModelAsked):  # what came before is withdrawn
                self._held.clear()
            yield mask_data(entry)
            return
        place = (type(event), entry.get("index"))
        pieces, _ = self._held.setdefault(place, (Pieces(), entry))
        self._held[place] = pieces, entry
        if text := pieces.take(entry[key]):
            yield {**entry, key: text}

    def _rest(self) -> Iterator[dict[str, Any]]:
        held, self._held = self._held, {}
        for (kind, _), (pieces, entry) in held.items():
            if text := pieces.rest():
                yield {**entry, PIECES[kind]: text}


def _unmasked(event: Event) -> dict[str, Any]:
    if isinstance(event, AnswerForming):  # what is new of a text: all of it each time would be quadratic
        return {"event": "AnswerForming", **({"added": event.added} if event.added else {"value": event.value})}
    if isinstance(event, SubRun):
        return _inside(event, _unmasked(event.event))
    if isinstance(event, ModelAsked):  # the messages themselves were told of when they came
        request = event.request
        counts = {"messages": len(request.messages), "tools": list(request.tools)}
        return {"event": "ModelAsked", "model": event.model, **counts, "tool_choice": request.tool_choice}
    assert is_dataclass(event)
    held = {entry.name: _plain(getattr(event, entry.name)) for entry in fields(event)}
    noted = {"notice": event.notice} if event.notice else {}
    return {"event": type(event).__name__, **held, **noted}


def _inside(event: SubRun, inner: dict[str, Any]) -> dict[str, Any]:
    return {"event": "SubRun", "name": event.name, "call": event.call and event.call.id, "inner": inner}


def _plain(value: Any) -> Any:
    match value:
        case BoundCall():
            wrote = {"raw": value.raw} if value.raw else {}
            return {**_plain(value.call), **wrote, "repairs": [str(repair) for repair in value.repairs]}
        case ToolResult():
            told = {"content": value.content, "seconds": round(value.seconds, 4), "is_error": value.error is not None}
            return {**_plain(value.call), **told}
        case Reply(message, usage, finish_reason, model):
            return {"message": message, "usage": usage.as_dict(), "finish_reason": finish_reason, "model": model}
        case Result():
            return value.as_dict()
        case Exception():
            return str(value)
    return to_jsonable_python(value, fallback=str)
