"""Questions of tools: asked at once where someone can answer, else the run ends with `Paused`.

The calls of a turn that ask nothing have their results when the run pauses; only the asking ones run again.  Questions
and answers are stored with the conversation, so that nothing is asked twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from ..core.ask_person import Person, escape_unprintable
from ..core.enclosing import enclosing
from ..core.errors import Paused, RunError
from ..core.flow import Emit, Event, Flow, Policy, around, ask
from ..core.host import find_kernel
from ..core.masking import mask
from ..core.messages import ToolCall
from ..core.questions import Answers, CallQuestions, InputRequired, Question
from ..tools.execution.call import BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.questions import build_example, explain_answer
from .consult import Consult


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
        questions = [Question(**entry) for entry in saved["questions"]]
        answers = dict(saved["answers"])
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


OnQuestion: TypeAlias = Callable[[Question], Any]
"""Returns the answer to a question; None or `Paused` to let it wait.  May be a coroutine function."""
Respondents: TypeAlias = OnQuestion | Person | Literal["ask"] | None
"""What an agent's `on_question=` may be."""
MAX_PAUSED_QUESTION_CHARS = 200
"""Characters of a question in the text of `Paused`."""


@dataclass(frozen=True, slots=True)
class QuestionAsked(Event):
    """A call waits for the answer to a question."""

    call: ToolCall
    question: Question

    @property
    def waits_for(self) -> str:
        return f"for an answer to {self.call.name}"

    @property
    def notice(self) -> str:
        return f"{self.call.name} asks: {self.question.text}"


@dataclass(frozen=True, slots=True)
class QuestionAnswered(Event):
    """A question has its answer."""

    call: ToolCall
    question: Question
    answer: Any

    @property
    def waits_for(self) -> str:
        return ""

    @property
    def notice(self) -> str:
        return f"{self.call.name}: answered"


@dataclass(frozen=True, slots=True)
class Respondent:
    """What answers questions in a run; the runs inside its tools inherit it."""

    function: OnQuestion | Person | None
    questions: Questions


def answer_questions(on_question: Respondents = None, stored: Questions | None = None) -> Policy:
    """Ask the questions of tools (`ask_question`, `InputRequired`), and run the asking calls again with the answers.

    Args:
        on_question: A function that returns the answer to a `Question`, or "ask" to ask the person at the terminal or
            in the notebook.  By default, the enclosing run's function answers; in a notebook, the person.
        stored: The questions and answers of the conversation.

    Raises:
        Paused: A question has no answer.
        RunError: The answer of the function does not match the schema of the question.
    """
    state = _QuestionPolicy(Person() if on_question == "ask" else on_question, stored or Questions())
    return around(state.handle, CallTools)


@dataclass
class _QuestionPolicy:
    """The questions of one run."""

    function: OnQuestion | Person | None
    stored: Questions

    def handle(self, effect: CallTools) -> Flow[Any]:
        results: dict[str, ToolResult] = {}
        unanswered: list[BoundCall] = []
        waiting: Sequence[BoundCall] = effect.calls
        while waiting:
            ready: list[BoundCall] = []
            for bound in waiting:
                is_ready = bound.call.id not in self.stored.calls or (yield from self._find_answers(bound))
                (ready if is_ready else unanswered).append(bound)
            if not ready:
                break
            for bound in ready:
                effect.finished.pop(bound.call.id, None)
            try:
                done = yield from ask(effect.with_calls(map(self._prepare, ready)))
            except Paused:  # of an agent in one of the calls
                yield from self._emit_asked([effect.finished.get(bound.call.id) for bound in ready])
                raise
            yield from self._emit_asked(done)
            results.update((result.call.id, result) for result in done)
            waiting = [bound for bound in ready if results[bound.call.id].is_open]
            for result in done:
                if not result.is_open:
                    self.stored.forget(result.call.id)
        if unanswered:
            raise describe_pause(self.stored.list_open([bound.call for bound in unanswered]))
        return [results[bound.call.id] for bound in effect.calls]

    def _emit_asked(self, results: Sequence[ToolResult | None]) -> Flow[None]:
        for result in results:
            if result is not None and isinstance(asking := result.exception, InputRequired):
                for question in asking.questions:
                    shown = with_whole_id(result.call.id, question, asking.state)
                    yield from ask(Emit(QuestionAsked(result.call, shown)))

    def _find_answers(self, bound: BoundCall) -> Flow[bool]:
        """Ask what can be asked now; return whether the call can run."""
        entry = self.stored.calls.get(bound.call.id)
        if entry is None or bound.problem is not None:
            return True
        for question in entry.unanswered:
            shown = with_whole_id(bound.call.id, question, entry.state)
            value = yield from self._consult(shown)
            if value is None:
                return False
            entry.answers[question.id] = value
            yield from ask(Emit(QuestionAnswered(bound.call, shown, value)))
        return True

    def _consult(self, question: Question) -> Flow[Any]:
        """Return a valid answer; None without one."""
        function = self._find_function()
        problem = ""
        while function is not None:
            decide = partial(function.answer, problem=problem) if isinstance(function, Person) else function
            try:
                value = yield from ask(Consult(decide, question))
            except Paused:
                return None
            if value is None or value is Paused or isinstance(value, Paused):
                return None
            if not (problem := explain_answer(question, value)):
                return value
            if not isinstance(function, Person):
                raise RunError(f"on_question= returned no valid answer to {question.text!r:.60}: {problem}")
        return None

    def _find_function(self) -> OnQuestion | Person | None:
        if self.function is not None:
            return self.function
        if (outer := enclosing(Respondent)) is not None:
            return outer.function
        return Person() if find_kernel() is not None else None

    def _prepare(self, bound: BoundCall) -> BoundCall:
        """Return the call with its answers; each of its runs begins to count its questions anew."""
        identity = bound.call.id
        respondent = Respondent(self._find_function(), self.stored)

        def make() -> CallQuestions:
            entry = self.stored.calls.get(identity)
            answered = Answers({**entry.answers}, entry.state) if entry else None
            known = entry.list_known() if entry else []

            def register(asking: InputRequired) -> None:
                self.stored.calls[identity] = PausedCall(asking.questions, asking.state, {}, known)

            return CallQuestions(answered, known, register)

        return bound.within(make).within(lambda: respondent)


def describe_pause(questions: Sequence[Question]) -> Paused:
    """Return the error that ends a run because these questions have no answer; it names the way to continue."""
    shown = "; ".join(
        f"{entry.id!r}: {escape_unprintable(mask(entry.text), MAX_PAUSED_QUESTION_CHARS)}" for entry in questions
    )
    first = questions[0]
    example = {first.id: build_example(dict(first.schema))}
    error = Paused(
        f"{len(questions)} question{' waits' if len(questions) == 1 else 's wait'} for an answer: {shown}. "
        f"Answer and continue: agent.run(session=error.session, answers={example!r})"
    )
    error.questions = tuple(questions)
    return error
