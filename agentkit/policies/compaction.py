"""Compaction of conversations that exceed the model's context window: the request is shortened, the history stays.

The oldest tool results are shrunk first.  Then the oldest parts are left out: earlier turns of the conversation, then
steps of this run.  A step reaches from an assistant message to the next one, so calls and results stay together.  The
instruction, the current query and the last step are always sent.  A last step that is too long by itself has its
results shrunk to what fits before anything is left out; with an unknown window, only when nothing else helps.

The window is learnt from the provider's error, which names it, and stored by the model's name for the life of the
process: later requests are shortened before they are sent.  Nothing is counted before a model has refused a request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from ..core.errors import ModelError
from ..core.flow import Emit, Flow, Hooks, Policy, WarningEvent, ask, interpret
from ..core.labels import change_delimited
from ..core.messages import Message, text_of
from ..engine.history.size import RunningSize, count_characters
from ..engine.model import AskModel, Reply, Request

MAX_RETRIES = 2
"""How often one request is shortened and repeated."""
_FULL = 0.9
_ROOMY = 0.7
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
        begun = 0

        def begin(effect: AskModel) -> AskModel | Flow[Reply]:
            nonlocal begun
            begun = begun or len(effect.request.messages)
            name = effect.model.name
            if name in shorteners:
                return shorteners[name].ask(effect)
            is_unknown = window is None and known.setdefault(name, ModelWindow()).room is None
            return effect if is_unknown else shortener_of(effect).ask(effect)

        def find_refusal(effect: AskModel, error: Exception) -> Flow[Reply] | None:
            if not isinstance(error, ModelError) or error.kind != "context":
                return None
            return shortener_of(effect).ask(effect, error)

        def shortener_of(effect: AskModel) -> _RequestShortener:
            name = effect.model.name
            model = known.setdefault(name, ModelWindow())
            pinned = PinnedMessages.of(effect.request.messages[:begun])
            shorteners[name] = _RequestShortener(model, window, ShortenedHistory(pinned, measure))
            return shorteners[name]

        return interpret(flow, Hooks(begin, failed=find_refusal), AskModel)

    return policy


@dataclass
class _RequestShortener:
    """The requests of one run to one model."""

    known: ModelWindow
    window: int | None
    text: ShortenedHistory
    tools: tuple[object, int] = (None, 0)

    def ask(self, effect: AskModel, refused: ModelError | None = None) -> Flow[Reply]:
        """Send the request, with as much of the conversation as fits; `refused` is the error of a first attempt."""
        request = effect.request
        limit = None if refused is not None else self._limit()
        if limit is not None and self._length(request) > _FULL * limit:
            yield from self._shorten(effect, _ROOMY * limit, None)
        for _ in range(MAX_RETRIES):
            if (error := refused) is None:
                try:
                    return (yield from self._send(effect))
                except ModelError as caught:
                    error = caught
            refused = None
            if error.kind != "context" or not (yield from self._shorten(effect, self._goal(error, request), error)):
                raise error
        return (yield from self._send(effect))

    def _send(self, effect: AskModel) -> Flow[Reply]:
        messages = self.text.of(effect.request.messages)
        sent = effect
        if messages is not effect.request.messages:
            sent = replace(effect, request=replace(effect.request, messages=messages))
        reply: Reply = yield from ask(sent)
        if self._limit() is not None:
            self.known.learn(self._length(effect.request), reply.usage.input_tokens)
        return reply

    def _limit(self) -> float | None:
        """Return how many characters fit; None if the window is unknown."""
        if self.known.room is None and self.window is None:
            return None
        rooms = [room for room in (self.known.room, self.window) if room is not None]
        return min(rooms) * self.known.ratio

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
        messages = request.messages
        before = self._length(request)
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


HEAD_CHARS = 500
"""Characters that a shrunk result keeps."""
_CUT = "\n[... {:,} more characters of this result are left out: the conversation is too long ...]"
_FRAME = 2 * len(_CUT)
"""Characters that a shrunk result has in addition to its head."""
_NOTE = (
    "[{} earlier messages of this conversation are left out here, because it is too long. "
    "What was done in them is done.]\n\n"
)


@dataclass(frozen=True, slots=True)
class PinnedMessages:
    """The messages that are always sent: `head` system messages at the front, and the range of the `query`."""

    head: int
    query: range

    @classmethod
    def of(cls, messages: Sequence[Message]) -> PinnedMessages:
        """Return those of a run that begins with `messages`: the query is their last user messages."""
        end = len(messages)
        head = 0
        while head < end and messages[head]["role"] == "system":
            head += 1
        while end > head and messages[end - 1]["role"] != "user":
            end -= 1
        start = max(head, end - 1)
        while end == len(messages) and start > head and messages[start - 1]["role"] == "user":
            start -= 1
        return cls(head, range(start, end))


class ShortenedHistory:
    """The part of a growing conversation that is sent.

    Messages before one index are left out, except the `pinned` ones; some results are cut to a number of characters.
    Both only change when the rest is too long again, so that providers' prompt caches stay valid meanwhile.
    """

    def __init__(self, pinned: PinnedMessages, measure: Callable[[Message], int] = count_characters) -> None:
        self._measure = measure
        self._head = pinned.head
        self._query = pinned.query
        self._from = self._head
        self._heads: dict[int, int] = {}

    @cached_property
    def _size(self) -> RunningSize:
        return RunningSize(self._measure)

    def of(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages to send: `messages` itself as long as nothing was shortened."""
        if self._from == self._head and not self._heads:
            return messages
        sent = [self._sent(messages, place) for place in self._places(len(messages))]
        left_out = len(messages) - len(sent)
        if left_out and sent[self._head]["role"] == "user":
            sent[self._head] = _add_note(sent[self._head], _NOTE.format(left_out))
        return sent

    def length(self, messages: Sequence[Message]) -> int:
        """Return about how many characters are sent; as long as nothing is shortened, only new messages are counted."""
        sent = self.of(messages)
        return self._size.of(messages) if sent is messages else sum(map(self._measure, sent))

    def count_shrunk(self, messages: Sequence[Message]) -> int:
        """Return how many of the results that are sent are shrunk."""
        return sum(place in self._heads for place in self._places(len(messages)))

    def fit(self, messages: Sequence[Message], room: float) -> None:
        """Shorten to a known number of characters; a last step that exceeds it by itself has its results shrunk.

        They share the characters that the heads of the older results leave, and at least a third of `room`.
        """
        excess, last = self._shrink_old(messages, room)
        always = [*range(self._head), *self._query, *range(max(last, self._query.stop), len(messages))]
        results = [place for place in always if messages[place]["role"] == "tool" and place >= last]
        if results and excess > 0 and self._sum(messages, always) > room:
            share = max(self._sum(messages, results) - excess, room / 3) / len(results)
            self._shrink(messages, results, excess, max(int(share) - _FRAME, HEAD_CHARS))
        self.shorten(messages, room)

    def shorten(self, messages: Sequence[Message], goal: float) -> None:
        """Shorten to `goal` characters, or as close to it as possible."""
        excess, _ = self._shrink_old(messages, goal)
        for start in [*self._starts(messages)]:
            if excess <= 0:
                return
            excess -= self._sum(messages, (place for place in range(self._from, start) if place not in self._query))
            self._from = start
        self._shrink(messages, range(self._from, len(messages)), excess)

    def _shrink_old(self, messages: Sequence[Message], goal: float) -> tuple[float, int]:
        """Shrink results before the last step; return the excess that remains, and where that step begins."""
        last = max(self._starts(messages), default=self._from)
        return self._shrink(messages, range(self._from, last), self.length(messages) - goal), last

    def _shrink(
        self, messages: Sequence[Message], places: Iterable[int], excess: float, head: int = HEAD_CHARS
    ) -> float:
        """Shrink results at these places until there is no excess; return the excess that remains."""
        for place in places:
            if excess <= 0:
                break
            before = self._measure(self._sent(messages, place))
            after = self._measure(_shrink_result(messages[place], head))
            if after < before:
                self._heads[place] = head
                excess -= before - after
        return excess

    def _starts(self, messages: Sequence[Message]) -> Iterator[int]:
        """Yield where the sent part may begin next: at a user turn up to the query, at a step of the model after it."""
        for place in range(self._from + 1, len(messages)):
            role = messages[place]["role"]
            is_turn = role == "user" and messages[place - 1]["role"] != "user" and place < self._query.stop
            if is_turn or (role == "assistant" and place >= self._query.stop):
                yield place

    def _sum(self, messages: Sequence[Message], places: Iterable[int]) -> int:
        return sum(self._measure(self._sent(messages, place)) for place in places)

    def _places(self, end: int) -> Iterator[int]:
        """Yield the indices, below `end`, of the messages that are sent."""
        yield from range(min(self._head, end))
        yield from range(self._query.start, min(self._query.stop, self._from, end))
        yield from range(self._from, end)

    def _sent(self, messages: Sequence[Message], place: int) -> Message:
        head = self._heads.get(place)
        return messages[place] if head is None else _shrink_result(messages[place], head)


