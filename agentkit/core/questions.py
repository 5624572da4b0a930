"""Questions of tools to a person: what is asked, the exception that ends a call for it, and the answers."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TEXT_SCHEMA: Mapping[str, Any] = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a tool.

    Attributes:
        text: What the person reads.
        schema: The JSON Schema (draft 2020-12) that the answer must match; default: any text.
        id: In `InputRequired`, a name that is unique in the call, or "".  In `Paused.questions`, the key for
            `answers=`: the id of the call, followed by "/" and the name; inside an agent of a tool, "outer/inner".
        state: The state of the call, see `InputRequired`.
    """

    text: str
    schema: Mapping[str, Any] = field(default_factory=lambda: TEXT_SCHEMA)
    id: str = ""
    state: Any = None


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers with which a call runs again: their values by `Question.id`, and the state of the call."""

    values: Mapping[str, Any]
    state: Any = None


class InputRequired(Exception):
    """Raise this in a tool to ask a person; the call runs again, from its beginning, when all answers are there.

    The second time, `RunContext.answered` has the answers and `state`.  A simple question needs `ask_question` alone.

    Args:
        questions: The questions; several need ids of their own.
        state: JSON data that the call gets back unchanged, also in another process.  No person and no model sees it.

    Raises:
        ValueError: There is no question, two have the same id, or `state` is not JSON data.
    """

    def __init__(self, *questions: Question, state: Any = None) -> None:
        names = [question.id for question in questions]
        if not questions or len(set(names)) != len(names):
            raise ValueError(f"InputRequired: expected questions with ids of their own, got the ids {names}")
        try:
            json.dumps(state, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"InputRequired: state must be JSON data: {error}") from error
        super().__init__("; ".join(question.text for question in questions))
        self.questions = questions
        self.state = state


@dataclass(frozen=True, slots=True)
class LiveRespondent:
    """Answers the questions of a call that cannot wait: the run continues only with the answer.

    A front door encloses its runs in one.  Any other question pauses the run, so that its answer may come much later.

    Attributes:
        ask: Returns the answer; None without one, `Paused` where no person can be asked.
    """

    ask: Callable[[Question], Awaitable[Any]]


@dataclass(eq=False, slots=True)
class CallQuestions:
    """The questions of one tool call, while it runs.

    Attributes:
        answered: The answers with which the call runs again; None in its first run.
        known: The texts of its questions so far, each with its answer.
        register: Stores the questions that end the call.
        asked: How often each text was asked in this run of the call.
    """

    answered: Answers | None
    known: Sequence[tuple[str, Any]]
    register: Callable[[InputRequired], None]
    asked: Counter[str] = field(default_factory=Counter)

    def find_answer(self, text: str) -> tuple[Any, ...]:
        """Return the answer to this question in a tuple; an empty one before that."""
        values = [value for known, value in self.known if known == text]
        place = self.asked[text]
        self.asked[text] += 1
        return tuple(values[place : place + 1])
