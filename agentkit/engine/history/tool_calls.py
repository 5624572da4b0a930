"""The calls of a conversation: the rules that they can violate, their repair, and the results that answer them.

A violation names the providers that reject it.  Of a call, the id, the name and the arguments are repaired.
"""

import json
import operator
import re
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any, Literal, TypeAlias

from ...core.messages import Message
from ...core.portable import to_object_text, to_portable_name
from ...core.values import frozen

Rule: TypeAlias = Literal[
    "bad_message",
    "not_json",
    "not_unicode",
    "bad_role",
    "bad_content",
    "empty_content",
    "bad_call",
    "bad_name",
    "bad_arguments",
    "missing_id",
    "duplicate_id",
    "dangling_call",
    "pending_call",
    "orphan_result",
    "duplicate_result",
    "misplaced_result",
    "result_order",
    "late_system",
    "first_user",
    "split_reply",
    "consecutive_roles",
    "lost_thinking",
]
"""A dangling call is unanswered in the middle of the conversation, a pending call at its very end."""

EVERYONE: Collection[str] = ()
OPENAI_PROVIDERS = frozenset(["openai", "azure"])
ANTHROPIC_PROVIDERS = frozenset(["anthropic", "bedrock"])
GEMINI_PROVIDERS = frozenset(["gemini", "vertex_ai"])
ALTERNATING = ANTHROPIC_PROVIDERS | GEMINI_PROVIDERS | {"mistral"}
"""Providers where user and assistant must alternate; some merge consecutive messages, others return an error."""
MATCHING_BY_NAME = GEMINI_PROVIDERS | {"mistral"}
"""Providers that match results to calls by the function's name."""


def is_from_anthropic(message: Message) -> bool:
    """Whether Claude wrote a message."""
    writer = message.get("provider")
    return isinstance(writer, str) and writer in ANTHROPIC_PROVIDERS


@frozen
class Violation:
    """One violation in a conversation: the index of the message, the rule, and a description."""

    place: int
    rule: Rule
    text: str


@dataclass(slots=True)
class Findings:
    """The violations found, each with the providers that reject it (`EVERYONE`: the format itself is broken)."""

    entries: list[tuple[Violation, Collection[str]]] = field(default_factory=list)

    def add(self, place: int, rule: Rule, text: str, refused_by: Collection[str] = EVERYONE) -> None:
        """Add a violation of `rule` by the message at `place`."""
        self.entries.append((Violation(place, rule, text), refused_by))

    def for_provider(self, provider: str | None) -> list[Violation]:
        """Return what `provider` rejects, in the order of the conversation; None: what every provider rejects."""
        found = [entry for entry, refused_by in self.entries if refused_by is EVERYONE or provider in refused_by]
        return sorted(found, key=lambda violation: violation.place)


_TAKEN_BY_MOST = re.compile(r"[A-Za-z0-9_-]{1,64}")


def repair_calls(message: Message, place: int, found: Findings) -> Message:
    """Give every call of a message an id, a valid name, and arguments that are the text of a JSON object.

    A missing id becomes "".  Entries that are no calls are removed.  A valid message is returned as the same object.
    """
    calls = message.get("tool_calls")
    if isinstance(message.get("function_call"), dict) and not _holds_call(calls):
        found.add(place, "bad_call", "function_call is the deprecated form of tool_calls")
        rest = {key: value for key, value in message.items() if key != "function_call"}
        return {**rest, "tool_calls": [_repair_call({"function": message["function_call"]}, place, Findings())]}
    if calls is None or calls == []:
        return message
    if not isinstance(calls, list):
        found.add(place, "bad_call", f"tool_calls: expected a list of calls, got {type(calls).__name__}")
        calls = [calls]
    sound = [_repair_call(call, place, found) for call in calls if isinstance(call, dict)]
    if len(sound) < len(calls):
        found.add(place, "bad_call", f"tool_calls holds {len(calls) - len(sound)} entries that are no calls")
    elif calls is message["tool_calls"] and all(new is old for new, old in zip(sound, calls, strict=True)):
        return message
    if sound:
        return {**message, "tool_calls": sound}
    return {key: value for key, value in message.items() if key != "tool_calls"}


def has_calls(message: Message) -> bool:
    """Whether a message of any role holds calls; `function_call` is OpenAI's form of 2023 for a single call."""
    return _holds_call(message.get("tool_calls")) or isinstance(message.get("function_call"), dict)


def _holds_call(calls: Any) -> bool:
    entries = calls if isinstance(calls, list) else [calls or None]
    return any(isinstance(entry, dict) for entry in entries)


