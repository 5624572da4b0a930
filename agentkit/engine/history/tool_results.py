"""Match tool messages to the calls that they answer."""

from collections import Counter, deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from ...core.messages import Message
from .violations import MATCHING_BY_NAME, Findings

IndexedMessage: TypeAlias = tuple[int, Message]
"""A message and its index in the original conversation."""
_NOTHING: deque[int] = deque()


class CallTurn:
    """An assistant message with calls, and for each call the tool message that answers it, or None."""

    __slots__ = ("answers", "calls", "place")

    def __init__(self, place: int, message: Message) -> None:
        self.place = place
        self.calls: list[Any] = message["tool_calls"]
        self.answers: list[IndexedMessage | None] = [None] * len(self.calls)


def match_results(entries: Sequence[IndexedMessage], found: Findings) -> dict[int, CallTurn]:
    """Return the turns of the conversation by index, with their answers; tool messages without a call are in none."""
    return _Matching(entries, found).turns


class _Matching:
    """Walk over the conversation once, keeping the open calls by id and the turn whose results may follow."""

    def __init__(self, entries: Sequence[IndexedMessage], found: Findings) -> None:
        self.found = found
        self.turns = {place: CallTurn(place, message) for place, message in entries if message.get("tool_calls")}
        self.uses = Counter(call["id"] for turn in self.turns.values() for call in turn.calls if call["id"])
        self.open: dict[str, tuple[CallTurn, deque[int]]] = {}
        self.early: list[IndexedMessage] = []
        self._walk(entries)
        for place, message in self.early:
            self._match_early(place, message)

    def _walk(self, entries: Sequence[IndexedMessage]) -> None:
        turn: CallTurn | None = None
        strangers: list[IndexedMessage] = []
        latest = -1
        for entry in entries:
            place, message = entry
            if message["role"] != "tool":
                self._match_by_order(turn, strangers)
                turn, strangers, latest = self.turns.get(place), [], -1
                if turn is not None:
                    self._add_open(turn)
                continue
            identity = message["tool_call_id"]
            if turn is not None and identity not in self.uses:
                strangers.append(entry)
            elif (slot := self._slot(identity)) is None:
                self.early.append(entry)
            else:
                owner, index = slot
                owner.answers[index] = entry
                if owner is not turn:
                    self._misplaced(place, identity)
                elif index < latest:
                    text = f"the result of {identity!r:.80} comes after that of a later call"
                    self.found.add(place, "result_order", text, MATCHING_BY_NAME)
                else:
                    latest = index
        self._match_by_order(turn, strangers)

    def _add_open(self, turn: CallTurn) -> None:
        for index, call in enumerate(turn.calls):
            owner, indexes = self.open.get(call["id"], (None, _NOTHING))
            if owner is turn:
                indexes.append(index)
            else:
                self.open[call["id"]] = turn, deque([index])

    def _slot(self, identity: str) -> tuple[CallTurn, int] | None:
        """Return the call that a result with this id answers: the first open one in the latest turn with the id."""
        turn, indexes = self.open.get(identity, (None, _NOTHING))
        return (turn, indexes.popleft()) if turn is not None and indexes else None

    def _match_by_order(self, turn: CallTurn | None, strangers: Sequence[IndexedMessage]) -> None:
        """Match results directly behind `turn` with unknown ids to its open calls: by name, or one to each call."""
        if turn is None or not strangers:
            return
        left = [index for index, answer in enumerate(turn.answers) if answer is None]
        is_even = len(left) == len(strangers)
        for place, message in strangers:
            name, identity = message.get("name"), message["tool_call_id"]
            fits = (i for i in left if (is_even if name is None else name == turn.calls[i]["function"]["name"]))
            if (index := next(fits, None)) is None:
                self._orphan(place, identity)
                continue
            left.remove(index)
            turn.answers[index] = place, message
            call = f"the result behind the call {turn.calls[index]['id']!r:.80}"
            if identity:
                self.found.add(place, "orphan_result", f"{call} has the id {identity!r:.80}, which no call has")
            else:
                self.found.add(place, "missing_id", f"{call} has no id")

    def _match_early(self, place: int, message: Message) -> None:
        """Match a result that comes before its call, or report one too many."""
        identity = message["tool_call_id"]
        if self.uses[identity] == 1 and (slot := self._slot(identity)):
            turn, index = slot
            turn.answers[index] = place, message
            self._misplaced(place, identity)
        elif identity in self.uses:
            self.found.add(place, "duplicate_result", f"the call {identity!r:.80} has another result already")
        else:
            self._orphan(place, identity)

    def _misplaced(self, place: int, identity: str) -> None:
        self.found.add(place, "misplaced_result", f"the result of {identity!r:.80} is not directly behind its call")

    def _orphan(self, place: int, identity: str) -> None:
        self.found.add(place, "orphan_result", f"no call has the id {identity!r:.80} that this result answers")


def split_groups(messages: Sequence[Message]) -> list[slice]:
    """Split a conversation into groups, in order: an assistant message with its tool messages, any other one alone.

    A valid conversation stays valid when whole groups are removed, except for the role that comes first.
    """
    starts = [place for place, message in enumerate(messages) if place == 0 or message["role"] != "tool"]
    return [slice(start, end) for start, end in pairwise([*starts, len(messages)])]
