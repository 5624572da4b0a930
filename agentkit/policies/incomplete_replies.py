"""Replies that are of no use: empty, truncated or refused ones, and those to a forced tool call that a model refuses.

An incomplete reply is requested again, a limited number of times.  The note to the model stands in the repeated request
only, and an unused reply never reaches the history.  The policy stands outside of those that read calls in texts, so
they see whole replies.

Some servers accept no other `tool_choice` than "auto", and some models do not while they think: the request is repeated
with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import ModelError, NoAnswer
from ..core.flow import Effect, Emit, Flow, Policy, WarningEvent, around, ask, interpret
from ..core.messages import assistant, text_of, user
from ..engine.loop import REMINDER
from ..engine.model import AskModel, Reply
from .final_request import FinalRequest
from .retries import Retrying

MAX_EMPTY_RETRIES = 2
"""Repetitions of a request after an empty reply."""
MAX_CUT_RETRIES = 2
"""Repetitions after a reply that the token limit truncated in a call or in its thinking."""
MAX_CONTINUATIONS = 3
"""Continuations of a text that the token limit truncated."""
EMPTY_PROMPT = f"The last reply was empty. {REMINDER}"
SHORTER_PROMPT = (
    "The last reply was cut off by the limit on tokens, so nothing of it was run. Send it again, shorter: "
    "with shorter arguments, fewer calls at once, or a large piece of work in several calls."
)
CONTINUE_PROMPT = (
    "The reply was cut off by the limit on tokens. Continue exactly where it stopped; do not repeat anything."
)
_REFUSAL_REASONS = ("content_filter", "refusal")


@dataclass(frozen=True, slots=True)
class ReplyDropped(WarningEvent):
    """A reply was "empty" or "cut" and the request is repeated; the deltas of the reply are void."""

    why: str

    @property
    def notice(self) -> str:
        return f"the reply was {self.why}; asking again"


def retry_incomplete_replies() -> Policy:
    """Repeat a request after an empty or truncated reply, and join the pieces of a continued text.

    A call of a truncated reply is never run, because its arguments may be incomplete.  The final request of a run is
    not repeated.

    Raises:
        NoAnswer: The model's replies stay empty.
        ModelError: The model's replies stay truncated (kind "length").
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        is_last = False

        def handle(effect: Effect[Any]) -> Flow[Any]:
            nonlocal is_last
            if isinstance(effect, AskModel):
                left = {"empty": 0, "cut": 0, "text": 0} if is_last else {**_REPETITIONS}
                return (yield from _ReplyRequest(effect, left).ask())
            if isinstance(effect, Emit) and isinstance(effect.event, FinalRequest):
                is_last = True
            return (yield from ask(effect))

        return interpret(flow, handle, (AskModel, Emit))

    return policy


_REPETITIONS = {"empty": MAX_EMPTY_RETRIES, "cut": MAX_CUT_RETRIES, "text": MAX_CONTINUATIONS}


@dataclass(slots=True)
class _ReplyRequest:
    """One request with its repetitions: the repetitions that are left, and the text so far."""

    effect: AskModel
    left: dict[str, int]
    text: str = ""

    def ask(self) -> Flow[Reply]:
        effect = self.effect
        while True:
            reply: Reply = yield from ask(effect)
            text = _raw_text(reply)
            calls = reply.message.get("tool_calls")
            if reply.finish_reason != "length":
                if text.strip() or calls or self.text:
                    joined = {**reply.message, "content": self.text + text}
                    return replace(reply, message=joined) if self.text else reply
                why = "empty"
                note = EMPTY_PROMPT
            elif text.strip() and not calls:
                why = "text"
                note = CONTINUE_PROMPT
                self.text += text
            else:
                why = "cut"
                note = SHORTER_PROMPT
            self._spend(why)
            if why != "text":
                yield from ask(Emit(ReplyDropped(why)))
            effect = self._again(note)

    def _spend(self, why: str) -> None:
        if self.left[why]:
            self.left[why] -= 1
            return
        name = self.effect.model.name
        if why == "empty":
            raise NoAnswer(f"{name}: its replies stay empty")
        error = ModelError(
            f"{name}: its replies are truncated by the limit on tokens. Allow longer ones, max_tokens=...",
            kind="length",
            status=200,
        )
        error.partial = self.text
        raise error

    def _again(self, note: str) -> AskModel:
        so_far = [assistant(self.text)] if self.text else []
        messages = [*self.effect.request.messages, *so_far, user(note)]
        return replace(self.effect, request=replace(self.effect.request, messages=messages))


def _raw_text(reply: Reply) -> str:
    """Return the text of a reply unchanged, so that pieces can be joined."""
    content = reply.message.get("content")
    return content if isinstance(content, str) else text_of(reply.message)


def raise_refusals() -> Policy:
    """Raise `ModelError` of the kind "refused", with the provider's text, for a refused reply."""

    def handle(effect: AskModel) -> Flow[Reply]:
        reply: Reply = yield from ask(effect)
        message = reply.message
        reason = message.get("refusal") or (message.get("provider_specific_fields") or {}).get("refusal")
        if not reason and reply.finish_reason not in _REFUSAL_REASONS:
            return reply
        text = text_of(message)
        reason = reason or text or "the provider's content filter stopped the reply"
        error = ModelError(f"{effect.model.name}: {reason}", kind="refused", status=200)
        error.partial = text
        raise error

    return around(handle, AskModel)


def retry_unforced() -> Policy:
    """Repeat a request that forces a call once, with `tool_choice="auto"`, when it is refused."""

    def handle(effect: AskModel) -> Flow[Any]:
        try:
            return (yield from ask(effect))
        except ModelError as caught:
            error = caught
        if not _refuses_forcing(effect.request.tool_choice, error):
            raise error
        yield from ask(Emit(Retrying(error, 0.0)))
        return (yield from ask(replace(effect, request=replace(effect.request, tool_choice="auto"))))

    return around(handle, AskModel)


def _refuses_forcing(tool_choice: str, error: ModelError) -> bool:
    """Return whether the forced call may be the cause; OpenRouter: 404 "No endpoints found that support [...]"."""
    return tool_choice not in ("auto", "none") and (error.kind == "bad_request" or "tool_choice" in str(error))
