"""What the wires share: a scripted reply's parts, as any provider's format needs them.

A value that is `...` in a reply stands for a key that is left out: `{"id": ..., "name": "add"}` is a call without id.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

INPUT_TOKENS, OUTPUT_TOKENS = 10, 5


@dataclass(frozen=True, slots=True)
class Wire:
    """One provider's format: a reply whole, a reply in pieces (ready to send), an error's body, an error in a stream.

    `name` is the provider whose rules a conversation has to keep.
    """

    name: str
    build_reply: Callable[[Json, str], Json]
    build_pieces: Callable[[Json, str], Iterator[str]]
    build_error: Callable[[int, Json], Json]
    build_stream_error: Callable[[Json], str]
    content_type: str = "text/event-stream"


def read_calls(reply: Json) -> list[Json]:
    """The scripted calls with all their keys: `id` (made up where missing), `name`, `arguments` (an object or text)."""
    calls = enumerate(reply.get("tool_calls") or (), 1)
    return [{"id": f"call_{reply.get('turn', 1)}_{number}", "arguments": {}, **call} for number, call in calls]


def to_text(arguments: Any) -> str:
    """Arguments as text; text as it is."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def to_object(arguments: Any) -> Any:
    """Arguments as an object; text that is no JSON as it is, for a provider that passes its model's slip on."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def read_tokens(reply: Json) -> tuple[int, int, int]:
    """Tokens in, tokens out, and how many of the former came from a cache."""
    usage = reply.get("usage") or {}
    return (
        usage.get("input_tokens", INPUT_TOKENS),
        usage.get("output_tokens", OUTPUT_TOKENS),
        usage.get("cached_tokens", 0),
    )


def read_finish_reason(reply: Json, default: str) -> Any:
    """Why the model stopped, in the provider's words."""
    return reply.get("finish_reason", default)


def drop_missing(value: Any) -> Any:
    """`value` without the keys that are to be left out."""
    if isinstance(value, dict):
        return {key: drop_missing(item) for key, item in value.items() if item is not ...}
    return [drop_missing(item) for item in value] if isinstance(value, list) else value


def format_event(data: Json, name: str | None = None) -> str:
    """A server-sent event."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(drop_missing(data))}\n\n"


def split_words(text: str) -> list[str]:
    """A text as providers stream it: word by word."""
    return re.findall(r"\s*\S+\s*$|\s*\S+|\s+", text)
