"""Events as plain data, for machines that read along: one JSON object for each."""

from dataclasses import fields, is_dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from ..calls import BoundCall, ToolResult
from ..flow import Event
from ..forming import AnswerForming
from ..model import ModelAsked, Reply
from ..run import Result, SubRun
from ..secrets import mask_data


def record(event: Event) -> dict[str, Any]:
    """The event as a JSON object: its type under `event`, and what it holds; secrets are masked."""
    if isinstance(event, AnswerForming):  # what is new of a text: all of it each time would be quadratic
        return {"event": "AnswerForming", **({"added": event.added} if event.added else {"value": event.value})}
    if isinstance(event, SubRun):
        return {"event": "SubRun", "name": event.name, "inner": record(event.event)}
    if isinstance(event, ModelAsked):  # the messages themselves were told of when they came
        request = event.request
        figures = {"messages": len(request.messages), "tools": list(request.tools)}
        return {"event": "ModelAsked", "model": event.model, **figures, "tool_choice": request.tool_choice}
    assert is_dataclass(event)
    held = {entry.name: _plain(getattr(event, entry.name)) for entry in fields(event)}
    return {"event": type(event).__name__, **mask_data(held)}


def _plain(value: Any) -> Any:
    match value:
        case BoundCall():
            return {**_plain(value.call), "repairs": [str(repair) for repair in value.repairs]}
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
