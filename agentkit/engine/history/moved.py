"""What of a conversation is sent when it is too long, and how the rest is found again.

Old tool results leave the requests first, then old turns, in whole groups: an assistant message with the results of its
calls, or a turn of the user.  The instruction, the query and the last group are always sent; the results of a last
group that is too long by itself are cut.  What is left out has an address: `m12` is a message, `m12:500` a place in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...core.errors import ModelError
from ...core.flow import WarningEvent
from ...core.messages import Message, calls_of, change_delimited, remove_delimiters, text_of, user
from ...core.values import frozen
from ...tools.ranking import MAX_SEARCH_CHARS, list_stems
from .size import RunningSize, count_characters

MIN_MOVED_CHARS = 300
"""A shorter result stays: its address takes a third of that."""
HEAD_CHARS = 500
"""The least characters that are sent of each result of the last group."""
MAX_PINNED = 8
"""Messages of the user that stay of a turn whose first steps are left out."""
_RESULT_CHARS = 160
"""Characters of what stands in the place of a text that has left, at most."""
_RESULT = "[{:,} characters of this result left the conversation, which is too long{}]"
_IMAGES = "[the images of this result left the conversation, which is too long{}]"
_LEFT_OUT = "[{} earlier messages left this conversation, because it is too long{}. What was done in them is done.]\n\n"


@frozen
class Compacted(WarningEvent):
    """A request exceeds its share of the model's context window and is shortened.

    `left_out` messages are not sent, and of `shrunk` results only a part; `characters` is about the length before and
    after.  `error` is the provider's error, if there was one: then the deltas of its reply are void.
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
class Moved:
    """What has left the requests of a conversation, as JSON values.

    Attributes:
        start: The messages before it are left out, except for the instruction and those in `pinned`.
        pinned: The messages of the user in the turn of `start`.
        stubs: Of the results before it, only their addresses are sent.
        heads: How many characters are sent of later results, by their places.
        mark: What the message before `start` is, to notice that the conversation was exchanged.
        note: A text about what is left out.
    """

    start: int = 0
    pinned: list[int] = field(default_factory=list)
    stubs: int = 0
    heads: dict[str, int] = field(default_factory=dict)
    mark: str = ""
    note: str = ""

    def __bool__(self) -> bool:
        return bool(self.start or self.stubs or self.heads)

    def has_left(self, place: int) -> bool:
        """Return whether a message is not sent as a whole."""
        return (place < self.start and place not in self.pinned) or place < self.stubs or str(place) in self.heads

    def is_of(self, messages: Sequence[Message]) -> bool:
        """Return whether this is about the conversation `messages`, and not about one that it has replaced."""
        return max(self.start, self.stubs) <= len(messages) and self.mark == _mark(messages, self.start)


def _mark(messages: Sequence[Message], start: int) -> str:
    if not start:
        return ""
    message = messages[start - 1]
    return ":".join([message["role"], str(message.get("tool_call_id", "")), *(call.id for call in calls_of(message))])


