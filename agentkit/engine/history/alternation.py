"""Make user and assistant alternate: merge consecutive texts of one role into one message."""

from collections.abc import Iterable, Iterator
from typing import Any

from ...core.labels import label_of, with_label
from ...core.messages import Message
from .tool_results import IndexedMessage
from .violations import ALTERNATING, Findings

_TEXT_ALONE = {"role", "content", "provider", "label"}


def merge_neighbours(entries: Iterable[IndexedMessage], found: Findings) -> Iterator[IndexedMessage]:
    """Merge consecutive user or assistant messages that hold nothing but text; `entries` has no tool messages."""
    held: IndexedMessage | None = None
    for place, message in entries:
        if held is not None and _can_merge(held[1], message):
            found.add(place, "consecutive_roles", f"a second {message['role']} message in a row", ALTERNATING)
            joined = {**message, "content": _join_contents(held[1]["content"], message.get("content"))}
            has_label = "label" in held[1] or "label" in message
            message = with_label(joined, label_of(held[1]).join(label_of(message))) if has_label else joined
        elif held is not None:
            yield held
        held = place, message
    if held is not None:
        yield held


def merge_texts(messages: Iterable[Message]) -> Iterator[Message]:
    """Merge consecutive messages of one role whose content is a text, if their labels are the same."""
    held: Message | None = None
    for message in messages:
        if held is not None and held.get("label") == message.get("label"):
            message = {**message, "content": _join_contents(held["content"], message["content"])}
        elif held is not None:
            yield held
        held = message
    if held is not None:
        yield held


def _can_merge(first: Message, second: Message) -> bool:
    same = first["role"] == second["role"] and first["role"] in ("user", "assistant")
    return same and first.keys() <= _TEXT_ALONE and second.keys() <= _TEXT_ALONE | {"tool_calls"}


def _join_contents(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str | None):
        return "\n\n".join(filter(None, (first, second)))
    return [part for content in (first, second) for part in _as_parts(content)]


def _as_parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
