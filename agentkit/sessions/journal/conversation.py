"""A conversation, and which part of it the journal has."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ...core.errors import DefinitionError
from ...core.messages import Message, ToolCall, Usage
from ...policies.long_results import TruncatedResults
from .encoding import digest, encode_json
from .location import Journal, show_place
from .run_info import RunInfo
from .store import Statement
from .tables import DELETE_CUT, DELETE_MESSAGES, INSERT_CUT, INSERT_MESSAGE

Uncertain: TypeAlias = Callable[[ToolCall], Any] | Literal["ask"] | None
"""Decide about a call whose outcome is unknown: True repeats it, a value is its result, None or False informs the model
that the outcome is unknown; "ask" asks the person at the terminal."""
Changed: TypeAlias = Literal["refuse", "go on"]


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A finished run, and the calls of its last reply: that of the answer tool has the typed answer."""

    run: RunInfo
    calls: tuple[ToolCall, ...]


@dataclass(eq=False)
class JournaledConversation:
    """One conversation in a journal; `run` is its unfinished run, or "".

    A message is written again only if it is another object.  Only the first one and those of the last turn are
    compared, because the loop changes no others.
    """

    journal: Journal
    key: int = field(default_factory=lambda: secrets.randbits(60))
    name: str | None = None
    origin: str = ""
    """"run/call" of the enclosing run, if it is the conversation of an agent inside a tool."""
    run: str = ""
    next_run: str = ""
    """The id that the next run gets; "" for a random one."""
    on_uncertain: Uncertain = None
    changed: Changed = "refuse"
    written: list[Message] = field(default_factory=list, repr=False)
    digests: list[int] = field(default_factory=list, repr=False)
    cut: set[str] = field(default_factory=set, repr=False)
    state: Mapping[str, Any] = field(default_factory=dict, repr=False)
    total: int = 0
    """The sum of the digests without the instruction's: each request stores it, so missing messages are noticed."""
    stored: "StoredAnswer | None" = field(default=None, repr=False)
    """The answer of a finished run that is resumed; a run without a query returns it."""
    base: Usage = field(default_factory=Usage)
    """The usage of the other runs of the conversation."""

    def is_continued_by(self, messages: Sequence[Message]) -> bool:
        """Return whether `messages` begin with the written ones, ignoring the instruction and the last turn."""
        kept = self._turn
        return len(messages) >= kept and all(
            old is new or old == new for old, new in zip(self.written[1:kept], messages[1:kept], strict=True)
        )

    def command_to_resume(self) -> str:
        """Return the command that continues the unfinished run; "" if the conversation has none."""
        return f"agentkit resume {self.run} --journal {show_place(self.journal.path)}" if self.run else ""

    def set_decisions(self, on_uncertain: Uncertain, changed: Changed) -> None:
        """Set what is done about calls in doubt, and about another agent than the one that began the run."""
        if on_uncertain not in (None, "ask") and not callable(on_uncertain):
            raise DefinitionError(f'on_uncertain must be a function, "ask" or None, got {on_uncertain!r:.60}')
        if changed not in ("refuse", "go on"):
            raise DefinitionError(f'changed must be "refuse" or "go on", got {changed!r:.60}')
        self.on_uncertain, self.changed = on_uncertain, changed

    def begin_run(self) -> str:
        """Return the id of a new run, which is now the unfinished one."""
        self.run, self.next_run = self.next_run or secrets.token_hex(6), ""
        return self.run

    def detach(self) -> None:
        """Become a new conversation; the old one stays in the journal."""
        self.key, self.run, self.state, self.total = secrets.randbits(60), "", {}, 0
        self.written, self.digests, self.cut, self.stored = [], [], set(), None

    def note(self, message: Message, number: int) -> None:
        """Add the next message that the journal has, with its digest."""
        self.total += number if self.written else 0
        self.written.append(message)
        self.digests.append(number)

    def message_statements(self, messages: Sequence[Message]) -> Iterator[tuple[int, Statement]]:
        """Yield the indexes of the messages to write, which count as written, and the statements that write them."""
        for place in (*range(min(1, len(messages))), *range(max(1, self._turn), len(messages))):
            if place == len(self.written):
                self.note({}, 0)
            old, self.written[place] = self.written[place], messages[place]
            if old is not messages[place] and old != messages[place]:
                body = encode_json(messages[place])
                number = digest(place, body)
                self.total += (number - self.digests[place]) if place else 0
                self.digests[place] = number
                yield place, (INSERT_MESSAGE, (self.key, place, body, number))

    def truncation_statements(self, messages: Sequence[Message]) -> Iterator[Statement]:
        """Yield the statement that removes the last rows, if there are fewer `messages`."""
        if (end := len(messages)) < len(self.written):
            self.total -= sum(self.digests[max(1, end) :])
            del self.written[end:], self.digests[end:]
            yield DELETE_MESSAGES, (self.key, end)

    def cut_statements(self, stored: TruncatedResults) -> Iterator[Statement]:
        """Yield the statements that write the full texts of results truncated since the last write."""
        for key in self.cut ^ stored.texts.keys():
            if key in self.cut:
                yield DELETE_CUT, (self.key, key)
            else:
                yield INSERT_CUT, (self.key, key, encode_json(stored.encode(key)))
        self.cut = {*stored.texts}

    @property
    def _turn(self) -> int:
        """The index at which the last written turn begins."""
        places = range(len(self.written) - 1, -1, -1)
        return next((place for place in places if self.written[place].get("role") != "tool"), 0)
