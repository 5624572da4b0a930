"""The questions of a conversation and the answers to them, as they are stored with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..core.errors import RunError
from ..core.messages import ToolCall
from ..core.questions import Question
from ..tools.questions import explain_answer


@dataclass(eq=False)
class PausedCall:
    """A call that ended for questions.

    Attributes:
        questions: The questions, with the ids that the tool gave them.
        state: The state of the call.
        answers: The answers so far, by those ids.
        known: The texts of earlier questions of the call with their answers.
    """

    questions: Sequence[Question]
    state: Any = None
    answers: dict[str, Any] = field(default_factory=dict)
    known: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def unanswered(self) -> list[Question]:
        """The questions without an answer."""
        return [question for question in self.questions if question.id not in self.answers]

    def list_known(self) -> list[tuple[str, Any]]:
        """Return the texts of all questions of the call with their answers."""
        return [*self.known, *((question.text, self.answers[question.id]) for question in self.questions)]

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> PausedCall:
        """Return the call that `dataclasses.asdict` described."""
        known = [(text, value) for text, value in saved["known"]]
        questions, answers = [Question(**entry) for entry in saved["questions"]], dict(saved["answers"])
        return cls(questions, saved["state"], answers, known)


@dataclass(eq=False)
class Questions:
    """The questions of a conversation.

    Attributes:
        calls: The calls that ended for questions, by their ids.
        inner: Answers to questions of agents inside tools, by the ids "outer/inner".
    """

    calls: dict[str, PausedCall] = field(default_factory=dict)
    inner: dict[str, Any] = field(default_factory=dict)

    def list_open(self, pending: Sequence[ToolCall]) -> list[Question]:
        """Return the questions of pending calls without an answer, with the ids for `answers=`."""
        return [
            with_whole_id(call.id, question, entry.state)
            for call in pending
            if (entry := self.calls.get(call.id))
            for question in entry.unanswered
        ]

    def accept(self, answers: Mapping[str, Any], waiting: Sequence[Question]) -> None:
        """Store answers of the caller.

        Raises:
            RunError: No open question has the id, or the answer does not match its schema.
        """
        known = {question.id: question for question in waiting}
        for identity, value in answers.items():
            if identity not in known:
                ids = ", ".join(map(repr, known)) or "none"
                raise RunError(f"answers: no open question has the id {identity!r}. Open: {ids}.")
            if problem := explain_answer(known[identity], value):
                raise RunError(f"answers[{identity!r}]: {problem}")
        for identity, value in answers.items():
            for call, entry in self.calls.items():
                name = next((one.id for one in entry.unanswered if _join(call, one.id) == identity), None)
                if name is not None:
                    entry.answers[name] = value
                    break
            else:
                self.inner[identity] = value

    def take_inner(self, call: str, waiting: Sequence[Question]) -> dict[str, Any]:
        """Return the answers for the agent inside a call, of which these questions are open."""
        return {question.id: self.inner[key] for question in waiting if (key := f"{call}/{question.id}") in self.inner}

    def forget(self, call: str) -> None:
        """Remove what was asked in a call that has its result."""
        self.calls.pop(call, None)
        for key in [key for key in self.inner if key.startswith(f"{call}/")]:
            del self.inner[key]

    def as_dict(self) -> dict[str, Any]:
        """Return the questions as JSON data; an empty dict without any."""
        calls = {identity: asdict(entry) for identity, entry in [*self.calls.items()]}
        return {"calls": calls, "inner": {**self.inner}} if calls or self.inner else {}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Questions:
        """Return the questions that `as_dict` described."""
        calls = {identity: PausedCall.from_dict(entry) for identity, entry in saved.get("calls", {}).items()}
        return cls(calls, dict(saved.get("inner", {})))


def with_whole_id(call: str, question: Question, state: Any) -> Question:
    """Return a question of a call with its state, and with the id for `answers=`."""
    return replace(question, id=_join(call, question.id), state=state)


def _join(call: str, name: str) -> str:
    return f"{call}/{name}" if name else call
