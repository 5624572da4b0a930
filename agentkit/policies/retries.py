"""Requests that are made again: after a transient error, an empty, truncated or refused reply, or by another model.

Only the request to the model is repeated: no tool runs a second time.  An unused reply never reaches the history, and
the note about it to the model stands in the repeated request only.  The policy that joins truncated replies stands
outside of those that read calls in texts, so they see whole replies; the one for echoes of the instruction inside.

Some servers accept no other `tool_choice` than "auto", and some models do not while they think: the request is repeated
with it.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from ..core.errors import ModelError, ModelErrorKind, NoAnswer
from ..core.flow import Emit, Flow, Hooks, Policy, Sleep, WarningEvent, around, ask, interpret
from ..core.messages import Message, assistant, text_of, user
from ..core.portable import iterate_scalars, parse_json
from ..core.values import frozen
from ..engine.loop import REMINDER
from ..engine.model import AskModel, Model, Reply, Request
from ..schemas.walk import iter_schemas
from ..tools.final_answer import takes_text
from .final_request import FINAL_PROMPT, FinalRequest
from .limits import cap_timeout

WAITS = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each retry."""
MAX_WAIT_SECONDS = 10.0
"""The error is raised when the provider asks for a longer wait: the caller decides then."""
MAX_RETRY_SECONDS = 180.0
"""Seconds after the first attempt in which another one may begin."""


@frozen
class Retrying(WarningEvent):
    """A request failed and is repeated after `seconds`.

    The deltas since the last `ModelAsked` belong to the failed reply: remove them where they were displayed.
    """

    error: ModelError
    seconds: float

    @property
    def ends_request(self) -> object:
        return self.error

    @property
    def waits_for(self) -> str:
        return "to ask again"

    @property
    def notice(self) -> str:
        return f"{self.error}; asking again in {self.seconds:.1f} s"


