"""A warning when a provider reads nothing from its cache, although the requests of a run extend each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.flow import Flow, Hooks, Policy, WarningEvent, emit_first, interpret
from ..core.messages import Message
from ..core.values import frozen
from ..engine.model import AskModel, Reply

MIN_CACHED_TOKENS = 4_096
"""Tokens of a request that every provider with a cache would cache; the least lengths are 1,024 to 4,096."""
MISSES = 2
"""Requests in a row without a hit, because a cache may miss once: another server of the provider may answer."""


@frozen
class CacheMissed(WarningEvent):
    """Nothing was read from the model's cache, although `requests` requests in a row began with the one before."""

    model: str
    requests: int
    tokens: int

    @property
    def notice(self) -> str:
        return (
            f"{self.model} read none of {self.tokens:,} input tokens from its cache, although {self.requests} requests "
            "in a row extend the one before: they cost the full price"
        )


def watch_cache() -> Policy:
    """Return the policy that reports once in a run that a cache is not used, of a model that has one.

    A model tells by its attribute `caches_prompts` that it reads the begin of a request from a cache, where an earlier
    request had the same.
    """

    return lambda flow: interpret(flow, Hooks(after=_Watch().note), AskModel)


@dataclass(eq=False)
class _Watch:
    """The requests of one run: the last one, and the misses in a row."""

    is_over: bool = False
    _messages: Sequence[Message] = ()
    _before: tuple[Any, ...] = ()
    _tokens: int = 0
    """The input tokens of the last request."""
    _misses: int = 0
    _missed_tokens: int = 0

    def note(self, effect: AskModel, reply: Reply) -> Reply | Flow[Reply]:
        """Take a request and return its reply, after the warning if a miss was one too many."""
        if self.is_over or not getattr(effect.model, "caches_prompts", False):
            return reply
        request = effect.request
        usage = reply.usage
        now = effect.model.name, request.tools, request.reply_schema
        extends = now == self._before and _begins_with(request.messages, self._messages)
        if usage.cached_tokens:
            self.is_over = True  # the cache works
        elif not extends or not usage.input_tokens:
            self._misses = 0
            self._missed_tokens = 0
        elif self._tokens >= MIN_CACHED_TOKENS:
            self._misses += 1
            self._missed_tokens += self._tokens
        self._before = now
        self._messages = [*request.messages]
        self._tokens = usage.input_tokens
        if self._misses < MISSES:
            return reply
        self.is_over = True
        return emit_first(CacheMissed(effect.model.name, self._misses, self._missed_tokens), reply)


def _begins_with(messages: Sequence[Message], before: Sequence[Message]) -> bool:
    """Return whether messages are those of the request before, and more."""
    pairs = zip(before, messages, strict=False)
    return bool(before) and len(messages) > len(before) and all(old is new or old == new for old, new in pairs)
