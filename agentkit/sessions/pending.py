"""What the pending calls of a conversation wait for: decisions and answers, their own and those of agents inside."""

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


def list_waiting(messages: Sequence[Message], approvals: Approvals) -> list[ToolCall]:
    """Return the calls that wait for a decision; a call of an agent inside a tool has the id "outer id/inner id"."""
    inner = [call for outer, nested in approvals.nested.items() for call in put_inside(outer, nested.waiting)]
    return [call for call in pending_calls(messages) if call.id in approvals.waiting] + inner


def list_questions(messages: Sequence[Message], approvals: Approvals, asked: Questions) -> list[Question]:
    """Return the questions without an answer; one of an agent inside a tool has the id "outer id/inner id"."""
    inner = [entry for outer, nested in approvals.nested.items() for entry in put_inside(outer, nested.questions)]
    return asked.list_open(pending_calls(messages)) + [entry for entry in inner if entry.id not in asked.inner]


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