def retry(
    waits: Sequence[float] = WAITS,
    *,
    max_wait: float = MAX_WAIT_SECONDS,
    max_seconds: float = MAX_RETRY_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Policy:
    """Repeat a request after a transient error, once for each of `waits`.

    The provider's `Retry-After` replaces the wait.  The request's own `timeout` holds for all attempts together.

    Args:
        waits: Seconds before each retry, varied randomly by 20 %.
        max_wait: The longest `Retry-After`, in seconds; beyond it the error is raised.
        max_seconds: Seconds after the first attempt in which another one may begin.
        clock: Returns the time in seconds.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        begun = 0.0

        def begin(effect: AskModel) -> AskModel | Flow[Reply]:
            nonlocal begun
            begun = clock()
            return effect if effect.request.timeout is None else repeat(effect, begun)

        def fail(effect: AskModel, error: Exception) -> Flow[Reply] | None:
            return repeat(effect, begun, error) if isinstance(error, ModelError) and error.transient else None

        return interpret(flow, Hooks(begin, failed=fail), AskModel)

    def repeat(effect: AskModel, begun: float, error: ModelError | None = None) -> Flow[Reply]:
        timeout = effect.request.timeout
        end = begun + (math.inf if timeout is None else timeout)
        latest = min(begun + max_seconds, end)
        for tries, wait in enumerate((*waits, None), 1):
            if error is None:
                try:
                    request = cap_timeout(effect.request, end - clock())
                    return (yield from ask(effect if timeout is None else AskModel(effect.model, request)))
                except ModelError as caught:
                    error = caught
            if wait is None:
                raise _note_tries(error, tries)
            seconds = wait * random.uniform(0.8, 1.2) if error.retry_after is None else error.retry_after
            if not error.transient or seconds > max_wait or clock() + seconds >= latest:
                if seconds > max_wait:
                    error.add_note(
                        f"The provider asks to wait {seconds:g} seconds, more than the maximum of {max_wait:g}."
                    )
                raise _note_tries(error, tries)
            yield from ask(Emit(Retrying(error, seconds)))
            yield from ask(Sleep(seconds))
            error = None
        raise AssertionError("the last attempt returns or raises")

    return policy


def _note_tries(error: ModelError, tries: int) -> ModelError:
    if tries > 1:
        error.add_note(f"The request was made {tries} times.")
    return error


FALLBACK_KINDS: frozenset[ModelErrorKind] = frozenset(get_args(ModelErrorKind)) - {"refused"}
"""The errors for which another model may work: it may exist, accept the request or have a larger window.

Refusals are left out: asking other models until one complies is the caller's decision.
"""


@frozen
class FallenBack(WarningEvent):
    """A model failed, and its deltas since the last `ModelAsked` are void; the run continues with `model`."""

    error: ModelError
    model: str

    @property
    def ends_request(self) -> object:
        return self.error

    @property
    def notice(self) -> str:
        return f"{self.error}; continuing with {self.model}"


def fallback(models: Sequence[Model], *, kinds: Collection[ModelErrorKind] = FALLBACK_KINDS) -> Policy:
    """Ask the next of `models` with the same conversation when one fails.

    The run stays with the model that worked.  When that one fails later, the others are asked again in turn, the run's
    own model included, each once.

    Args:
        models: The models to fall back to, in this order.
        kinds: The kinds of `ModelError` that lead to the next model.

    Raises:
        ModelError: All models failed; the last error, with the others in its notes.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        place = 0

        def handle(effect: AskModel) -> Flow[Any]:
            nonlocal place
            known = (effect.model, *models)
            failed: list[ModelError] = []
            while True:
                try:
                    return (yield from ask(effect if place == 0 else replace(effect, model=known[place])))
                except ModelError as error:
                    failed.append(error)
                last = failed[-1]
                if last.kind not in kinds or len(failed) == len(known):
                    for earlier in failed[:-1]:
                        last.add_note(f"Asked before: {earlier}")
                    raise last
                place = (place + 1) % len(known)
                yield from ask(Emit(FallenBack(last, known[place].name)))

        return interpret(flow, handle, AskModel)

    return policy


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
ECHO_PROMPT = (
    "The last reply repeated its instruction, which is no answer. Call a tool, or call final_answer with the answer to "
    "the question of the user in words of your own."
)
_REFUSAL_REASONS = ("content_filter", "refusal")


@frozen
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

        def complete(effect: AskModel, reply: Reply) -> Reply | Flow[Reply]:
            if reply.finish_reason != "length" and (reply.message.get("tool_calls") or text_of(reply.message)):
                return reply
            left = {"empty": 0, "cut": 0, "text": 0} if is_last else {**_REPETITIONS}
            return _ReplyRequest(effect, left).complete(reply)

        def note_end(effect: Emit) -> Emit:
            nonlocal is_last
            is_last = is_last or isinstance(effect.event, FinalRequest)
            return effect

        return interpret(interpret(flow, Hooks(after=complete), AskModel), Hooks(note_end), Emit)

    return policy


_REPETITIONS = {"empty": MAX_EMPTY_RETRIES, "cut": MAX_CUT_RETRIES, "text": MAX_CONTINUATIONS}


@dataclass(slots=True)
class _ReplyRequest:
    """One request with its repetitions: the repetitions that are left, and the text so far."""

    effect: AskModel
    left: dict[str, int]
    text: str = ""

    def complete(self, reply: Reply) -> Flow[Reply]:
        """Return `reply` if it is of use, else that of a repetition."""
        while True:
            content = reply.message.get("content")
            text = content if isinstance(content, str) else text_of(reply.message)  # unchanged, to join pieces
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
            reply = yield from ask(self._again(note))

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


OWN_PROMPTS = (REMINDER, FINAL_PROMPT, EMPTY_PROMPT, SHORTER_PROMPT, CONTINUE_PROMPT, ECHO_PROMPT)
"""What the policies and the loop write into a conversation in the place of a user."""
MIN_ECHO_WORDS = 5
"""Words of a text that repeats the instruction; a shorter one may be an answer by chance."""
MAX_OWN_SHARE = 0.25
"""The share of a text's words beside the repeated sentences with which it still is no answer."""


def retry_echoes(instructions: Sequence[str]) -> Policy:
    """Repeat a request once after a reply whose answer repeats the texts of the agent itself.

    These are `instructions`, the reminders of a run, and the description of the answer tool.  Small models repeat them
    when they have nothing to answer.

    Raises:
        NoAnswer: The second reply repeats them too, or the reply to the final request does.
    """
    own = [*map(_list_words, _list_sentences((*instructions, *OWN_PROMPTS)))]

    def check(effect: AskModel, reply: Reply) -> Reply | Flow[Reply]:
        return ask_again(effect) if _is_echo(reply.message, effect.request, own) else reply

    def ask_again(effect: AskModel) -> Flow[Reply]:
        request = effect.request
        if text_of(request.messages[-1]) != FINAL_PROMPT:
            yield from ask(Emit(ReplyDropped("a repetition of its instruction")))
            messages = [*request.messages, user(ECHO_PROMPT)]
            reply: Reply = yield from ask(replace(effect, request=replace(request, messages=messages)))
            if not _is_echo(reply.message, request, own):
                return reply
        raise NoAnswer(f"{effect.model.name}: its replies repeat the instruction")

    return around(Hooks(after=check), AskModel)


def _is_echo(message: Message, request: Request, own: Sequence[str]) -> bool:
    """Return whether the answer in a reply, a text or the texts of an answer's call, repeats one of the own texts."""
    answer = request.tools.answer
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    if answer is None or (calls and answer.name not in [call["name"] for call in calls]):
        return False
    texts = [text_of(message)]
    if calls:
        given = [parse_json(call["arguments"]) for call in calls if call["name"] == answer.name]
        texts = [text for text in iterate_scalars(given) if isinstance(text, str)]
    if not (texts := [text for text in texts if _is_long(text)]):
        return False
    parts = [schema.get("description") for schema in iter_schemas(answer.parameters)]
    described = [text for text in (answer.description, *parts) if isinstance(text, str)]
    if takes_text(answer):
        return any(_repeats(text, (*own, *map(_list_words, _list_sentences(described)))) for text in texts)
    # a part of a description that is the user's own may be a valid value: an example, say
    whole = [*map(_list_words, described)]
    return any(_repeats(text, own) or _list_words(text) in whole for text in texts)


def _repeats(text: str, own: Sequence[str]) -> bool:
    """Return whether a long text is a part of an own sentence, or own sentences with little beside them."""
    words = _list_words(text)
    rest = words
    for sentence in own:
        if words in sentence:
            return True
        while sentence in rest:  # repetitions share the space between them
            rest = rest.replace(sentence, " ")
    return rest != words and len(rest.split()) <= len(words.split()) * MAX_OWN_SHARE and not re.search(r"\d", rest)


def _is_long(text: str) -> bool:
    return len(_list_words(text).split()) >= MIN_ECHO_WORDS


def _list_sentences(texts: Sequence[str]) -> list[str]:
    """Return the whole texts, and their sentences that are long enough to be recognised."""
    sentences = [sentence for text in texts for sentence in re.split(r"(?<=[.:;!?])\s+|\n\s*\n", text)]
    return [*texts, *(sentence for sentence in sentences if _is_long(sentence))]


def _list_words(text: str) -> str:
    """Return the words of a text in lower case, with spaces around them, so that a part begins with a whole word."""
    words = re.findall(r"[^\W_]+", text.casefold())
    return f" {' '.join(words)} "


def raise_refusals() -> Policy:
    """Raise `ModelError` of the kind "refused", with the provider's text, for a refused reply."""

    def check(effect: AskModel, reply: Reply) -> Reply:
        message = reply.message
        reason = message.get("refusal") or (message.get("provider_specific_fields") or {}).get("refusal")
        if not reason and reply.finish_reason not in _REFUSAL_REASONS:
            return reply
        text = text_of(message)
        reason = reason or text or "the provider's content filter stopped the reply"
        error = ModelError(f"{effect.model.name}: {reason}", kind="refused", status=200)
        error.partial = text
        raise error

    return around(Hooks(after=check), AskModel)


def retry_unforced() -> Policy:
    """Repeat a request that forces a call once, with `tool_choice="auto"`, when it is refused."""

    def find_cause(effect: AskModel, error: Exception) -> Flow[Reply] | None:
        if effect.request.tool_choice in ("auto", "none") or not isinstance(error, ModelError):
            return None
        # OpenRouter: 404 "No endpoints found that support [...]"
        may_be_cause = error.kind == "bad_request" or "tool_choice" in str(error)
        return ask_unforced(effect, error) if may_be_cause else None

    def ask_unforced(effect: AskModel, error: ModelError) -> Flow[Reply]:
        yield from ask(Emit(Retrying(error, 0.0)))
        return (yield from ask(replace(effect, request=replace(effect.request, tool_choice="auto"))))

    return around(Hooks(failed=find_cause), AskModel)
