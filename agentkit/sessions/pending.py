"""What the pending calls of a conversation wait for: decisions and answers, their own and those of agents inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

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
NOT_RUN = "Not run: the call waited for approval, and the conversation went on without it."
NOT_ANSWERED = "The call asked the person a question, and the conversation went on without an answer."


class Conversation(Protocol):
    """What this file needs of a session."""

    messages: list[Message]
    approvals: Approvals
    asked: Questions


def list_waiting(session: Conversation) -> list[ToolCall]:
    """Return the calls that wait for a decision; a call of an agent inside a tool has the id "outer id/inner id"."""
    own = [call for call in pending_calls(session.messages) if call.id in session.approvals.waiting]
    inner = [
        replace(call, id=f"{identity}/{call.id}")
        for identity, nested in session.approvals.nested.items()
        for call in list_waiting(nested)
    ]
    return own + inner


def list_questions(session: Conversation) -> list[Question]:
    """Return the questions without an answer; one of an agent inside a tool has the id "outer id/inner id"."""
    own = session.asked.list_open(pending_calls(session.messages))
    inner = [
        replace(question, id=f"{identity}/{question.id}")
        for identity, nested in session.approvals.nested.items()
        for question in list_questions(nested)
    ]
    return own + [question for question in inner if question.id not in session.asked.inner]


def close_calls(messages: Sequence[Message], approvals: Approvals, asked: Questions) -> list[Message]:
    """Return the tool messages for the pending calls of a conversation that continues without them."""
    reason = NOT_RUN if approvals.waiting else CANCELLED
    return [
        tool_message(call, NOT_ANSWERED if call.id in asked.calls else reason, label=DEVELOPER)
        for call in pending_calls(messages)
    ]
