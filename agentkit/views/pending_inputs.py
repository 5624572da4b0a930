"""What a paused run waits for, as a front door asks for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.masking import mask, mask_data
from ..core.messages import ToolCall
from ..core.questions import Question
from .frames import PendingInput

DEFAULT_REASON = "it may have side effects"


def list_pending(
    calls: Sequence[ToolCall], questions: Sequence[Question], reasons: Mapping[str, str]
) -> tuple[PendingInput, ...]:
    """Return the calls that wait for a decision, then the questions that wait for an answer; secrets masked.

    Args:
        calls: As in `Paused.calls`.
        questions: As in `Paused.questions`.
        reasons: Why calls wait, by their ids.
    """
    decisions = [
        PendingInput(call.id, reasons.get(call.id, DEFAULT_REASON), call.id, call.name, mask(call.arguments))
        for call in calls
    ]
    asked = []
    for question in questions:
        schema: Any = mask_data(dict(question.schema))
        asked.append(PendingInput(question.id, mask(question.text), question.id, schema=schema))
    return (*decisions, *asked)