class ShortenedHistory:
    """The part of a growing conversation that is sent.

    Args:
        moved: What has left it.
        messages: The conversation as the run begins; its last message of the user is the query.
        reminder: A message of the user with this text is no message of a person.
        address: Returns what a note says about an address, such as `; read on with read_more: ...`.
        size: The characters of the conversation as far as they have been counted.
    """

    def __init__(
        self,
        moved: Moved,
        messages: Sequence[Message],
        *,
        reminder: str = "",
        address: Callable[[str], str] = lambda _: "",
        size: RunningSize | None = None,
    ) -> None:
        self.moved = moved
        self._reminder = reminder
        self._address = address
        self._size = size or RunningSize(count_characters)
        self._sent: list[Message] = []
        self._count = 0
        self._last: Message | None = None
        self.head = next(
            (place for place, message in enumerate(messages) if message["role"] != "system"), len(messages)
        )
        end = len(messages)
        while end > self.head and not self._is_asked(messages[end - 1]):
            end -= 1
        self.query = end - 1
        """The place of the query."""

    def of(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages to send: `messages` itself as long as nothing has left, else a list that grows."""
        if not self.moved:
            return messages
        if self._count > len(messages) or (self._count and messages[self._count - 1] is not self._last):
            self._begin_again()
        if not self._sent:
            self._sent = [*messages[: self.head], *self._begin(messages)]
            self._count = max(self.moved.start, self.head)
        self._sent += (self._show(messages, place) for place in range(self._count, len(messages)))
        self._count = len(messages)
        self._last = messages[-1]
        return self._sent

    def length(self, messages: Sequence[Message]) -> int:
        """Return about how many characters are sent; only messages that are new since the last time are counted."""
        return self._size.of(self.of(messages))

    def count_left(self, messages: Sequence[Message]) -> tuple[int, int]:
        """Return how many messages are left out, and how many of the results that are sent are shortened."""
        places = self._places(len(messages))
        return len(messages) - len(places), sum(self._show(messages, place) is not messages[place] for place in places)

    def shorten(self, messages: Sequence[Message], room: float, most: float = 0.0) -> None:
        """Leave out old results, then old turns, until at most `room` characters are sent, or as few as possible.

        The last group may have more than `room`: its results are cut if what must be sent has more than `most`.
        """
        moved = self.moved
        starts = [*self._find_starts(messages)]
        last = starts[-1][0] if starts else max(moved.start, self.head)
        sizes = {place: count_characters(self._show(messages, place)) for place in self._places(len(messages))}
        excess = sum(sizes.values()) - room

        def shrink(place: int) -> float:
            before = sizes.get(place, 0)
            sizes[place] = count_characters(self._show(messages, place))
            return before - sizes[place]

        place = max(moved.start, moved.stubs, self.head)
        while place < last and (excess > 0 or messages[place]["role"] == "tool"):
            moved.stubs = place + 1
            excess -= shrink(place)
            place += 1
        moved.heads = {key: head for key, head in moved.heads.items() if int(key) >= moved.stubs}
        newest = [place for place in range(last, len(messages)) if messages[place]["role"] == "tool"]
        kept = sum(size for place, size in sizes.items() if place >= last or place < self.head or place == self.query)
        if newest and kept > max(room, most):
            others = sum(sizes.values()) - sum(sizes[place] for place in newest)
            share = max(max(room, most) - others, room / 3) / len(newest)
            for place in newest:
                if sizes[place] > share:
                    moved.heads[str(place)] = max(int(share) - _RESULT_CHARS, HEAD_CHARS)
                    kept += sizes[place]
                    excess -= shrink(place)
                    kept -= sizes[place]
        if kept > room and most > room:
            excess -= most - room
            room = most
        if excess > 0:
            rest = sum(sizes.values())
            for place in sorted(sizes):
                if starts and place == starts[0][0]:
                    start, pinned = starts.pop(0)
                    asked = sum(count_characters(messages[other]) for other in pinned)
                    moved.start = start
                    moved.pinned = pinned
                    if rest + asked <= room:
                        break
                rest -= sizes[place] if place >= self.head else 0
        moved.mark = _mark(messages, moved.start)
        self._begin_again()

    def annotate(self, note: str) -> None:
        """Add a text to what stands in the place of the messages that are left out."""
        self.moved.note = note
        self._begin_again()

    def _begin_again(self) -> None:
        self._sent = []
        self._size = RunningSize(count_characters)

    def _is_asked(self, message: Message) -> bool:
        """Return whether a message is one of the user."""
        return message["role"] == "user" and text_of(message) != self._reminder

    def _find_starts(self, messages: Sequence[Message]) -> Iterator[tuple[int, list[int]]]:
        """Yield where the sent part may begin, and which messages of the user then stay.

        That is at a turn of the user up to the query, and at a step of the model, whose turn keeps its beginning.
        """
        first = max(self.moved.start, self.head)
        turn = [*self.moved.pinned]
        for place in range(first, len(messages)):
            message = messages[place]
            if self._is_asked(message):
                is_turn = place <= self.query and not (place > first and self._is_asked(messages[place - 1]))
                turn = [place] if is_turn else [*turn[:1], *turn[1:][1 - MAX_PINNED :], place]
                if is_turn and place > first:
                    yield place, []
            elif message["role"] == "assistant" and place > first:
                yield place, turn

    def _places(self, end: int) -> list[int]:
        """Return the places of the messages that are sent."""
        return [*range(min(self.head, end)), *self.moved.pinned, *range(max(self.moved.start, self.head), end)]

    def _begin(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Yield the messages between the instruction and `start`, with a note about what is left out there."""
        start = self.moved.start
        kept = [messages[place] for place in self.moved.pinned]
        if start <= self.head:
            return
        left_out = start - self.head - len(kept)
        note = _LEFT_OUT.format(left_out, self._address(f"m{self.head}")) + self.moved.note
        yield user(note.strip()) if not kept else _add_note(kept[0], note)
        yield from kept[1:]

    def _show(self, messages: Sequence[Message], place: int) -> Message:
        """Return a message as it is sent: a result whose text has left with its address, without its images."""
        message = messages[place]
        if message["role"] != "tool":
            return message
        head = 0 if place < self.moved.stubs else self.moved.heads.get(str(place))
        if head is None or count_characters(message) <= head + (_RESULT_CHARS if head else MIN_MOVED_CHARS):
            return message
        text = text_of(message)
        if not head:
            return {**message, "content": _RESULT.format(len(remove_delimiters(text)), self._address(f"m{place}"))}

        def cut(text: str) -> str:
            if len(text) <= head:
                return f"{text}\n{_IMAGES.format(self._address(f'm{place}'))}"
            return f"{text[:head]}\n{_RESULT.format(len(text) - head, self._address(f'm{place}:{head}'))}"

        return {**message, "content": change_delimited(text, cut)}


def _add_note(message: Message, note: str) -> Message:
    content = message["content"]
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": note}, *content]}
    return {**message, "content": note + (content or "")}


def read_message(message: Message) -> str:
    """Return the text of a message, without delimiters, and the calls in it."""
    calls = (f"{call.name}: {call.arguments}" for call in calls_of(message))
    return "\n".join(filter(None, [remove_delimiters(text_of(message)), *calls]))


def tell(messages: Sequence[Message], room: float) -> str:
    """Return messages as one text, each with its role; the longest are cut, so that all have about `room` characters.

    Args:
        messages: The messages.
        room: The characters.
    """
    texts = [f"{message['role']}: {read_message(message)}" for message in messages]
    cap = room
    for place, length in enumerate(sorted(map(len, texts))):
        cap = room / (len(texts) - place)
        if length > cap:
            break
        room -= length
    return "\n".join(text[: max(int(cap), 1)] for text in texts)


MAX_PASSAGE_CHARS = 300
MAX_SEARCHED_WORDS = 200
"""Words of a query that are looked up, each in every text."""
_MAX_OCCURRENCES = 50
_INNER_SHARE = 0.5
"""How much a part of a word counts, such as `tea` in `steam` or `3` in `23`, of what the word by itself does."""


@frozen
class Passage:
    """A part of a text that has words of a question, from the character `begin` on."""

    key: str
    begin: int
    text: str


def find_passages(texts: Mapping[str, str], query: str, limit: int) -> list[Passage]:
    """Return at most `limit` passages with words of a query, the best first; of equal ones, the last of `texts`.

    A rare word counts more than one that is in many of the texts, and a text counts by the words that it has.  Only the
    first words of a long query count.
    """
    words = [*dict.fromkeys(list_stems(query[:MAX_SEARCH_CHARS]))] or query[:MAX_SEARCH_CHARS].lower().split()
    words = words[:MAX_SEARCHED_WORDS]
    lower = {key: text.lower() for key, text in texts.items()}
    weights: dict[str, dict[str, float]] = {}
    for word in words:
        for key, weight in _weigh(word, lower):
            weights.setdefault(key, {})[word] = weight
    order = {key: place for place, key in enumerate(texts)}
    best = sorted(weights, key=lambda key: (-sum(weights[key].values()), -order[key]))[:limit]
    return [_find_passage(key, texts[key], lower[key], weights[key]) for key in best]


def _weigh(word: str, texts: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    """Yield the key of each text that has a word, and how much the word counts there."""
    whole = _pattern_of(word)
    found = {key: whole.search(text) is not None for key, text in texts.items() if word in text}
    weight = math.log(1 + len(texts) / (1 + sum(found.values())))
    inner = _INNER_SHARE * math.log(1 + len(texts) / (1 + len(found)))
    for key, is_whole in found.items():
        yield key, weight if is_whole else inner


def _pattern_of(word: str) -> re.Pattern[str]:
    """Return what finds a number by itself, and the stem of a word at the beginning of a word."""
    return re.compile(rf"(?<!\d){word}(?!\d)" if word.isdecimal() else rf"(?<![^\W\d_]){re.escape(word)}")


def _find_passage(key: str, text: str, lower: str, weights: Mapping[str, float]) -> Passage:
    """Return the passage of a text with the most words, which begins and ends between words."""
    places = sorted((place, word) for word in weights for place in _occurrences(word, lower))

    def weigh(begin: int) -> float:
        return sum(
            weights[word] for word in {word for place, word in places if 0 <= place - begin < MAX_PASSAGE_CHARS // 2}
        )

    begin = max((place for place, _ in places), key=weigh, default=0)
    begin = max(0, min(begin, len(text)) - MAX_PASSAGE_CHARS // 4)
    end = begin + MAX_PASSAGE_CHARS
    if begin:
        begin = text.find(" ", begin, begin + 30) + 1 or begin
    if end < len(text):
        end = text.rfind(" ", end - 30, end) if text.rfind(" ", end - 30, end) > 0 else end
    return Passage(key, begin, text[begin:end])


def _occurrences(word: str, text: str) -> Iterable[int]:
    """Return the first places of a word in a text; those in other words where it does not stand by itself."""
    found = [match.start() for match in islice(_pattern_of(word).finditer(text), _MAX_OCCURRENCES)]
    return found or [match.start() for match in islice(re.finditer(re.escape(word), text), _MAX_OCCURRENCES)]
