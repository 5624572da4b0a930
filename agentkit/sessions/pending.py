"""The pending calls of a conversation: their ids inside tools, and the messages that close them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from ..core.labels import DEVELOPER
from ..core.messages import Message, ToolCall, pending_calls, tool_message
from ..core.parts import Content
from ..core.questions import Question
from ..engine.loop import CANCELLED
from ..policies.decisions import Approvals
from ..policies.stored_questions import Questions

Given: TypeAlias = Mapping[Any, Any]
"""Decisions by calls or their ids, or answers by the ids of questions."""
Query: TypeAlias = Content | Message
Entry = TypeVar("Entry", ToolCall, Question)
NOT_RUN = "Not run: the call waited for approval, and the conversation went on without it."
NOT_ANSWERED = "The call asked the person a question, and the conversation went on without an answer."


def put_inside(outer: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the calls or questions of an agent inside the call `outer`, with their ids in the enclosing run."""
    return [replace(entry, id=f"{outer}/{entry.id}") for entry in entries]


def close_calls(messages: Sequence[Message], approvals: Approvals, asked: Questions) -> list[Message]:
    """Return the tool messages for the pending calls of a conversation that continues without them."""
    reason = NOT_RUN if approvals.waiting else CANCELLED
    return [
        tool_message(call, NOT_ANSWERED if call.id in asked.calls else reason, label=DEVELOPER)
        for call in pending_calls(messages)
    ]