def normalize_call(call: Message) -> Message:
    """Return the call as type, id, and function with name and arguments, all text; the same object if it is so already.

    Names and arguments stay as the model wrote them; a missing id becomes "".
    """
    function = call.get("function")
    identity = normalize_id(call.get("id"))
    given: Any = function if isinstance(function, dict) else call
    name = given.get("name")
    arguments = given.get("arguments")
    is_named = isinstance(name, str) and name
    if given is function and is_named and isinstance(arguments, str) and call.get("type") == "function":
        return call if identity is call.get("id") else {**call, "id": identity}
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments, default=str)
    kept = function if given is function else {}
    function = {**kept, "name": name if is_named else "unnamed_tool", "arguments": arguments}
    rest = {key: value for key, value in call.items() if given is function or key not in ("name", "arguments")}
    return {**rest, "id": identity, "type": "function", "function": function}


def normalize_id(identity: Any) -> str:
    """Return an id as text; "" if it is neither a text nor an integer."""
    if isinstance(identity, int) and not isinstance(identity, bool):
        return str(identity)
    return identity if isinstance(identity, str) and not identity.isspace() else ""


def _repair_call(call: Message, place: int, found: Findings) -> Message:
    sound = normalize_call(call)
    if sound is not call and (call.get("type") != "function" or not isinstance(call.get("function"), dict)):
        found.add(place, "bad_call", "expected a call of type function with a function object")
    function = sound["function"]
    written = call.get("function")
    written = written if isinstance(written, dict) else call
    name = to_portable_name(function["name"])
    arguments = to_object_text(function["arguments"])
    if name != written.get("name"):
        is_taken = isinstance(written.get("name"), str) and _TAKEN_BY_MOST.fullmatch(written["name"])
        text = f"{written.get('name')!r:.80} is not a valid tool name (letters, digits, _, -; at most 64)"
        found.add(place, "bad_name", text, GEMINI_PROVIDERS if is_taken else EVERYONE)
    if arguments != written.get("arguments"):
        found.add(place, "bad_arguments", f"the arguments of {name} are not the text of a JSON object")
    if sound["id"] != call.get("id") or not sound["id"]:
        found.add(place, "missing_id", f"the call of {name} has no id that is text")
    if (name, arguments) == (function["name"], function["arguments"]):
        return sound
    return {**sound, "function": {**function, "name": name, "arguments": arguments}}


class CallIds:
    """Keep the ids of the calls of a conversation unique; new ones are added to `taken`.

    `reserved` are ids that occur later in the conversation.  Their form is not checked here: it differs by provider.
    """

    def __init__(self, taken: set[str], reserved: Container[str] = ()) -> None:
        self._taken = taken
        self._reserved = reserved
        self._numbers = count(len(taken) + 1)

    def unique(self, identity: str) -> str:
        """Return `identity`, or a new id if it is empty or taken, and mark the returned id as taken."""
        if not identity or identity in self._taken:
            fresh = (f"call_{number}" for number in self._numbers)
            identity = next(new for new in fresh if new not in self._taken and new not in self._reserved)
        self._taken.add(identity)
        return identity


def normalize_reply(message: Message, known_ids: set[str]) -> Message:
    """Give every call of a model's reply a unique id, a name and arguments that are text.

    Providers answer status 400 to every later request when two calls share an id or an id is empty, and some models
    write such calls.  An id with a "/" would read as the path of a call inside another one.  Names and arguments stay
    as the model wrote them.  New ids are added to `known_ids`.  A message where nothing has to change is returned as
    the same object.
    """
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        message = repair_calls(message, 0, Findings())
        calls = message.get("tool_calls")
    if not calls:
        return message
    ids = CallIds(known_ids)
    normalized = []
    for call in map(normalize_call, calls):
        identity = call["id"]
        if not identity or "/" in identity or identity in known_ids:
            identity = ids.unique("")
        known_ids.add(identity)
        normalized.append(call if identity == call["id"] else {**call, "id": identity})
    if any(map(operator.is_not, normalized, calls)):
        return {**message, "tool_calls": normalized}
    return message


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


class Matching:
    """Match the results of a conversation to its calls.

    It is walked over once, keeping the open calls by id and the turn whose results may follow.  `turns` has the turns
    by index, with their answers; tool messages without a call are in none.
    """

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
                turn = self.turns.get(place)
                strangers = []
                latest = -1
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
        unnamed = deque(left if is_even else ())
        named: dict[str, deque[int]] = defaultdict(deque)
        for index in left:
            named[turn.calls[index]["function"]["name"]].append(index)
        for place, message in strangers:
            name = message.get("name")
            identity = message["tool_call_id"]
            fits = unnamed if name is None else named.get(name, _NOTHING)
            while fits and turn.answers[fits[0]] is not None:
                fits.popleft()
            if not fits:
                self._orphan(place, identity)
                continue
            index = fits.popleft()
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
