"""A conversation made shorter for one reader: old results shrunk, old parts left out, valid all the same."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..fences import within_fence
from ..loop import text_of
from ..messages import Message
from ..wire.sizes import RunningSize, characters

KEPT = 500
"""Characters that stay of a result that is shrunk."""
_CUT = "\n[... {:,} more characters of this result are left out: the conversation is too long ...]"
_NOTE = (
    "[{} earlier messages of this conversation are left out here, because it is too long. "
    "What was done in them is done.]\n\n"
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What always stays: the `head`, so many system messages in front, and the place of the `query`."""

    head: int
    query: range

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "Kept":
        """For a run that begins with `messages`: the query is what they end with, else what the person said last."""
        head = next((place for place, message in enumerate(messages) if message["role"] != "system"), len(messages))
        end = len(messages)
        while end > head and messages[end - 1]["role"] != "user":
            end -= 1
        start = max(head, end - 1)
        while end == len(messages) and start > head and messages[start - 1]["role"] == "user":
            start -= 1
        return cls(head, range(start, end))


class Shortened:
    """What is sent of a conversation that grows at its end.

    What stands before one place is left out, but for what is `kept`; results before another place are shrunk.  The
    places move on when the rest is too long again, and stay meanwhile, so that providers' prompt caches keep their use.
    """

    def __init__(self, kept: Kept) -> None:
        self._head, self._query = kept.head, kept.query
        self._from = self._head
        self._shrunk_to = 0
        self._size = RunningSize(characters)

    def of(self, messages: Sequence[Message]) -> Sequence[Message]:
        """What is sent of `messages`; themselves, as long as nothing had to be shortened."""
        if self._from == self._head and not self._shrunk_to:
            return messages
        sent = [self._sent(messages, place) for place in self._places(len(messages))]
        left_out = len(messages) - len(sent)
        if left_out and sent[self._head]["role"] == "user":
            sent[self._head] = _noted(sent[self._head], _NOTE.format(left_out))
        return sent

    def length(self, messages: Sequence[Message]) -> int:
        """About how many characters are sent; as long as nothing is shortened, only what is new is counted."""
        sent = self.of(messages)
        return self._size.of(messages) if sent is messages else sum(map(characters, sent))

    def shrunk(self, messages: Sequence[Message]) -> int:
        """How many of the results that are sent are shrunk."""
        places = self._places(min(self._shrunk_to, len(messages)))
        return sum(self._sent(messages, place) is not messages[place] for place in places)

    def shorten(self, messages: Sequence[Message], goal: float) -> None:
        """Send `goal` characters of `messages`, or as near to that as it goes."""
        excess = self.length(messages) - goal
        starts = [place for place in self._starts(messages) if place > self._from]
        excess = self._shrink(messages, starts[-1] if starts else self._from, excess)
        for start in starts:
            if excess <= 0:
                return
            gone = (place for place in range(self._from, start) if place not in self._query)
            excess -= sum(characters(self._sent(messages, place)) for place in gone)
            self._from = start
        self._shrink(messages, len(messages), excess)

    def _shrink(self, messages: Sequence[Message], end: int, excess: float) -> float:
        """Shrink results up to `end` until nothing is too much; returns what still is."""
        self._shrunk_to = max(self._shrunk_to, self._from)
        while excess > 0 and self._shrunk_to < end:
            message = messages[self._shrunk_to]
            excess -= characters(message) - characters(_shrunk(message))
            self._shrunk_to += 1
        return excess

    def _starts(self, messages: Sequence[Message]) -> Iterator[int]:
        """Where what is sent may begin: a turn of the person, up to the query; after it, a step of the model."""
        for place in range(self._head + 1, len(messages)):
            role = messages[place]["role"]
            is_turn = role == "user" and messages[place - 1]["role"] != "user" and place < self._query.stop
            if is_turn or (role == "assistant" and place >= self._query.stop):
                yield place

    def _places(self, end: int) -> Iterator[int]:
        """Where what is sent stands among the first `end` messages."""
        yield from range(min(self._head, end))
        yield from range(self._query.start, min(self._query.stop, self._from, end))
        yield from range(self._from, end)

    def _sent(self, messages: Sequence[Message], place: int) -> Message:
        return _shrunk(messages[place]) if place < self._shrunk_to else messages[place]


def _shrunk(message: Message) -> Message:
    """The message; a tool's long result with its head alone, and without its images."""
    if message["role"] != "tool" or characters(message) < KEPT + 2 * len(_CUT):
        return message
    return {**message, "content": within_fence(text_of(message), _head)}


def _head(text: str) -> str:
    return text[:KEPT] + _CUT.format(len(text) - KEPT) if len(text) > KEPT else text


def _noted(message: Message, note: str) -> Message:
    content = message["content"]
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": note}, *content]}
    return {**message, "content": note + (content or "")}
