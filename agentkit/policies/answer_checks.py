"""Checks of the answer before it is accepted; a failed check sends it back to the model with the reason."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from ..core.background import resolve, run_in_thread
from ..core.errors import DefinitionError, ExceptionInfo, ToolError, plain_signature
from ..core.flow import Effect, Emit, Flow, Policy, WarningEvent, ask, interpret
from ..core.messages import Message, assistant, remove_delimiters, text_of, tool_names
from ..core.values import frozen
from ..engine.loop import REMINDER
from ..engine.model import AskModel, Reply
from ..tools.execution.call import BoundCall, CallRefused
from ..tools.execution.call_tools import CallTools
from ..tools.final_answer import make_answer_call, takes_text

Check: TypeAlias = Callable[..., object]
"""Takes the answer, or the answer and the `Material` of the run.

It fails by raising `ValueError`, `AssertionError` or `ToolError`, or by returning False or a text that says what is
wrong; any other value passes.  Any other exception is a bug of the check, and ends the run.
"""

MAX_REFUSALS = 2
"""How often one check may send the answer back, unless it has an attribute `refusals`."""


@frozen
class AnswerDoubted(WarningEvent):
    """The answer was accepted although a check still fails."""

    reason: str

    @property
    def notice(self) -> str:
        return f"the answer is accepted although a check failed: {self.reason}"


def check_answers(checks: Sequence[Check], history: Sequence[Message]) -> Policy:
    """Check each answer; the reason of a failed check is the result of the answer's call, which the model reads.

    The text of a `ToolError` reaches the model unchanged.  A check sends answers back `MAX_REFUSALS` times.  After
    that, and in the final request of a run, the answer is accepted and `AnswerDoubted` holds the reason.  A plain text
    that would be accepted as the answer becomes a call of the answer tool first.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        checker = _AnswerChecker(checks, history)

        def handle(effect: Effect[Any]) -> Flow[Any]:
            if isinstance(effect, CallTools):
                effect = effect.with_calls(map(checker.check_call, effect.calls))
            outcome = yield from ask(effect)
            if checker.bug is not None:
                raise checker.bug
            if isinstance(effect, AskModel):
                outcome = checker.read_reply(effect, outcome)
            while checker.doubts:
                yield from ask(Emit(AnswerDoubted(checker.doubts.pop(0))))
            return outcome

        return interpret(flow, handle, (AskModel, CallTools))

    return policy


@dataclass
class _AnswerChecker:
    """The checks of one run, and how often each has sent an answer back."""

    checks: Sequence[Check]
    history: Sequence[Message]
    refused: dict[int, int] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    bug: Exception | None = None
    texts: int = 0
    is_last: bool = False

    def read_reply(self, effect: AskModel, reply: Reply) -> Reply:
        """Return the reply; a text that the loop would accept as the answer becomes a call."""
        answer = effect.request.tools.answer
        self.is_last = answer is not None and effect.request.tool_choice == answer.name
        if reply.message.get("tool_calls"):
            self.texts = 0
            return reply
        self.texts += 1
        text = text_of(reply.message)
        if answer is None or not text or self.texts < 2 or not takes_text(answer):
            return reply
        return replace(reply, message={**reply.message, **assistant(None, [make_answer_call(text, answer)])})

    def check_call(self, bound: BoundCall) -> BoundCall:
        """Return the call; one of the answer tool fails if a check fails."""
        if not bound.is_answer or bound.problem is not None:
            return bound
        return replace(bound, run=partial(self._run, bound))

    def _run(self, bound: BoundCall) -> Any:
        value = bound.run()
        return self._judge_later(value, bound) if inspect.isawaitable(value) else self._judge(value, bound)

    async def _judge_later(self, value: Any, bound: BoundCall) -> Any:
        return await run_in_thread(partial(self._judge, await value, bound))

    def _judge(self, answer: Any, bound: BoundCall) -> Any:
        """Return the answer; raise the reason of the first failed check that may still send it back."""
        material = Material(self.history, bound.call.name)
        for place, check in enumerate(self.checks):
            try:
                verdict = resolve(check(answer, material) if _wants_material(check) else check(answer))
                _raise_if_failed(check, verdict)
            except OBJECTIONS as error:
                reason = str(error) if isinstance(error, _CheckFailed) else str(ExceptionInfo.of(error))
                refused = self.refused.get(place, 0)
                if self.is_last or refused >= getattr(check, "refusals", MAX_REFUSALS):
                    self.doubts.append(reason)
                    continue
                self.refused[place] = refused + 1
                if not isinstance(error, ToolError):
                    again = f"Correct it and call {bound.call.name} again."
                    reason = f"The answer was not accepted. {reason}\n{again}"
                raise CallRefused(ExceptionInfo(ToolError.__name__, reason)) from error
            except Exception as error:  # of the developer: the policy raises it, no model reads it
                error.add_note(
                    f"raised in checks: {_name_of(check)}. A check refuses an answer with ValueError or ToolError"
                )
                self.bug = error
                break
        return answer


class _CheckFailed(Exception):
    """A check returned False, or this text."""


OBJECTIONS = (_CheckFailed, ToolError, ValueError, AssertionError)
"""What a check raises to send an answer back; these two of Python's are also those of pydantic's validators."""


def _raise_if_failed(check: Check, verdict: object) -> None:
    """Raise `_CheckFailed` for a verdict of False, or a text that says what is wrong."""
    if type(verdict).__name__ in ("bool", "bool_") and not verdict:  # numpy has one, too
        raise _CheckFailed(f"The check {_name_of(check)} failed.")
    if isinstance(verdict, str) and verdict:
        raise _CheckFailed(verdict)


def _name_of(check: Check) -> str:
    return str(getattr(check, "__name__", type(check).__name__))


def _wants_material(check: Check) -> bool:
    parameters = plain_signature(check).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(entry.kind in kinds and entry.default is inspect.Parameter.empty for entry in parameters) > 1


def check_arity(check: Check) -> None:
    """Raise `DefinitionError` for a check that takes neither the answer alone nor the answer and the material."""
    try:
        plain_signature(check).bind(*[None] * (1 + _wants_material(check)))
    except (TypeError, ValueError) as error:  # ValueError: a builtin without a signature
        name = getattr(check, "__name__", repr(check))
        text = "must take the answer, or the answer and the Material of the run"
        remedy = f"Write def {name}(answer): ..., or {name}() if that returns the check."
        raise DefinitionError(f"checks: {name} {text} ({error}). {remedy}") from None


@frozen
class Material:
    """The conversation that led to an answer; `answer_tool` is the tool whose results are left out."""

    messages: Sequence[Message]
    answer_tool: str = ""

    @property
    def query(self) -> str:
        """The last user message."""
        texts = [text_of(message) for message in self.messages if message["role"] == "user"]
        return next((text for text in reversed(texts) if text != REMINDER), "")

    @property
    def results(self) -> list[str]:
        """The tools' results as the model read them, without the delimiters around untrusted ones."""
        names = tool_names(self.messages)
        return [
            remove_delimiters(text_of(message))
            for message in self.messages
            if message["role"] == "tool" and names.get(message["tool_call_id"]) != self.answer_tool
        ]

    @property
    def text(self) -> str:
        """The instruction, the user messages and the tools' results."""
        texts = [text_of(message) for message in self.messages if message["role"] in ("system", "user")]
        return "\n".join([*texts, *self.results])
