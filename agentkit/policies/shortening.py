"""A valid conversation that is shortened for one model: old results are shrunk, old parts are left out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..core.delimiters import change_delimited
from ..core.messages import Message, text_of
from ..engine.history.size import RunningSize, count_characters

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
    def of(cls, messages: Sequence[Message]) -> "PinnedMessages":
        """Return those of a run that begins with `messages`: the query is their last user messages."""
        head = next((place for place, message in enumerate(messages) if message["role"] != "system"), len(messages))
        end = len(messages)
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
        self._head, self._query = pinned.head, pinned.query
        self._from = self._head
        self._heads: dict[int, int] = {}
        self._size = RunningSize(measure)

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
            before, after = (
                self._measure(self._sent(messages, place)),
                self._measure(_shrink_result(messages[place], head)),
            )
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
