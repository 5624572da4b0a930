"""A run as JSON data, one object for each frame, for programs that follow it or draw it later.

Every view draws a frame that was read back.  `result_of_frames` makes of them what a report needs.  The objects of
`EventEncoder`, one for each event, are those of former versions.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from ..core.flow import Event
from ..core.masking import mask_data
from ..core.messages import Message, ToolCall, Usage, assistant, tool_message, user
from ..engine.model import AnswerForming, ModelAsked, ModelReplied, Reply, TextDelta, ThinkingDelta, ToolCallDelta
from ..engine.result import Result, RunEnded, SubRun
from ..tools.execution.call import ANSWER_RESULT, BoundCall, ToolResult
from ..tools.final_answer import ANSWER_KEY, FINAL_ANSWER
from .frames import (
    CallClosed,
    CallOpened,
    Frame,
    InnerRuns,
    MaskedPieces,
    Remark,
    RequestClosed,
    RequestOpened,
    RunClosed,
    RunOpened,
)

FRAMES: Mapping[str, type[Any]] = {kind.__name__: kind for kind in get_args(Frame)}
"""The kinds of frames by their names in JSON."""


def encode_frame(frame: Frame, at: float = 0.0) -> dict[str, Any]:
    """Return a frame as a JSON object: its kind under `frame`, its time under `at`, then its fields.

    Args:
        frame: The frame, whose texts are masked.
        at: Its time, in seconds after the begin of the run.
    """
    return {"frame": type(frame).__name__, "at": round(at, 3), **asdict(frame)}


def decode_frame(data: Mapping[str, Any]) -> Frame:
    """Return the frame of a JSON object that `encode_frame` made; unknown fields are ignored.

    Raises:
        ValueError: It is no frame, is damaged, or is of a kind that this version does not know.
    """
    name = data.get("frame", "")
    if name not in FRAMES:
        raise ValueError(f"frame {name!r} is unknown. Expected one of {', '.join(FRAMES)}")
    frame: Frame = _adapter(name).validate_python(data)
    return frame


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(FRAMES[name])


def result_of_frames(timed: Iterable[tuple[float, Frame]]) -> dict[str, Any]:
    """Return a run in the form of `Result.as_dict`, without the instruction and the agents inside.

    Args:
        timed: The frames of the run with their times, in seconds after its begin.
    """
    fold = _Fold()
    for at, frame in timed:
        if getattr(frame, "agent", "") == "":
            fold.add(at, frame)
    return fold.data()


class _Fold:
    """The messages, the spans and the end of a run, as they are known from its frames so far."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._spans: list[dict[str, Any]] = []
        self._reply: Message | None = None
        self._begun: dict[str, tuple[ToolCall, float]] = {}
        self._usage = Usage()
        self._model = ""
        self._end: dict[str, Any] = {}

    def add(self, at: float, frame: Frame) -> None:
        """Take in a frame of the run itself."""
        match frame:
            case RunOpened():
                self._model = frame.model
                if frame.query:
                    self._messages.append(user(frame.query))
            case RequestOpened():
                self._reply = None
                self._spans.append({"kind": "model", "name": frame.model, "start": at, "end": at})
            case RequestClosed():
                self._usage += Usage(**frame.usage)
                span = next(span for span in reversed(self._spans) if span["kind"] == "model")
                about = {"usage": frame.usage, "error": frame.error, "place": len(self._messages)}
                span.update(end=at, **{key: value for key, value in about.items() if value})
            case Remark(text=text):
                self._open_reply()["content"] = text
            case CallOpened():
                self._open_call(at, ToolCall(frame.id, frame.name, frame.arguments))
            case CallClosed() if not frame.waits and frame.id in self._begun:
                call, start = self._begun.pop(frame.id)
                self._messages.append(tool_message(call, frame.content))
                error = {"error": frame.content} if frame.is_error else {}
                self._spans.append(
                    {"kind": "tool", "name": call.name, "start": start, "end": at, "call": call.id, **error}
                )
            case RunClosed():
                self._close(at, frame)

    def _open_reply(self) -> Message:
        if self._reply is None:
            self._reply = assistant()
            self._messages.append(self._reply)
        return self._reply

    def _open_call(self, at: float, call: ToolCall) -> None:
        self._begun[call.id] = call, at
        self._open_reply().setdefault("tool_calls", []).extend(assistant(None, [call])["tool_calls"])

    def _close(self, at: float, frame: RunClosed) -> None:
        if frame.outcome == "answer":
            self._reply = None
            call = ToolCall(FINAL_ANSWER, FINAL_ANSWER, json.dumps({ANSWER_KEY: frame.answer}))
            self._open_call(at, call)
            self._messages.append(tool_message(call, ANSWER_RESULT))
        error = {"error": frame.error} if frame.error else {}
        self._end = {"answer": frame.answer, "stopped": frame.outcome, "seconds": frame.seconds, **error}
        self._usage = Usage(**frame.usage)

    def data(self) -> dict[str, Any]:
        steps = sum(span["kind"] == "model" for span in self._spans)
        figures = {"steps": steps, "model": self._model, "usage": self._usage.as_dict()}
        return {**self._end, **figures, "messages": self._messages, "trace": {"spans": self._spans}}


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
        self._inner = InnerRuns(lambda *_: EventEncoder())
        self._pieces = MaskedPieces()
        self._open: dict[tuple[type[Event], Any], dict[str, Any]] = {}
        """The last record of each text that arrives."""

    def encode(self, event: Event) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects to write for `event`: none, one or several."""
        if isinstance(event, SubRun):
            for entry in self._inner.find(event).encode(event.event):
                yield _wrap_sub_run(event, entry)
            return
        field = PIECE_FIELDS.get(type(event))
        entry = _encode(event)
        if field is None or field not in entry:
            if isinstance(event, ModelReplied | RunEnded):
                yield from self._flush()
            elif isinstance(event, ModelAsked):  # a repeated request withdraws the pieces of the failed one
                self._open.clear()
                self._pieces.clear()
            yield mask_data(entry)
            return
        key = type(event), entry.get("index")
        self._open[key] = entry
        if text := self._pieces.feed(key, entry[field]):
            yield {**entry, field: text}

    def _flush(self) -> Iterator[dict[str, Any]]:
        for key, entry in self._open.items():
            if text := self._pieces.flush(key):
                yield {**entry, PIECE_FIELDS[key[0]]: text}
        self._open = {}


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
    values = {name: _encode_value(getattr(event, name)) for name in event.__match_args__}
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
