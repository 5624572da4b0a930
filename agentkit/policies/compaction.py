"""Conversations longer than the model's context window: what is sent is made shorter, the history stays whole.

The oldest tool results are shrunk first.  Then the oldest parts are left out: earlier turns of the conversation, then
steps of this run, each from the assistant's message up to the next one, so that calls and results stay together.  The
instruction, the current query and the last step always stay.  The results of a last step that is too long by itself are
shrunk before anything is left out, to what fits; where the window is not known, when nothing else helps.

A window is learnt from the provider's refusal and kept, by the model's name, for the life of the process: later
requests are shortened before they are sent.  As long as a model has refused nothing, this costs nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import ModelError
from ..core.flow import Emit, Flow, Policy, WarningEvent, ask, interpret
from ..engine.model import AskModel, Reply, Request
from .context_window import parse_window
from .shortening import PinnedMessages, ShortenedHistory

MAX_RETRIES = 2
"""How often one request is shortened and made again."""
_FULL, _ROOMY = 0.9, 0.7
"""Parts of a window: what is sent may fill the one, and is then cut to the other, so that some steps fit again."""


@dataclass(frozen=True, slots=True)
class Compacted(WarningEvent):
    """A request is longer than the model's window and is sent shorter.

    `left_out` messages are not in it, and `shrunk` results only with their heads; `characters` is about its length
    before and after.  `error` is the provider's refusal, if there was one: then what was streamed of its reply is
    withdrawn.
    """

    model: str
    left_out: int
    shrunk: int
    characters: tuple[int, int]
    error: ModelError | None = None

    @property
    def ends_request(self) -> object:
        return self.error

    @property
    def notice(self) -> str:
        told = f"{self.left_out} messages left out, {self.shrunk} results shrunk"
        return f"the conversation is too long for {self.model}: {told}"


@dataclass
class ModelWindow:
    """What is known of a model: how many tokens a conversation may have, and how many characters make a token."""

    room: int | None = None
    ratio: float = 3.0

    def learn(self, length: int, tokens: int) -> None:
        """Take note that `length` characters were counted as `tokens`."""
        if tokens:
            self.ratio = min(max(length / tokens, 0.5), 6.0)  # beyond that, the figures are made up


_models: dict[str, ModelWindow] = {}


def compact(window: int | None = None) -> Policy:
    """Shorten what is sent to a model that finds the conversation too long.

    A refused request is shortened and made again, `RETRIES` times and never unchanged; then the error is raised.
    `window`, in tokens, is for servers that cut a conversation without a word (Ollama beyond its `num_ctx`).
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        readers: dict[str, _RequestShortener] = {}
        kept: PinnedMessages | None = None

        def handle(effect: AskModel) -> Flow[Any]:
            nonlocal kept
            kept = kept or PinnedMessages.of(effect.request.messages)
            name = effect.model.name
            if name not in readers:
                readers[name] = _RequestShortener(
                    _models.setdefault(name, ModelWindow()), window, ShortenedHistory(kept)
                )
            return (yield from readers[name].asked(effect))

        return interpret(flow, handle, AskModel)

    return policy


@dataclass
class _RequestShortener:
    """One model in one run, and what it is sent of the conversation."""

    known: ModelWindow
    window: int | None
    text: ShortenedHistory
    tools: tuple[object, int] = (None, 0)

    def asked(self, effect: AskModel) -> Flow[Reply]:
        """Ask, with as much as fits."""
        request, limit = effect.request, self._limit()
        if limit is not None and self._length(request) > _FULL * limit:
            yield from self._shortened(effect, _ROOMY * limit, None)
        for _ in range(MAX_RETRIES):
            try:
                return (yield from self._once(effect))
            except ModelError as caught:
                error = caught
            if error.kind != "context" or not (yield from self._shortened(effect, self._goal(error, request), error)):
                raise error
        return (yield from self._once(effect))

    def _once(self, effect: AskModel) -> Flow[Reply]:
        messages, sent = self.text.of(effect.request.messages), effect
        if messages is not effect.request.messages:
            sent = replace(effect, request=replace(effect.request, messages=messages))
        reply: Reply = yield from ask(sent)
        if self._limit() is not None:
            self.known.learn(self._length(effect.request), reply.usage.input_tokens)
        return reply

    def _limit(self) -> float | None:
        """How many characters fit, as far as is known."""
        rooms = [room for room in (self.known.room, self.window) if room is not None]
        return min(rooms) * self.known.ratio if rooms else None

    def _goal(self, error: ModelError, request: Request) -> float:
        """How many characters to send after a refusal, from which the window is learnt."""
        length = self._length(request)
        if told := parse_window(str(error)):
            self.known.room = told.room
            self.known.learn(length, told.used or told.room)
        limit = self._limit()
        return length / 2 if limit is None or limit >= length else _ROOMY * limit

    def _shortened(self, effect: AskModel, goal: float, error: ModelError | None) -> Flow[bool]:
        """Shorten what is sent; returns whether it is shorter now."""
        request = effect.request
        messages, before = request.messages, self._length(request)
        shorten = self.text.shorten if self._limit() is None else self.text.fit
        shorten(messages, goal - (before - self.text.length(messages)))
        if (after := self._length(request)) >= before:
            return False
        left_out = len(messages) - len(self.text.of(messages))
        yield from ask(Emit(Compacted(effect.model.name, left_out, self.text.shrunk(messages), (before, after), error)))
        return True

    def _length(self, request: Request) -> int:
        """About how many characters the model is sent."""
        schemas = request.tools.schemas("openai")
        if self.tools[0] is not schemas:
            self.tools = schemas, len(json.dumps(schemas, ensure_ascii=False))
        return self.text.length(request.messages) + self.tools[1]
