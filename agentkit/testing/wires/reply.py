"""Helpers of all wire formats: the parts of a scripted reply.

The value `...` omits a key: `{"id": ..., "name": "add"}` is a call without an id.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from ...core.portable import Json as Json
from ...core.portable import parse_json
from ...core.portable import split_words as split_words
from ...core.values import frozen

SCRIPTED_INPUT_TOKENS = 10
SCRIPTED_OUTPUT_TOKENS = 5


@frozen
class Wire:
    """One provider's format: builders of a whole reply, a reply in pieces, an error body and an error in a stream.

    `name` is the provider whose rules apply to a request.
    """

    name: str
    build_reply: Callable[[Json, str], Json]
    build_pieces: Callable[[Json, str], Iterator[str]]
    build_error: Callable[[int, Json], Json]
    build_stream_error: Callable[[Json], str]
    content_type: str = "text/event-stream"


def read_scripted_calls(reply: Json) -> list[Json]:
    """Return the scripted calls with all keys: `id` (generated if missing), `name`, `arguments` (object or text)."""
    calls = enumerate(reply.get("tool_calls") or (), 1)
    return [{"id": f"call_{reply.get('turn', 1)}_{number}", "arguments": {}, **call} for number, call in calls]


def to_text(arguments: Any) -> str:
    """Return arguments as text; text is returned unchanged."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def to_object(arguments: Any) -> Any:
    """Return arguments as an object; invalid JSON is returned as text, as providers do that pass it on."""
    return parse_json(arguments) if isinstance(arguments, str) else arguments


def read_tokens(reply: Json) -> tuple[int, int, int]:
    """Return the input tokens, the output tokens, and the cached part of the input tokens."""
    usage = reply.get("usage") or {}
    return (
        usage.get("input_tokens", SCRIPTED_INPUT_TOKENS),
        usage.get("output_tokens", SCRIPTED_OUTPUT_TOKENS),
        usage.get("cached_tokens", 0),
    )


def drop_missing(value: Any) -> Any:
    """Return `value` without the omitted keys."""
    if isinstance(value, dict):
        return {key: drop_missing(item) for key, item in value.items() if item is not ...}
    return [drop_missing(item) for item in value] if isinstance(value, list) else value


def format_event(data: Json, name: str | None = None) -> str:
    """Return a server-sent event."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(drop_missing(data))}\n\n"
