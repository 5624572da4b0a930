"""A conversation, and how much of it its journal holds."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ...core.messages import Message, ToolCall, Usage
from .store import Journal, Statement, digest, encode_json

Uncertain: TypeAlias = Callable[[ToolCall], Any] | Literal["ask"] | None
"""Says about a call that was begun, and of which nobody knows whether it took effect: True to make it again, a value
for what it came to, None or False to tell the model that it is not known; "ask" asks the person at the terminal."""
Changed: TypeAlias = Literal["refuse", "go on"]
INSERT_MESSAGE = "INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?)"


def message_row(key: int, place: int, message: Message) -> tuple[int, int, str, int]:
    """What `INSERT_MESSAGE` writes: the conversation, the message's place and text, and their digest."""
    body = encode_json(message)
    return key, place, body, digest(place, body)


@dataclass(eq=False)
class JournaledConversation:
    """One conversation in a journal; `run` is the one in it that can go on, "" if none can.

    A message that was written is written again only if it became another object, and only the first one and those of
    the last turn can: the loop changes no others.
    """

    journal: Journal
    key: int = field(default_factory=lambda: secrets.randbits(60))
    name: str | None = None
    origin: str = ""
    """"run/call" of the run that it is part of, if it is that of an agent inside a tool."""
    run: str = ""
    on_uncertain: Uncertain = None
    changed: Changed = "refuse"
    written: list[Message] = field(default_factory=list, repr=False)
    digests: list[int] = field(default_factory=list, repr=False)
    cut: set[str] = field(default_factory=set, repr=False)
    state: Mapping[str, Any] = field(default_factory=dict, repr=False)
    total: int = 0
    """The sum of the digests but the instruction's, by which a request knows what it was made on."""
    rows: int = 0
    """How many messages the journal holds."""
    replies: list[Message] = field(default_factory=list, repr=False)
    """The replies that a finished run ended with, from which its answer is had again."""
    base: Usage = field(default_factory=Usage)
    """What the other runs of the conversation took."""

    def is_continued_by(self, messages: Sequence[Message]) -> bool:
        """Whether `messages` begin with what is written, but for the instruction and the last turn."""
        kept = self._turn
        return len(messages) >= kept and all(
            old is new or old == new for old, new in zip(self.written[1:kept], messages[1:kept], strict=True)
        )

    def detach(self) -> None:
        """Take what is written for another conversation, which stays as it is."""
        self.key, self.run, self.state, self.total = secrets.randbits(60), "", {}, 0
        self.written, self.digests, self.cut, self.rows, self.replies = [], [], set(), 0, []

    def note(self, message: Message, number: int) -> None:
        """Take note of the next message that is written already, with its digest."""
        self.total += number if self.written else 0
        self.written.append(message)
        self.digests.append(number)
        self.rows = max(self.rows, len(self.written))

    def forget(self, place: int) -> None:
        """Let the conversation end before `place`; what is written of the rest stays."""
        self.total -= sum(self.digests[max(1, place) :])
        del self.written[place:], self.digests[place:]

    def new_messages(self, messages: Sequence[Message]) -> Iterator[tuple[int, Message]]:
        """What is to be written of `messages`, by their places; it counts as written."""
        for place in (*range(min(1, len(messages))), *range(max(1, self._turn), len(messages))):
            if place == len(self.written):
                self.note({}, 0)
            old, self.written[place] = self.written[place], messages[place]
            if old is not messages[place] and old != messages[place]:
                yield place, messages[place]

    def statement(self, place: int, message: Message) -> Statement:
        """What writes one message."""
        row = message_row(self.key, place, message)
        number = row[-1]
        self.total += (number - self.digests[place]) if place else 0
        self.digests[place] = number
        return INSERT_MESSAGE, row

    def truncation_statements(self, messages: Sequence[Message]) -> Iterator[Statement]:
        """What takes the end of the conversation away, if `messages` have become fewer."""
        if len(messages) < len(self.written):
            self.forget(len(messages))
            self.rows = len(messages)
            yield "DELETE FROM messages WHERE conversation = ? AND place >= ?", (self.key, len(messages))

    def cut_statements(self, texts: Mapping[str, str]) -> Iterator[Statement]:
        """What writes the whole texts of results that were cut since."""
        if texts.keys() == self.cut:
            return
        for key in self.cut - texts.keys():
            yield "DELETE FROM cut WHERE conversation = ? AND key = ?", (self.key, key)
        for key in texts.keys() - self.cut:
            yield "INSERT OR REPLACE INTO cut VALUES (?, ?, ?)", (self.key, key, encode_json(texts[key]))
        self.cut = {*texts}

    @property
    def _turn(self) -> int:
        """The place where the last turn that is written begins."""
        place = len(self.written)
        while place > 0:
            place -= 1
            if self.written[place].get("role") != "tool":
                break
        return place
