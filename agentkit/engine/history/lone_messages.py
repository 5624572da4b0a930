"""One message by itself: an object of JSON values, with a role that fits what it holds, and something to say."""

import re
from typing import Any

from ...core.messages import Message
from ...core.portable import flaw, plain
from .single_messages import with_content
from .tool_calls import has_calls, id_text, with_calls
from .violations import OPENAI, Findings

_ROLES = {"system", "user", "assistant", "tool"}
_ALSO_CALLED = {"developer": "system", "function": "tool", "model": "assistant", "ai": "assistant", "human": "user"}
_FLAWS = {
    "not_json": "the message holds something that JSON has no word for",
    "not_unicode": "a text in the message is not valid Unicode: half of a surrogate pair",
}
_NAME_REFUSED = re.compile(r"[\s<|\\/>]+")
"""What OpenAI does not take in a name (API reference, "Create chat completion")."""


def sound_message(message: Any, place: int, found: Findings) -> Message | None:
    """The message as a conversation can hold it, whatever stands around it; None if nothing is left of it.

    It is the same object where nothing is amiss.  A tool message has an id afterwards, perhaps an empty one.
    """
    if not isinstance(message, dict):
        found.add(place, "bad_message", f"{type(message).__name__} is no message: a message is a dict with a role")
        message = plain(message)
        if not isinstance(message, dict):
            return None
    elif broken := flaw(message):
        found.add(place, broken, _FLAWS[broken])
        message = plain(message)
    role, said = _role(message), message.get("role")
    if role != said:
        found.add(place, "bad_role", f"the role is {said!r:.40}, but this is a message of the role {role!r}")
        message = {**message, "role": role}
    if role == "assistant" or message.get("tool_calls"):
        message = with_calls(message, place, found)
    if role == "tool" and (identity := id_text(message.get("tool_call_id"))) is not message.get("tool_call_id"):
        message = {**message, "tool_call_id": identity}
    if "name" in message:
        message = _named(message, place, found)
    return with_content(message, place, found)


def _role(message: Message) -> str:
    """What a message is: who holds calls is the assistant, who answers one is a tool, whatever the role says."""
    said = message.get("role")
    if has_calls(message):
        return "assistant"
    if message.get("tool_call_id") is not None:
        return "tool"
    if not isinstance(said, str):
        return "user"
    said = said.strip().lower()
    said = _ALSO_CALLED.get(said, said)
    return said if said in _ROLES else "user"


def _named(message: Message, place: int, found: Findings) -> Message:
    name = message["name"]
    if not isinstance(name, str) or not name:
        found.add(place, "bad_name", f"the name is {name!r:.40}: leave it out")
        return {key: value for key, value in message.items() if key != "name"}
    if message["role"] in ("user", "system") and (len(name) > 64 or _NAME_REFUSED.search(name)):
        found.add(place, "bad_name", f"the name {name!r:.80} has spaces, one of <|\\/>, or over 64 letters", OPENAI)
        return {**message, "name": _NAME_REFUSED.sub("_", name)[:64]}
    return message
