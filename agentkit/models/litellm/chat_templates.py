"""Adapt messages to the chat templates of servers that render one: vLLM, llama.cpp and the like.

Templates of Mistral and Gemma require alternating user and assistant messages and refuse all others. Templates of
Llama 3 refuse several calls in one assistant message.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...core.messages import Message, assistant
from ...engine.history.tool_results import split_groups

_FILLER_TEXT = "Understood."
_SINGLE_CALL_ERROR = re.compile(r"single tool[- ]calls? at once|only (?:one|a single) tool[- _]calls?\b", re.IGNORECASE)


def alternate_roles(messages: Sequence[Message]) -> Iterator[Message]:
    """Merge neighbouring user messages, and insert an assistant message between a tool and a user message."""
    return separate_results(_merge_users(messages))


def separate_results(messages: Iterator[Message] | Sequence[Message]) -> Iterator[Message]:
    """Insert an assistant message between a tool message and a user message; Mistral's API requires it too."""
    before = None
    for message in messages:
        if before == "tool" and message["role"] == "user":
            yield assistant(_FILLER_TEXT)
        before = message["role"]
        yield message


def split_calls(messages: Sequence[Message]) -> Iterator[Message]:
    """Move each call of an assistant message, with its result, to a turn of its own."""
    for group in split_groups(messages):
        head, *results = messages[group]
        calls = head.get("tool_calls") or ()
        if len(calls) < 2 or len(results) < 2:
            yield from messages[group]
            continue
        for number, call in enumerate(calls):
            yield {**(head if number == 0 else assistant()), "tool_calls": [call]}
            yield from (result for result in results if result["tool_call_id"] == call["id"])


def refuses_parallel_calls(error: str) -> bool:
    """Return whether a server's error means that its template accepts one call in a message only."""
    return _SINGLE_CALL_ERROR.search(error) is not None


def _merge_users(messages: Sequence[Message]) -> Iterator[Message]:
    pending: Message | None = None
    for message in messages:
        if pending is not None and message["role"] == "user":
            pending = {**pending, "content": _join(pending["content"], message["content"])}
            continue
        if pending is not None:
            yield pending
        pending = message if message["role"] == "user" else None
        if pending is None:
            yield message
    if pending is not None:
        yield pending


def _join(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_list_parts(first), *_list_parts(second)]


def _list_parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
