"""Compaction of conversations that exceed the model's context window: the request is shortened, the history stays.

The oldest tool results are shrunk first.  Then the oldest parts are left out: earlier turns of the conversation, then
steps of this run.  A step reaches from an assistant message to the next one, so calls and results stay together.  The
instruction, the current query and the last step are always sent.  A last step that is too long by itself has its
results shrunk to what fits before anything is left out; with an unknown window, only when nothing else helps.

The window is learnt from the provider's error and stored by the model's name for the life of the process: later
requests are shortened before they are sent.  Nothing is counted before a model has refused a request.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import ModelError
from ..core.flow import Emit, Flow, Policy, WarningEvent, ask, interpret
from ..core.messages import Message
from ..engine.history.size import count_characters
from ..engine.model import AskModel, Reply, Request
from .context_window import parse_window
from .shortening import PinnedMessages, ShortenedHistory

MAX_RETRIES = 2
"""How often one request is shortened and repeated."""
_FULL, _ROOMY = 0.9, 0.7
"""Shares of the window: above the first, a request is shortened to the second, so that some further steps fit."""


@dataclass(frozen=True, slots=True)
class Compacted(WarningEvent):
    """A request exceeds the model's context window and is shortened.

    `left_out` messages are not sent, and `shrunk` results only with their heads; `characters` is the approximate length
    before and after.  `error` is the provider's error, if there was one: then the deltas of its reply are void.
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
        changes = f"{self.left_out} messages left out, {self.shrunk} results shrunk"
        return f"the conversation is too long for {self.model}: {changes}"


@dataclass
class ModelWindow:
    """The window of one model in tokens, if it is known, and its number of characters per token."""

    room: int | None = None
    ratio: float = 3.0

    def learn(self, length: int, tokens: int) -> None:
        """Update the ratio: `length` characters were counted as `tokens`."""
        if tokens:
            self.ratio = min(max(length / tokens, 0.5), 6.0)  # providers that report other ratios do not count


KNOWN_WINDOWS: dict[str, ModelWindow] = {}
"""What the process has learnt of models, by their names."""


def compact(
    window: int | None = None,
    *,
    known: dict[str, ModelWindow] = KNOWN_WINDOWS,
    measure: Callable[[Message], int] = count_characters,
) -> Policy:
    """Shorten the requests to a model that refuses the conversation as too long.

    A refused request is shortened and repeated, `MAX_RETRIES` times and never unchanged; then the error is raised.

    Args:
        window: The context window in tokens, for servers that truncate a conversation silently (Ollama beyond its
            `num_ctx`).
        known: The windows of models by name; what is learnt is stored in it.
        measure: Estimates the characters of a message.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        shorteners: dict[str, _RequestShortener] = {}
        pinned: PinnedMessages | None = None

        def handle(effect: AskModel) -> Flow[Any]:
            nonlocal pinned
            pinned = pinned or PinnedMessages.of(effect.request.messages)
            name = effect.model.name
            if name not in shorteners:
                shorteners[name] = _RequestShortener(
                    known.setdefault(name, ModelWindow()), window, ShortenedHistory(pinned, measure)
                )
            return (yield from shorteners[name].ask(effect))

        return interpret(flow, handle, AskModel)

    return policy


@dataclass
class _RequestShortener:
    """The requests of one run to one model."""

    known: ModelWindow
    window: int | None
    text: ShortenedHistory
    tools: tuple[object, int] = (None, 0)

    def ask(self, effect: AskModel) -> Flow[Reply]:
        """Send the request, with as much of the conversation as fits."""
        request, limit = effect.request, self._limit()
        if limit is not None and self._length(request) > _FULL * limit:
            yield from self._shorten(effect, _ROOMY * limit, None)
        for _ in range(MAX_RETRIES):
            try:
                return (yield from self._send(effect))
            except ModelError as caught:
                error = caught
            if error.kind != "context" or not (yield from self._shorten(effect, self._goal(error, request), error)):
                raise error
        return (yield from self._send(effect))

    def _send(self, effect: AskModel) -> Flow[Reply]:
        messages, sent = self.text.of(effect.request.messages), effect
        if messages is not effect.request.messages:
            sent = replace(effect, request=replace(effect.request, messages=messages))
        reply: Reply = yield from ask(sent)
        if self._limit() is not None:
            self.known.learn(self._length(effect.request), reply.usage.input_tokens)
        return reply

    def _limit(self) -> float | None:
        """Return how many characters fit; None if the window is unknown."""
        rooms = [room for room in (self.known.room, self.window) if room is not None]
        return min(rooms) * self.known.ratio if rooms else None

    def _goal(self, error: ModelError, request: Request) -> float:
        """Return how many characters to send after a provider's error, and learn the window from it."""
        length = self._length(request)
        if window := parse_window(str(error)):
            self.known.room = window.room
            self.known.learn(length, window.used or window.room)
        limit = self._limit()
        return length / 2 if limit is None or limit >= length else _ROOMY * limit

    def _shorten(self, effect: AskModel, goal: float, error: ModelError | None) -> Flow[bool]:
        """Shorten the request; return whether it is shorter now."""
        request = effect.request
        messages, before = request.messages, self._length(request)
        shorten = self.text.shorten if self._limit() is None else self.text.fit
        shorten(messages, goal - (before - self.text.length(messages)))
        if (after := self._length(request)) >= before:
            return False
        left_out = len(messages) - len(self.text.of(messages))
        yield from ask(
            Emit(Compacted(effect.model.name, left_out, self.text.count_shrunk(messages), (before, after), error))
        )
        return True

    def _length(self, request: Request) -> int:
        """Return about how many characters the request has."""
        schemas = request.tools.schemas("openai")
        if self.tools[0] is not schemas:
            self.tools = schemas, len(json.dumps(schemas, ensure_ascii=False))
        return self.text.length(request.messages) + self.tools[1]
