"""What a paused run waits for, as a front door asks for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.masking import mask, mask_data
from ..core.messages import ToolCall
from ..core.questions import Question
from .frames import PendingInput


@dataclass(frozen=True, slots=True)
class AskedFor:
    """Why a call waits for a decision, and which of its values can be allowed from now on; masked."""

    reason: str
    values: str = ""


UNKNOWN_REASON = AskedFor("it may have side effects")


def list_pending(
    calls: Sequence[ToolCall], questions: Sequence[Question], asked: Mapping[str, AskedFor]
) -> tuple[PendingInput, ...]:
    """Return the calls that wait for a decision, then the questions that wait for an answer; secrets masked.

    Args:
        calls: As in `Paused.calls`.
        questions: As in `Paused.questions`.
        asked: What is known of calls that wait, by their ids.
    """
    decisions = []
    for call in calls:
        known = asked.get(call.id, UNKNOWN_REASON)
        decisions.append(PendingInput(call.id, known.reason, call.id, call.name, mask(call.arguments), known.values))
    open_questions = []
    for question in questions:
        schema: Any = mask_data(dict(question.schema))
        open_questions.append(PendingInput(question.id, mask(question.text), question.id, schema=schema))
    return (*decisions, *open_questions)
