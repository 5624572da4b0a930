"""The answer is looked at before it counts: whoever finds fault with it sends it back to the model with the reason."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from ..core.background import resolve, run_in_thread
from ..core.delimiters import remove_delimiters
from ..core.errors import ExceptionInfo, ToolError
from ..core.flow import Effect, Emit, Flow, Policy, WarningEvent, ask, interpret
from ..core.messages import Message, assistant, text_of, tool_names
from ..engine.loop import REMINDER
from ..engine.model import AskModel, Reply
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools
from ..tools.final_answer import make_answer_call, takes_text

Check: TypeAlias = Callable[..., object]
"""Takes the answer, or the answer and the `Material` of the run; raises what is wrong with it."""

MAX_REFUSALS = 2
"""How often one check may send the answer back; a check with an attribute `refusals` says so itself."""


@dataclass(frozen=True, slots=True)
class AnswerDoubted(WarningEvent):
    """The answer was taken although a check still finds fault with it."""

    reason: str

    @property
    def notice(self) -> str:
        return f"the answer is taken in spite of this: {self.reason}"


def check_answers(checks: Sequence[Check], history: Sequence[Message]) -> Policy:
    """Let each of `checks` look at the answer; what one raises, the model reads as the result of its answer.

    The text of a `ToolError` goes to the model as it is.  A check sends answers back `REFUSALS` times; after that, and
    in the last request of a run that is at its limit, the answer is taken and `AnswerDoubted` says why it should not
    be.  `history` is the conversation of the run.  A plain text that would be taken for the answer is made the call
    that it should have been.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        trial = _AnswerChecker(checks, history)

        def handle(effect: Effect[Any]) -> Flow[Any]:
            if isinstance(effect, CallTools):
                effect = replace(effect, calls=tuple(map(trial.checked, effect.calls)))
            outcome = yield from ask(effect)
            if isinstance(effect, AskModel):
                outcome = trial.reply(effect, outcome)
            while trial.doubts:
                yield from ask(Emit(AnswerDoubted(trial.doubts.pop(0))))
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
    texts: int = 0
    is_last: bool = False

    def reply(self, effect: AskModel, reply: Reply) -> Reply:
        """The reply, or the call that it stands for if the loop would take its text for the answer."""
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

    def checked(self, bound: BoundCall) -> BoundCall:
        """The call; that of the answer fails if a check does."""
        if not bound.is_answer or bound.problem is not None:
            return bound
        return replace(bound, run=partial(self._run, bound))

    def _run(self, bound: BoundCall) -> Any:
        value = bound.run()
        return self._later(value, bound) if inspect.isawaitable(value) else self._judged(value, bound)

    async def _later(self, value: Any, bound: BoundCall) -> Any:
        return await run_in_thread(partial(self._judged, await value, bound))

    def _judged(self, answer: Any, bound: BoundCall) -> Any:
        """The answer; raises what the first check has against it that may still send it back."""
        material = Material(self.history, bound.call.name)
        for place, check in enumerate(self.checks):
            try:
                resolve(check(answer, material) if _wants_material(check) else check(answer))
            except Exception as error:
                reason = str(ExceptionInfo.of(error))
                refused = self.refused.get(place, 0)
                if self.is_last or refused >= getattr(check, "refusals", MAX_REFUSALS):
                    self.doubts.append(reason)
                    continue
                self.refused[place] = refused + 1
                if isinstance(error, ToolError):
                    raise
                again = f"Correct it and call {bound.call.name} again."
                raise ToolError(f"The answer was not accepted. {reason}\n{again}") from error
        return answer


def _wants_material(check: Check) -> bool:
    parameters = inspect.signature(check).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(entry.kind in kinds and entry.default is inspect.Parameter.empty for entry in parameters) > 1


@dataclass(frozen=True, slots=True)
class Material:
    """The conversation that led to an answer; `answer_tool` is the tool whose results are about the answer itself."""

    messages: Sequence[Message]
    answer_tool: str = ""

    @property
    def query(self) -> str:
        """The last that the person said."""
        said = [text_of(message) for message in self.messages if message["role"] == "user"]
        return next((text for text in reversed(said) if text != REMINDER), "")

    @property
    def results(self) -> list[str]:
        """What the tools returned, as the model read it, without the fences around what came from outside."""
        names = tool_names(self.messages)
        return [
            remove_delimiters(text_of(message))
            for message in self.messages
            if message["role"] == "tool" and names.get(message["tool_call_id"]) != self.answer_tool
        ]

    @property
    def text(self) -> str:
        """All that the model was told: the instruction, what was said by the person, and the tools' results."""
        said = [text_of(message) for message in self.messages if message["role"] in ("system", "user")]
        return "\n".join([*said, *self.results])
