"""Replies that are none: empty ones, ones that were cut off, ones that the provider refused to write.

The model is asked again, a bounded number of times; what is said to it then stands in the request only, and what is not
used of its replies never reaches the history.  Outside of whatever reads calls in texts, which then sees whole ones.
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

MAX_EMPTY_RETRIES = 2
"""How often the model is asked again after an empty reply."""
MAX_CUT_RETRIES = 2
"""How often, after one that the token limit cut before it was of use: in the middle of a call, or of its thoughts."""
MAX_CONTINUATIONS = 3
"""How often a text that the token limit cut is continued."""
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
    """A reply is of no use ("empty", "cut") and the model is asked again; what was streamed of it does not count."""

    why: str

    @property
    def notice(self) -> str:
        return f"the reply was {self.why}; asking again"


def retry_incomplete_replies() -> Policy:
    """Let only whole replies through: ask again after an empty or a cut one, and put the pieces of a text together.

    A call of a reply that was cut is never run, for its arguments may be half of what was meant.  Raises `NoAnswer`
    when the model keeps saying nothing, `ModelError` of the kind "length" when its replies keep being cut.  In the last
    request of a run nothing is asked again.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        is_last = False

        def handle(effect: Effect[Any]) -> Flow[Any]:
            nonlocal is_last
            if isinstance(effect, AskModel):
                return (yield from _ReplyRequest(effect, is_last).whole())
            if isinstance(effect, Emit) and isinstance(effect.event, FinalRequest):
                is_last = True
            return (yield from ask(effect))

        return interpret(flow, handle, (AskModel, Emit))

    return policy


class _ReplyRequest:
    """One request and those made in its place: what is said so far, and what may still be asked."""

    def __init__(self, effect: AskModel, is_last: bool) -> None:
        self.effect = effect
        self.said = ""
        self.left = (
            {"empty": 0, "cut": 0, "text": 0}
            if is_last
            else {"empty": MAX_EMPTY_RETRIES, "cut": MAX_CUT_RETRIES, "text": MAX_CONTINUATIONS}
        )

    def whole(self) -> Flow[Reply]:
        effect = self.effect
        while True:
            reply: Reply = yield from ask(effect)
            text, calls = _raw_text(reply), reply.message.get("tool_calls")
            if reply.finish_reason != "length":
                if text.strip() or calls or self.said:
                    return self._joined(reply, text)
                why, note = "empty", EMPTY_PROMPT
            elif text.strip() and not calls:
                why, note = "text", CONTINUE_PROMPT
                self.said += text
            else:
                why, note = "cut", SHORTER_PROMPT
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
            raise NoAnswer(f"{name} keeps giving empty replies")
        error = ModelError(
            f"{name}: its replies keep being cut off by the limit on tokens; allow longer ones (max_tokens=...)",
            kind="length",
            status=200,
        )
        error.partial = self.said
        raise error

    def _again(self, note: str) -> AskModel:
        so_far = [assistant(self.said)] if self.said else []
        messages = [*self.effect.request.messages, *so_far, user(note)]
        return replace(self.effect, request=replace(self.effect.request, messages=messages))

    def _joined(self, reply: Reply, text: str) -> Reply:
        return replace(reply, message={**reply.message, "content": self.said + text}) if self.said else reply


def _raw_text(reply: Reply) -> str:
    """The text of a reply as it came, so that its pieces can be put together."""
    content = reply.message.get("content")
    return content if isinstance(content, str) else text_of(reply.message)


def raise_refusals() -> Policy:
    """Raise `ModelError` of the kind "refused", in the provider's words, for a reply that it did not want to write."""

    def handle(effect: AskModel) -> Flow[Reply]:
        reply: Reply = yield from ask(effect)
        _raise_if_refused(effect, reply)
        return reply

    return around(handle, AskModel)


def _raise_if_refused(effect: AskModel, reply: Reply) -> None:
    message = reply.message
    words = message.get("refusal") or (message.get("provider_specific_fields") or {}).get("refusal")
    if not words and reply.finish_reason not in _REFUSAL_REASONS:
        return
    text = text_of(message)
    words = words or text or "the provider's content filter stopped the reply"
    error = ModelError(f"{effect.model.name}: {words}", kind="refused", status=200)
    error.partial = text
    raise error
