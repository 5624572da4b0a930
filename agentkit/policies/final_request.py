"""The final request: a run that cannot continue is asked for its answer once, with the answer tool alone, forced.

A policy that ends a run raises `LimitExceeded` or `NoAnswer` in place of a request.  This policy, nearer to the loop,
catches the error, and raises it again if the final request brings no valid answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..core.context import RunContext
from ..core.errors import LimitExceeded, NoAnswer, RunError, StopReason
from ..core.flow import Effect, Emit, Flow, Policy, WarningEvent, ask, interpret
from ..core.messages import ToolCall, assistant, text_of, user
from ..engine.model import AskModel, Reply
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools
from ..tools.final_answer import make_answer_call
from ..tools.registry import ToolRegistry

FINAL_PROMPT = (
    "This is the last request of this run, and no other tool can be used any more. "
    "Call final_answer now with what is known so far."
)
NOT_RUN = "Not run: the run is at its end, and only final_answer is left."


@dataclass(frozen=True, slots=True)
class FinalRequest(WarningEvent):
    """A run cannot continue; the model is asked for its answer in one final request."""

    reason: StopReason

    @property
    def notice(self) -> str:
        return f"the run cannot continue ({self.reason}); asking for the final answer"


def request_final_answer(context: RunContext[Any] | None = None) -> Policy:
    """Make one final request when a policy further out raises `LimitExceeded` or `NoAnswer`.

    A plain text becomes the call of the answer tool, if it is a valid answer.

    Args:
        context: What the answer tool gets injected.

    Raises:
        LimitExceeded | NoAnswer: The final request brought no valid answer; `partial` is the model's last text.
    """
    return lambda flow: interpret(flow, _FinalRequestPolicy(context).handle, (AskModel, CallTools))


class _FinalRequestPolicy:
    """The state of one run: the error that ends it, and the model's last text."""

    def __init__(self, context: RunContext[Any] | None) -> None:
        self.context = context
        self.ending: LimitExceeded | NoAnswer | None = None
        self.partial = ""
        self.tools = ToolRegistry()

    def handle(self, effect: Effect[Any]) -> Flow[Any]:
        if isinstance(effect, CallTools) and self.ending is not None:
            effect = replace(effect, calls=tuple(map(self._allow_answer, effect.calls)))
        if not isinstance(effect, AskModel):
            return (yield from ask(effect))
        if self.ending is not None:
            raise self._failed(self.ending)
        try:
            reply: Reply = yield from ask(effect)
        except (LimitExceeded, NoAnswer) as error:
            self.ending = error
        else:
            self.partial = text_of(reply.message) or self.partial
            return reply
        return (yield from self._ask_finally(effect, self.ending))

    def _ask_finally(self, effect: AskModel, ending: LimitExceeded | NoAnswer) -> Flow[Reply]:
        request = effect.request
        if request.tools.answer is None:
            raise self._failed(ending)
        yield from ask(Emit(FinalRequest(ending.reason)))
        self.tools = request.tools.filtered(lambda _: False)
        messages = [*request.messages, user(FINAL_PROMPT)]
        request = replace(request, messages=messages, tools=self.tools, tool_choice=request.tools.answer.name)
        try:
            reply: Reply = yield from ask(replace(effect, request=request))
        except RunError as error:
            raise self._failed(ending, error.partial) from error
        text = text_of(reply.message)
        self.partial = text or self.partial
        if reply.message.get("tool_calls"):
            return reply
        if (call := self._read_answer(text)) is None:
            raise self._failed(ending)
        return replace(reply, message={**reply.message, **assistant(None, [call])})

    def _read_answer(self, text: str) -> ToolCall | None:
        """Return the call of the answer tool that a text stands for, if its arguments are valid."""
        answer = self.tools.answer
        if answer is None or not text:
            return None
        call = make_answer_call(text, answer)
        return call if self.tools.bind(call, self.context).problem is None else None

    def _allow_answer(self, bound: BoundCall) -> BoundCall:
        """Return a call of the answer tool as it is; any other call fails."""
        if bound.tool is not None and bound.tool is self.tools.answer:
            self.partial = bound.call.arguments
            return bound
        return bound.refuse(NOT_RUN)

    def _failed(self, ending: LimitExceeded | NoAnswer, text: str = "") -> RunError:
        ending.partial = text or self.partial or ending.partial
        return ending