def _shrink_result(message: Message, head: int) -> Message:
    """Return the message; a long tool result is cut to `head` characters and loses its images."""
    if message["role"] != "tool" or count_characters(message) < head + _FRAME:
        return message
    return {**message, "content": change_delimited(text_of(message), partial(_cut_to_head, head))}


def _cut_to_head(head: int, text: str) -> str:
    return text[:head] + _CUT.format(len(text) - head) if len(text) > head else text


def _add_note(message: Message, note: str) -> Message:
    content = message["content"]
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": note}, *content]}
    return {**message, "content": note + (content or "")}


_NUMBER = r"(?P<{}>\d{{1,12}}+)"
_ROOM, _USED, _REPLY = map(_NUMBER.format, ("room", "used", "reply"))
_MESSAGES = [
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # OpenAI, Azure, DeepSeek, OpenRouter, vLLM
        rf"maximum context length (?:is|of) {_ROOM}.*?(?:resulted in|requested) (?:about )?{_USED} tokens"
        rf"(?:[^)]*?{_REPLY} (?:in|for) the (?:completion|output))?",
        rf"too large: {_REPLY}\..*?maximum context length is {_ROOM}.*?{_USED} input tokens",
        rf"maximum context length (?:is|of) {_ROOM}.*?{_USED} input tokens",
        rf"\(length {_USED}\).*?maximum model length of {_ROOM}",
        # OpenAI and Groq, where the account's tokens per minute are less than the window
        rf"\bLimit {_ROOM}, Requested {_USED}",
        # Anthropic
        rf"prompt is too long: {_USED} tokens > {_ROOM}",
        rf"exceed context limit: {_USED} \+ {_REPLY} > {_ROOM}",
        # Gemini
        rf"token count \(?{_USED}\)? exceeds the maximum number of tokens allowed \(?{_ROOM}",
        # llama.cpp, LM Studio
        rf"\({_USED} tokens\) exceeds the available context size \({_ROOM}",
        rf"first {_USED} tokens.*?context length of only {_ROOM}",
        # Mistral, xAI, Cohere, Fireworks, text-generation-inference and Together
        rf"contains {_USED} tokens.*?with {_ROOM} maximum context length",
        rf"maximum prompt length is {_ROOM}.*?contains {_USED} tokens",
        rf"cannot exceed {_ROOM} - received {_USED}",
        rf"too long: {_USED}, model maximum context length: {_ROOM}",
        rf"(?:less than|must be <=) {_ROOM}(?: tokens)?\. Given: {_USED}(?:.*?{_REPLY} `max_new_tokens`)?",
        # messages with the window alone
        rf"(?:context (?:length|window|size)|maximum number of tokens)(?:[ :=(]|is|of|only|limit|this model)*{_ROOM}\b",
    )
]
MAX_ERROR_MESSAGE_CHARS = 4_000
"""Characters of an error message that are read."""
_SEPARATORS = re.compile(r"(?<=\d)[,_](?=\d{3})")


@dataclass(frozen=True, slots=True)
class Window:
    """The tokens that a conversation may have (without the reply), and those that it had, if the message names them."""

    room: int
    used: int | None = None


def parse_window(text: str) -> Window | None:
    """Return the window that an error message names, if it names one."""
    text = _SEPARATORS.sub("", text[:MAX_ERROR_MESSAGE_CHARS])
    for pattern in _MESSAGES:
        if found := pattern.search(text):
            numbers = {name: int(number) for name, number in found.groupdict().items() if number}
            reply = numbers.get("reply", 0)
            used = numbers.get("used")
            if used is not None and "requested" in found[0].lower():
                used -= reply  # this form counts the reply in
            return Window(numbers["room"] - reply, used) if numbers["room"] > reply else None
    return None
