"""Repair single messages: role, name, calls, and content, which is non-empty text or a list of parts."""

import json
import re
from collections.abc import Iterator
from typing import Any

from ...core.labels import UNKNOWN, with_label
from ...core.messages import Message
from ...core.portable import find_flaw, to_json_value
from .tool_calls import has_calls, normalize_id, repair_calls
from .violations import ANTHROPIC, OPENAI, Findings

_SHOWN_BY_USERS = {"image_url", "input_audio", "file"}
"""Parts that only user and tool messages may hold (OpenAI: "Supported values are: 'text' and 'refusal'")."""


def _repair_content(message: Message, place: int, found: Findings) -> Message | None:
    """Return the message with valid content; the same object if it is valid, None if it is empty.

    The content of a tool message may be empty, and so may the text beside calls.
    """
    content, role, has_calls = message.get("content"), message["role"], bool(message.get("tool_calls"))
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
            found.add(place, "empty_content", "the text beside the calls is blank: leave it out", ANTHROPIC)
            repaired = None
    return message if repaired is content else {**message, "content": repaired}


def _repair_parts(parts: list[Any], role: str, place: int, found: Findings) -> list[Any]:
    """Return the non-empty parts, each with a type; the same list if it is valid."""
    sound = list(_iterate_repaired_parts(parts, role, place, found))
    is_same = len(sound) == len(parts) and all(new is old for new, old in zip(sound, parts, strict=True))
    return parts if is_same else sound


def _iterate_repaired_parts(parts: list[Any], role: str, place: int, found: Findings) -> Iterator[Any]:
    for part in parts:
        sound = part if _is_part(part) else _to_text_part(part)
        if sound is not part:
            found.add(place, "bad_content", "a part of the content has no type, or no text")
        elif role in ("assistant", "system") and part["type"] in _SHOWN_BY_USERS:
            found.add(place, "bad_content", f"{role} messages hold no {part['type']}", OPENAI | ANTHROPIC)
            sound = {"type": "text", "text": f"({part['type']})"}
        if sound["type"] != "text" or (sound["text"] and not sound["text"].isspace()):
            yield sound
        elif sound is part:
            found.add(place, "empty_content", "a text part is empty")


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
    role, given = _infer_role(message), message.get("role")
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
        found.add(place, "bad_name", f"the name {name!r:.80} has spaces, one of <|\\/>, or over 64 letters", OPENAI)
        return {**message, "name": _NAME_REFUSED.sub("_", name)[:64]}
    return message
