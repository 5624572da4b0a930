"""A conversation made shorter for one reader: old results shrunk, old parts left out, valid all the same."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..core.delimiters import change_delimited
from ..core.messages import Message, text_of
from ..engine.history.size import RunningSize, count_characters

HEAD_CHARS = 500
"""Characters that stay of a result that is shrunk."""
_CUT = "\n[... {:,} more characters of this result are left out: the conversation is too long ...]"
_FRAME = 2 * len(_CUT)
"""Characters that a result has beside its head when it is shrunk."""
_NOTE = (
    "[{} earlier messages of this conversation are left out here, because it is too long. "
    "What was done in them is done.]\n\n"
)


@dataclass(frozen=True, slots=True)
class PinnedMessages:
    """What always stays: the `head`, so many system messages in front, and the place of the `query`."""

    head: int
    query: range

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "PinnedMessages":
        """For a run that begins with `messages`: the query is what they end with, else what the person said last."""
        head = next((place for place, message in enumerate(messages) if message["role"] != "system"), len(messages))
        end = len(messages)
        while end > head and messages[end - 1]["role"] != "user":
            end -= 1
        start = max(head, end - 1)
        while end == len(messages) and start > head and messages[start - 1]["role"] == "user":
            start -= 1
        return cls(head, range(start, end))


class ShortenedHistory:
    """What is sent of a conversation that grows at its end.

    What stands before one place is left out, but for what is `kept`; of some results only so many characters are sent.
    Both change when the rest is too long again, and stay meanwhile, so that providers' prompt caches keep their use.
    """

    def __init__(self, kept: PinnedMessages) -> None:
        self._head, self._query = kept.head, kept.query
        self._from = self._head
        self._kept: dict[int, int] = {}
        self._size = RunningSize(count_characters)

    def of(self, messages: Sequence[Message]) -> Sequence[Message]:
        """What is sent of `messages`; themselves, as long as nothing had to be shortened."""
        if self._from == self._head and not self._kept:
            return messages
        sent = [self._sent(messages, place) for place in self._places(len(messages))]
        left_out = len(messages) - len(sent)
        if left_out and sent[self._head]["role"] == "user":
            sent[self._head] = _add_note(sent[self._head], _NOTE.format(left_out))
        return sent

    def length(self, messages: Sequence[Message]) -> int:
        """About how many characters are sent; as long as nothing is shortened, only what is new is counted."""
        sent = self.of(messages)
        return self._size.of(messages) if sent is messages else sum(map(count_characters, sent))

    def shrunk(self, messages: Sequence[Message]) -> int:
        """How many of the results that are sent are shrunk."""
        return sum(place in self._kept for place in self._places(len(messages)))

    def fit(self, messages: Sequence[Message], room: float) -> None:
        """`shorten` to a room that is known: of a last step that exceeds it by itself, as much is sent as fits in.

        That is what the heads of the older results leave of the room, and a third of it at least.
        """
        excess, last = self._shrink_old(messages, room)
        always = [*range(self._head), *self._query, *range(max(last, self._query.stop), len(messages))]
        results = [place for place in always if messages[place]["role"] == "tool" and place >= last]
        if results and excess > 0 and self._sum(messages, always) > room:
            share = max(self._sum(messages, results) - excess, room / 3) / len(results)
            self._shrink(messages, results, excess, max(int(share) - _FRAME, HEAD_CHARS))
        self.shorten(messages, room)

    def shorten(self, messages: Sequence[Message], goal: float) -> None:
        """Send `goal` characters of `messages`, or as near to that as it goes."""
        excess, _ = self._shrink_old(messages, goal)
        for start in [*self._starts(messages)]:
            if excess <= 0:
                return
            excess -= self._sum(messages, (place for place in range(self._from, start) if place not in self._query))
            self._from = start
        self._shrink(messages, range(self._from, len(messages)), excess)

    def _shrink_old(self, messages: Sequence[Message], goal: float) -> tuple[float, int]:
        """Shrink results before the last step; returns what still is too much, and where that step begins."""
        last = max(self._starts(messages), default=self._from)
        return self._shrink(messages, range(self._from, last), self.length(messages) - goal), last

    def _shrink(
        self, messages: Sequence[Message], places: Iterable[int], excess: float, kept: int = HEAD_CHARS
    ) -> float:
        """Shrink results at these places until nothing is too much; returns what still is."""
        for place in places:
            if excess <= 0:
                break
            before, after = (
                count_characters(self._sent(messages, place)),
                count_characters(_shrink_result(messages[place], kept)),
            )
            if after < before:
                self._kept[place] = kept
                excess -= before - after
        return excess

    def _starts(self, messages: Sequence[Message]) -> Iterator[int]:
        """Where what is sent may begin next: a turn of the person, up to the query; after it, a step of the model."""
        for place in range(self._from + 1, len(messages)):
            role = messages[place]["role"]
            is_turn = role == "user" and messages[place - 1]["role"] != "user" and place < self._query.stop
            if is_turn or (role == "assistant" and place >= self._query.stop):
                yield place

    def _sum(self, messages: Sequence[Message], places: Iterable[int]) -> int:
        return sum(count_characters(self._sent(messages, place)) for place in places)

    def _places(self, end: int) -> Iterator[int]:
        """Where what is sent stands among the first `end` messages."""
        yield from range(min(self._head, end))
        yield from range(self._query.start, min(self._query.stop, self._from, end))
        yield from range(self._from, end)

    def _sent(self, messages: Sequence[Message], place: int) -> Message:
        kept = self._kept.get(place)
        return messages[place] if kept is None else _shrink_result(messages[place], kept)


def _shrink_result(message: Message, kept: int) -> Message:
    """The message; a tool's long result with so many characters of its head, and without its images."""
    if message["role"] != "tool" or count_characters(message) < kept + _FRAME:
        return message
    return {**message, "content": change_delimited(text_of(message), partial(_cut_to_head, kept))}


def _cut_to_head(kept: int, text: str) -> str:
    return text[:kept] + _CUT.format(len(text) - kept) if len(text) > kept else text


def _add_note(message: Message, note: str) -> Message:
    content = message["content"]
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": note}, *content]}
    return {**message, "content": note + (content or "")}
