"""The final request: a run that cannot continue is asked for its answer once, with the answer tool alone, forced.

A policy that ends a run raises `LimitExceeded` or `NoAnswer` in place of a request.  This policy, nearer to the loop,
catches the error, and raises it again if the final request brings no valid answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..core.context import RunContext
from ..core.errors import LimitExceeded, NoAnswer, RunError, StopReason
from ..core.flow import Emit, Flow, Hooks, Policy, WarningEvent, ask, interpret
from ..core.masking import mask
from ..core.messages import ToolCall, assistant, text_of, user
from ..core.values import frozen
from ..engine.model import AskModel, Reply
from ..tools.execution.call import BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.final_answer import make_answer_call
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry

FINAL_PROMPT = (
    "This is the last request of this run, and no other tool can be used any more. "
    "Call final_answer now with what is known so far."
)
MAX_CAUSE_CHARS = 300
"""Characters of an error that the message of the run's error repeats."""
NOT_RUN_AT_END = "Not run: the run is at its end, and only final_answer is left."


@frozen
class FinalRequest(WarningEvent):
    """A run cannot continue; the model is asked for its answer in one final request.

    `cause` is the last error of the last turn with calls, as "tool: error"; "" if none of them failed.
    """

    reason: StopReason
    cause: str = ""

    @property
    def notice(self) -> str:
        cause = f"; last error: {self.cause}" if self.cause else ""
        return f"the run cannot continue ({self.reason}); asking for the final answer{cause}"


def request_final_answer(context: RunContext[Any] | None = None) -> Policy:
    """Make one final request when a policy further out raises `LimitExceeded` or `NoAnswer`.

    A plain text becomes the call of the answer tool, if it is a valid answer.  `stopped` of the answer is the reason.

    Args:
        context: What the answer tool gets injected.

    Raises:
        LimitExceeded | NoAnswer: The final request brought no valid answer; `partial` is the model's last text.  The
            message ends with the last error of a call, which may be the invalid answer's.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        state = _FinalRequestPolicy(context)
        asking: Flow[Any] = interpret(flow, Hooks(state.check, state.note_reply, state.end), AskModel)
        return interpret(asking, Hooks(state.allow_answers, state.note_results), CallTools)

    return policy


@dataclass(slots=True)
class _FinalRequestPolicy:
    """The state of one run: the error that ends it, and the model's last text."""

    context: RunContext[Any] | None
    ending: LimitExceeded | NoAnswer | None = None
    partial: str = ""
    cause: str = ""
    answer: JsonTool[..., Any] | None = None

    def allow_answers(self, effect: CallTools) -> CallTools:
        """Return the calls; after the final request, only one of the answer tool runs."""
        return effect if self.ending is None else effect.with_calls(map(self._allow_answer, effect.calls))

    def check(self, effect: AskModel) -> AskModel:
        """Return the request; raise the error that ended the run if the final request was made."""
        if self.ending is not None:
            raise self._failed(self.ending)
        return effect

    def note_reply(self, _: AskModel, reply: Reply) -> Reply:
        """Store the text of a reply."""
        self.partial = text_of(reply.message) or self.partial
        return reply

    def end(self, effect: AskModel, error: Exception) -> Flow[Reply] | None:
        """Make the final request if the error ends the run."""
        if not isinstance(error, LimitExceeded | NoAnswer):
            return None
        self.ending = error
        return self._ask_finally(effect, error)

    def note_results(self, _: CallTools, results: list[ToolResult]) -> list[ToolResult]:
        """Store the last error of a turn; return the results, the answer after the final request with the reason."""
        errors = [(result.call.name, str(result.error)) for result in results if result.error is not None]
        causes = [_shorten(f"{name}: {text}") for name, text in errors if not text.startswith("Not run: ")]
        if causes or not errors:  # calls that a limit refused keep the error of the turn before them
            self.cause = causes[-1] if causes else ""
        return results if self.ending is None else [replace(one, stopped=self.ending.reason) for one in results]

    def _ask_finally(self, effect: AskModel, ending: LimitExceeded | NoAnswer) -> Flow[Reply]:
        request = effect.request
        if request.tools.answer is None:
            raise self._failed(ending)
        yield from ask(Emit(FinalRequest(ending.reason, self.cause)))
        self.answer = request.tools.answer
        only_answer = ToolRegistry(answer=request.tools.answer, repair=request.tools.repair)
        messages = [*request.messages, user(FINAL_PROMPT)]
        request = replace(request, messages=messages, tools=only_answer, tool_choice=request.tools.answer.name)
        try:
            reply: Reply = yield from ask(replace(effect, request=request))
        except RunError as error:
            self.cause = _shorten(f"the final request: {error}")
            raise self._failed(ending, error.partial) from error
        text = text_of(reply.message)
        self.partial = text or self.partial
        if reply.message.get("tool_calls"):
            return reply
        if (call := self._read_answer(text, only_answer)) is None:
            raise self._failed(ending)
        return replace(reply, message={**reply.message, **assistant(None, [call])})

    def _read_answer(self, text: str, tools: ToolRegistry) -> ToolCall | None:
        """Return the call of the answer tool that a text stands for, if its arguments are valid."""
        answer = tools.answer
        if answer is None or not text:
            return None
        call = make_answer_call(text, answer)
        problem = tools.bind(call, self.context).problem
        if problem is not None and not self.cause:
            reason = str(problem) if text.lstrip().startswith("{") else "the reply is a text without the answer"
            self.cause = _shorten(f"{call.name}: {reason}")
        return call if problem is None else None

    def _allow_answer(self, bound: BoundCall) -> BoundCall:
        """Return a call of the answer tool as it is; any other call fails."""
        if bound.tool is not None and bound.tool is self.answer:
            self.partial = bound.call.arguments
            return bound
        return bound.refuse(NOT_RUN_AT_END)

    def _failed(self, ending: LimitExceeded | NoAnswer, text: str = "") -> RunError:
        if self.cause:
            ending.args = (f"{ending}. Last error: {self.cause}", *ending.args[1:])
        ending.partial = text or self.partial or ending.partial
        return ending


def _shorten(cause: str) -> str:
    """Return an error as one line; it is masked before it is truncated, because a truncated secret does not match."""
    line = " ".join(mask(cause).split())
    return line if len(line) <= MAX_CAUSE_CHARS else f"{line[:MAX_CAUSE_CHARS]} ..."
