"""Repair the calls of an assistant message: id, name and arguments."""

import json
import re
from collections.abc import Container
from itertools import count
from typing import Any

from ...core.messages import Message
from ...core.portable import to_object_text, to_portable_name
from .violations import EVERYONE, GEMINI, Findings

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
    function, identity = call.get("function"), normalize_id(call.get("id"))
    given: Any = function if isinstance(function, dict) else call
    name, arguments = given.get("name"), given.get("arguments")
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
    function, written = sound["function"], call.get("function")
    written = written if isinstance(written, dict) else call
    name, arguments = to_portable_name(function["name"]), to_object_text(function["arguments"])
    if name != written.get("name"):
        is_taken = isinstance(written.get("name"), str) and _TAKEN_BY_MOST.fullmatch(written["name"])
        text = f"{written.get('name')!r:.80} is not a valid tool name (letters, digits, _, -; at most 64)"
        found.add(place, "bad_name", text, GEMINI if is_taken else EVERYONE)
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
    write such calls.  Names and arguments stay as the model wrote them.  New ids are added to `known_ids`.  A message
    where nothing has to change is returned as the same object.
    """
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        message = repair_calls(message, 0, Findings())
        calls = message.get("tool_calls")
    if not calls:
        return message
    ids = CallIds(known_ids)
    normalized = [_with_unique_id(ids, normalize_call(call)) for call in calls]
    if all(new is old for new, old in zip(normalized, calls, strict=True)):
        return message
    return {**message, "tool_calls": normalized}


def _with_unique_id(ids: CallIds, call: Message) -> Message:
    identity = ids.unique(call["id"])
    return call if identity == call["id"] else {**call, "id": identity}
