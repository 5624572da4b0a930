"""Questions of tools: asked at once where someone can answer, else the run ends with `Paused`.

The calls of a turn that ask nothing have their results when the run pauses; only the asking ones run again.  Questions
and answers are stored with the conversation, so that nothing is asked twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from ..core.ask_person import Person
from ..core.context import enclosing
from ..core.errors import Paused, RunError
from ..core.flow import Emit, Flow, Hooks, Policy, around, ask
from ..core.host import find_kernel
from ..core.pending import Answers, CallQuestions, InputRequired, Pending, Question
from ..tools.execution.call import BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.questions import explain_answer, find_answer_problem
from .pending import (
    NO_RESPONDENT,
    AskingCall,
    Consult,
    OnQuestion,
    PendingInputs,
    QuestionAnswered,
    QuestionAsked,
    Respondent,
    make_pause,
)

Respondents: TypeAlias = OnQuestion | Person | Literal["ask"] | None
"""What an agent's `on_question=` may be."""


def answer_questions(on_question: Respondents = None, inputs: PendingInputs | None = None) -> Policy:
    """Ask the questions of tools (`ask_question`, `InputRequired`), and run the asking calls again with the answers.

    Args:
        on_question: A function that returns the answer to a `Question`, or "ask" to ask the person at the terminal or
            in the notebook.  By default, the enclosing run's function answers; in a notebook, the person.
        inputs: The questions and answers of the conversation.

    Raises:
        Paused: A question has no answer.
        RunError: The answer of the function does not match the schema of the question.
    """
    state = _QuestionPolicy(Person() if on_question == "ask" else on_question, inputs or PendingInputs())
    return around(Hooks(state.begin, state.end, state.fail), CallTools)


@dataclass
class _QuestionPolicy:
    """The questions of one run."""

    function: OnQuestion | Person | None
    inputs: PendingInputs

    def begin(self, effect: CallTools) -> CallTools | Flow[list[ToolResult]]:
        """Return the calls as they run; a flow if one of them has asked before."""
        prepared = effect.with_calls(map(self._prepare, effect.calls))
        if self.inputs.asking and any(bound.call.id in self.inputs.asking for bound in effect.calls):
            return self._ask_and_run(prepared)
        for bound in effect.calls:
            effect.finished.pop(bound.call.id, None)
        return prepared

    def end(self, effect: CallTools, done: list[ToolResult]) -> list[ToolResult] | Flow[list[ToolResult]]:
        """Return the results; a flow if one of the calls asks."""
        for result in done:
            if result.is_open:
                return self._ask_and_run(effect, done)
        for result in done:
            self.inputs.forget(result.call.id)
        return done

    def fail(self, effect: CallTools, error: Exception) -> Flow[list[ToolResult]] | None:
        """Emit the questions of the other calls where an agent in one of them pauses."""
        return self._emit_and_raise(effect, effect.calls, error) if isinstance(error, Paused) else None

    def _ask_and_run(self, effect: CallTools, done: list[ToolResult] | None = None) -> Flow[list[ToolResult]]:
        """Run the calls until none of them asks what can be answered now; `done` are the results of a first run."""
        results: dict[str, ToolResult] = {}
        unanswered: list[BoundCall] = []
        waiting: Sequence[BoundCall] = effect.calls
        while waiting:
            ready: list[BoundCall] = []
            for bound in waiting:
                is_ready = done is not None or bound.call.id not in self.inputs.asking
                (ready if is_ready or (yield from self._find_answers(bound)) else unanswered).append(bound)
            if not ready:
                break
            if done is None:
                for bound in ready:
                    effect.finished.pop(bound.call.id, None)
                try:
                    done = yield from ask(effect.with_calls(ready))
                except Paused as error:  # of an agent in one of the calls
                    yield from self._emit_and_raise(effect, ready, error)
                    raise
            yield from self._emit_asked(done)
            results.update((result.call.id, result) for result in done)
            waiting = [bound for bound in ready if results[bound.call.id].is_open]
            for result in done:
                if not result.is_open:
                    self.inputs.forget(result.call.id)
            done = None
        if unanswered:
            calls = [bound.call for bound in unanswered]
            raise make_pause([entry for call in calls for entry in self.inputs.asking[call.id].list_open(call)])
        return [results[bound.call.id] for bound in effect.calls]

    def _emit_and_raise(self, effect: CallTools, calls: Sequence[BoundCall], error: Exception) -> Flow[Any]:
        yield from self._emit_asked([effect.finished.get(bound.call.id) for bound in calls])
        raise error

    def _emit_asked(self, results: Sequence[ToolResult | None]) -> Flow[None]:
        for result in results:
            if result is not None and isinstance(asking := result.exception, InputRequired):
                for question in asking.questions:
                    yield from ask(Emit(QuestionAsked(Pending.answer(result.call, question, asking.state))))

    def _find_answers(self, bound: BoundCall) -> Flow[bool]:
        """Ask what can be asked now; return whether the call can run."""
        entry = self.inputs.asking.get(bound.call.id)
        if entry is None or bound.problem is not None:
            return True
        for waiting in entry.list_open(bound.call):
            value = (yield from self._consult(waiting.question)) if waiting.is_for_person else None
            if value is None:
                return False
            self.inputs.answer(waiting, value)
            yield from ask(Emit(QuestionAnswered(waiting, value)))
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
            if not (problem := find_answer_problem(question, value)):
                return value
            if not isinstance(function, Person):
                expected = explain_answer(question, value)
                raise RunError(f"on_question= returned no valid answer to {question.text!r:.60}: {expected}")
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
        function = self._find_function()

        def make() -> CallQuestions:
            entry = self.inputs.asking.get(identity)
            answered = Answers({**entry.answers}, entry.state) if entry else None
            known = entry.list_known() if entry else []

            def register(asking: InputRequired) -> None:
                self.inputs.asking[identity] = AskingCall(asking.questions, asking.state, {}, known)

            return CallQuestions(answered, known, register)

        if function is None:
            return bound.within(make)

        def respond() -> Respondent:
            outer = enclosing(Respondent) or NO_RESPONDENT
            return Respondent(outer.decide, function, outer.inputs)

        return bound.within(make, respond)
