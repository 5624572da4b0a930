"""Check a conversation from any source, and repair it so that every provider accepts it.

A violation is what the repair would change, or thinking that is lost: each rule is written once, for both.  First the
single messages are repaired: role, name, calls, and content, which is non-empty text or a list of parts.  Then user and
assistant alternate: consecutive texts of one role become one message.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal

from ...core.messages import DEVELOPER, UNKNOWN, Message, ToolCall, label_of, tool_message, user, with_label
from ...core.parts import join_contents
from ...core.portable import find_flaw, to_json_value
from .tool_calls import (
    ALTERNATING,
    ANTHROPIC_PROVIDERS,
    GEMINI_PROVIDERS,
    MATCHING_BY_NAME,
    OPENAI_PROVIDERS,
    CallIds,
    CallTurn,
    Findings,
    IndexedMessage,
    Matching,
    Violation,
    has_calls,
    is_from_anthropic,
    normalize_id,
    repair_calls,
)

INTERRUPTED_CALL = "Interrupted: this call had no result when the run ended; it is not known whether it had an effect."
OPENING = "(The conversation begins here.)"
"""The user message in front of a conversation that does not begin with one."""
CONTINUE_TEXT = "Go on."
"""The user message between two replies that the wire would merge, with thinking in the middle."""
_NOWHERE = -1
"""The index of a message that was inserted."""


def check_history(messages: Sequence[Message], provider: str | None = None) -> list[Violation]:
    """Return what `provider` would reject in a conversation, in the order of its messages.

    Args:
        messages: The conversation; any values, JSON or not.
        provider: "openai", "anthropic", "gemini", ...; default: only what every provider rejects.

    Returns:
        The violations; [] if the conversation can continue with the next query or, if it ends in results, as it is.

    Raises:
        TypeError: `messages` is not a list; its entries may be any values.
    """
    found = Findings()
    _repair(messages, "answer", found)
    find_lost_thinking(messages, found)
    return found.for_provider(provider)


def repair_history(messages: list[Message], *, pending: Literal["answer", "keep"] = "answer") -> list[Message]:
    """Return the conversation so that every provider accepts it, changed as little as possible.

    Results are moved behind their calls, in call order; calls without a result are answered as interrupted.  Ids are
    made unique, and broken parts are converted to valid ones.  Results without a call and empty messages are removed.
    Consecutive texts of one role are merged.

    Args:
        messages: The conversation; neither the list nor its messages are changed.
        pending: "keep" leaves the calls at the very end open, for the conversation of a paused run.

    Returns:
        The same list if it is valid; valid messages are the same objects.

    Raises:
        TypeError: `messages` is not a list; its entries may be any values.
    """
    found = Findings()
    repaired = _repair(messages, pending, found)
    return repaired if found.entries else messages


def _repair(messages: Sequence[Message], pending: Literal["answer", "keep"], found: Findings) -> list[Message]:
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise TypeError(f"messages: expected a list of messages, got {type(messages).__name__}")
    entries: list[IndexedMessage] = []
    for place, message in enumerate(messages):
        if (sound := repair_message(message, place, found)) is not None:
            entries.append((place, sound))
    turns = Matching(entries, found).turns
    spoken = [entry for entry in entries if entry[1]["role"] != "tool"]
    last = turns.get(spoken[-1][0]) if spoken else None
    exchanges = _Exchanges(turns.values(), last, found, keep=pending == "keep")
    repaired: list[Message] = []
    for place, message in merge_neighbours(_order_roles(spoken, found), found):
        if (turn := turns.get(place)) is None:
            repaired.append(message)
        else:
            repaired += exchanges.write(turn, message)
    return repaired


def _order_roles(entries: Sequence[IndexedMessage], found: Findings) -> Iterator[IndexedMessage]:
    """Put system messages first, then a user message; `entries` are the messages other than those of tools."""
    before = "system"
    for place, message in entries:
        role = message["role"]
        if role == "system" and before != "system":
            found.add(place, "late_system", "a system message is not at the beginning: make it a user message")
            message = {**message, "role": "user"}
            role = "user"
        if role == "assistant" and before == "system":
            found.add(
                place, "first_user", "the first message must be the user's", ANTHROPIC_PROVIDERS | GEMINI_PROVIDERS
            )
            yield _NOWHERE, user(OPENING)
        elif role == "assistant" == before and is_from_anthropic(message) and message.get("thinking_blocks"):
            text = "two replies in a row are merged, and the thinking of the second must be first in a message"
            found.add(place, "split_reply", text, ANTHROPIC_PROVIDERS)
            yield _NOWHERE, user(CONTINUE_TEXT)
        yield place, message
        before = "tool" if message.get("tool_calls") else role


class _Exchanges:
    """Write replies with calls and their results; all calls have different ids.

    `last` is the turn that the conversation ends in, if any; with `keep`, its open calls stay open.
    """

    def __init__(self, turns: Collection[CallTurn], last: CallTurn | None, found: Findings, *, keep: bool) -> None:
        self._last = last
        self._found = found
        self._keep = keep
        self._ids = CallIds(set(), {call["id"] for turn in turns for call in turn.calls})

    def write(self, turn: CallTurn, message: Message) -> Iterator[Message]:
        """Yield the message of a turn and one result for each of its calls, in call order."""
        calls = [self._with_id(call, turn.place) for call in turn.calls]
        is_same = all(new is old for new, old in zip(calls, turn.calls, strict=True))
        yield message if is_same else {**message, "tool_calls": calls}
        for call, answer in zip(calls, turn.answers, strict=True):
            name = call["function"]["name"]
            if answer is not None:
                yield self._with_name(answer, call["id"], name)
            elif turn is not self._last or not self._keep:
                text = f"the call {call['id']!r:.80} of {name} has no result"
                self._found.add(turn.place, "pending_call" if turn is self._last else "dangling_call", text)
                yield tool_message(ToolCall(call["id"], name), INTERRUPTED_CALL, label=DEVELOPER)

    def _with_id(self, call: Message, place: int) -> Message:
        old = call["id"]
        if (identity := self._ids.unique(old)) == old:
            return call
        if old:
            self._found.add(place, "duplicate_id", f"an earlier call has the id {old!r:.80}, too")
        return {**call, "id": identity}

    def _with_name(self, answer: IndexedMessage, identity: str, name: str) -> Message:
        """Return the result with the id and the name of its call."""
        place, message = answer
        if message.get("name", name) != name:
            text = f"the result names the tool {message['name']!r:.80}, but its call is of {name}"
            self._found.add(place, "bad_name", text, MATCHING_BY_NAME)
            message = {**message, "name": name}
        return message if message["tool_call_id"] == identity else {**message, "tool_call_id": identity}


def find_lost_thinking(messages: Sequence[Any], found: Findings) -> None:
    """Report replies of the tool loop at the end that lost their thinking blocks, which Anthropic requires first.

    The loss is certain where the thinking is there as text alone (litellm writes both), or without its signature
    (Anthropic, "Extended thinking", preserving thinking blocks).  A reply without any thinking may never have had some.
    """
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if not isinstance(message, dict) or message.get("role") == "user":
            return
        if not is_from_anthropic(message) or not message.get("tool_calls"):
            continue
        blocks = message.get("thinking_blocks")
        if not blocks and not message.get("reasoning_content"):
            continue
        if not isinstance(blocks, list) or not blocks or not all(_is_signed(block) for block in blocks):
            text = "the signed thinking blocks in front of the calls are lost"
            found.add(place, "lost_thinking", text, ANTHROPIC_PROVIDERS)


def _is_signed(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    return bool(block.get("data") if block.get("type") == "redacted_thinking" else block.get("signature"))


_ROLES = {"system", "user", "assistant", "tool"}
_ALSO_CALLED = {"developer": "system", "function": "tool", "model": "assistant", "ai": "assistant", "human": "user"}
_FLAWS = {
    "not_json": "the message holds a value that is not JSON",
    "not_unicode": "a text in the message is not valid Unicode: half of a surrogate pair",
}
_NAME_REFUSED = re.compile(r"[\s<|\\/>]+")
"""Characters that OpenAI rejects in a name (API reference, "Create chat completion")."""


def repair_message(message: Any, place: int, found: Findings) -> Message | None:
    """Repair one message, independent of its neighbours; return None if it is empty.

    A valid message is returned as the same object.  A tool message has an id afterwards, which may be "".
    """
    if not isinstance(message, dict):
        found.add(place, "bad_message", f"expected a dict with a role, got {type(message).__name__}")
        message = to_json_value(message)
        if not isinstance(message, dict):
            return None
    elif broken := find_flaw(message):
        found.add(place, broken, _FLAWS[broken])
        message = to_json_value(message)
    role = _infer_role(message)
    given = message.get("role")
    if role != given:
        found.add(place, "bad_role", f"the role is {given!r:.40}, but the message is one of the role {role!r}")
        message = {**message, "role": role}
        is_named = isinstance(given, str) and _normalize_role(given) == role
        if role == "user" and not is_named and "label" not in message:  # nothing tells who wrote it
            message = with_label(message, UNKNOWN)
    if role == "assistant" or message.get("tool_calls"):
        message = repair_calls(message, place, found)
    if role == "tool" and (identity := normalize_id(message.get("tool_call_id"))) is not message.get("tool_call_id"):
        message = {**message, "tool_call_id": identity}
    if "name" in message:
        message = _repair_name(message, place, found)
    return _repair_content(message, place, found)


def _infer_role(message: Message) -> str:
    """Return the role: a message with calls is the assistant's, one with a call id is a tool's, whatever it states."""
    given = message.get("role")
    if has_calls(message):
        return "assistant"
    if message.get("tool_call_id") is not None:
        return "tool"
    if not isinstance(given, str):
        return "user"
    given = _normalize_role(given)
    return given if given in _ROLES else "user"


def _normalize_role(given: str) -> str:
    given = given.strip().lower()
    return _ALSO_CALLED.get(given, given)


def _repair_name(message: Message, place: int, found: Findings) -> Message:
    name = message["name"]
    if not isinstance(name, str) or not name:
        found.add(place, "bad_name", f"expected a name, got {name!r:.40}: leave it out")
        return {key: value for key, value in message.items() if key != "name"}
    if message["role"] in ("user", "system") and (len(name) > 64 or _NAME_REFUSED.search(name)):
        found.add(
            place, "bad_name", f"the name {name!r:.80} has spaces, one of <|\\/>, or over 64 letters", OPENAI_PROVIDERS
        )
        return {**message, "name": _NAME_REFUSED.sub("_", name)[:64]}
    return message


_SHOWN_BY_USERS = {"image_url", "input_audio", "file"}
"""Parts that only user and tool messages may hold (OpenAI: "Supported values are: 'text' and 'refusal'")."""


def _repair_content(message: Message, place: int, found: Findings) -> Message | None:
    """Return the message with valid content; the same object if it is valid, None if it is empty.

    The content of a tool message may be empty, and so may the text beside calls.
    """
    content = message.get("content")
    role = message["role"]
    has_calls = bool(message.get("tool_calls"))
    if isinstance(content, list):
        repaired: Any = _repair_parts(content, role, place, found)
    elif content is None or isinstance(content, str):
        repaired = content
    else:
        found.add(place, "bad_content", f"the content is {type(content).__name__}, neither text nor a list of parts")
        repaired = (
            _repair_parts([content], role, place, Findings()) if isinstance(content, dict) else json.dumps(content)
        )
    if role == "tool":
        if not isinstance(content, str) and not repaired:
            found.add(place, "bad_content", "a tool message's content is text, if only '', or a list of parts")
            repaired = ""
    elif not repaired or (isinstance(repaired, str) and repaired.isspace()):
        if not has_calls:
            found.add(place, "empty_content", f"the {role} message is empty")
            return None
        if content:
            found.add(place, "empty_content", "the text beside the calls is blank: leave it out", ANTHROPIC_PROVIDERS)
            repaired = None
    return message if repaired is content else {**message, "content": repaired}


def _repair_parts(parts: list[Any], role: str, place: int, found: Findings) -> list[Any]:
    """Return the non-empty parts, each with a type; the same list if it is valid."""
    repaired: list[Any] = []
    for part in parts:
        sound = part if _is_part(part) else _to_text_part(part)
        if sound is not part:
            found.add(place, "bad_content", "a part of the content has no type, or no text")
        elif role in ("assistant", "system") and part["type"] in _SHOWN_BY_USERS:
            found.add(
                place, "bad_content", f"{role} messages hold no {part['type']}", OPENAI_PROVIDERS | ANTHROPIC_PROVIDERS
            )
            sound = {"type": "text", "text": f"({part['type']})"}
        if sound["type"] != "text" or (sound["text"] and not sound["text"].isspace()):
            repaired.append(sound)
        elif sound is part:
            found.add(place, "empty_content", "a text part is empty")
    is_same = len(repaired) == len(parts) and all(new is old for new, old in zip(repaired, parts, strict=True))
    return parts if is_same else repaired


def _is_part(part: Any) -> bool:
    if not isinstance(part, dict) or not isinstance(kind := part.get("type"), str):
        return False
    return isinstance(part.get("text"), str) if kind == "text" else bool(kind)


def _to_text_part(part: Any) -> Message:
    """Convert a broken part to text: its own text if it has one, otherwise its JSON."""
    text = part.get("text") if isinstance(part, dict) else part
    if text is None and isinstance(part, dict) and part.keys() <= {"type", "text"}:
        text = ""
    return {"type": "text", "text": text if isinstance(text, str) else json.dumps(part, ensure_ascii=False)}


_TEXT_ALONE = {"role", "content", "provider", "label"}


def merge_neighbours(entries: Iterable[IndexedMessage], found: Findings) -> Iterator[IndexedMessage]:
    """Merge consecutive user or assistant messages that hold nothing but text; `entries` has no tool messages."""
    held: IndexedMessage | None = None
    for place, message in entries:
        if held is not None and _can_merge(held[1], message):
            found.add(place, "consecutive_roles", f"a second {message['role']} message in a row", ALTERNATING)
            joined = {**message, "content": join_contents(held[1]["content"], message.get("content"))}
            has_label = "label" in held[1] or "label" in message
            message = with_label(joined, label_of(held[1]).join(label_of(message))) if has_label else joined
        elif held is not None:
            yield held
        held = place, message
    if held is not None:
        yield held


def merge_texts(messages: Iterable[Message]) -> Iterator[Message]:
    """Merge consecutive messages of one role whose content is a text, if their labels are the same."""
    held: Message | None = None
    for message in messages:
        if held is not None and held.get("label") == message.get("label"):
            message = {**message, "content": join_contents(held["content"], message["content"])}
        elif held is not None:
            yield held
        held = message
    if held is not None:
        yield held


def _can_merge(first: Message, second: Message) -> bool:
    same = first["role"] == second["role"] and first["role"] in ("user", "assistant")
    return same and first.keys() <= _TEXT_ALONE and second.keys() <= _TEXT_ALONE | {"tool_calls"}
