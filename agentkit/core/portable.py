"""Plain JSON values in valid Unicode: what is none, and what it becomes."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


_REFUSED = re.compile(r"[^A-Za-z0-9_-]+")


def to_portable_name(name: str) -> str:
    """A tool's name as every provider takes it back in a conversation; the same text where nothing is amiss."""
    if _NAME.fullmatch(name):
        return name
    text = _REFUSED.sub("_", name)[:64] or "unnamed_tool"
    return text if _NAME.fullmatch(text) else f"_{text}"[:64]


MAX_DEPTH = 200
"""Levels of nesting; what is deeper, or contains itself, cannot be sent."""


def find_flaw(value: Any, depth: int = 0) -> Literal["not_json", "not_unicode"] | None:
    """What keeps `value` from being sent as JSON, if anything does."""
    if isinstance(value, str):
        return None if value.isascii() or _is_unicode(value) else "not_unicode"
    if value is None or isinstance(value, int):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else "not_json"
    if depth == MAX_DEPTH or not isinstance(value, dict | list):
        return "not_json"
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str or not key.isascii():
                if not isinstance(key, str):
                    return "not_json"
                if not _is_unicode(key):
                    return "not_unicode"
        value = value.values()
    for entry in value:
        if type(entry) is str:
            if entry.isascii() or _is_unicode(entry):
                continue
            return "not_unicode"
        if entry is not None and (found := find_flaw(entry, depth + 1)):
            return found
    return None


def to_json_value(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """`value` as JSON that can be sent: messages of SDKs as dicts, NaN as null, what JSON has no word for as text."""
    if isinstance(value, str):
        return to_valid_text(str.__str__(value))
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if len(inside) >= MAX_DEPTH or id(value) in inside:
        return "(nested too deeply)"
    inside = (*inside, id(value))
    try:
        if callable(dump := getattr(value, "model_dump", None)):
            value = dump(exclude_none=True)
        if isinstance(value, Mapping):
            return {to_valid_text(str(key)): to_json_value(entry, inside) for key, entry in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [to_json_value(entry, inside) for entry in value]
        if isinstance(value, bytes | bytearray):
            return value.decode(errors="replace")
        cls = type(value)
        speaks = any("__str__" in vars(base) or "__repr__" in vars(base) for base in cls.__mro__ if base is not object)
        return to_valid_text(str(value)) if speaks else f"<{cls.__name__}>"
    except Exception as error:  # whatever somebody's class raises while it says itself
        return f"<{type(value).__name__}: {type(error).__name__}>"


def to_object_text(arguments: Any) -> str:
    """The arguments of a call as every provider takes them back: the text of a JSON object in valid Unicode.

    Text that is so already comes back as it is, an object as its text, and what cannot be read as an object as `{}`.
    Anthropic, Gemini and Ollama are sent the object itself: there, broken text in the history fails every later turn.
    """
    try:
        if isinstance(arguments, str):
            value = _STRICT.decode(arguments)
            if isinstance(value, dict) and find_flaw(value) is None:
                return arguments
    except (ValueError, RecursionError):
        pass
    value = _parse_object(arguments)
    return json.dumps(value, ensure_ascii=False) if value else "{}"


def to_valid_text(text: str) -> str:
    """`text` with what is no valid Unicode (halves of surrogate pairs) replaced."""
    if text.isascii() or _is_unicode(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _parse_object(arguments: Any) -> Any:
    """The object that `arguments` are, perhaps as text or as the text of a text; None if they are none."""
    for _ in range(3):
        if isinstance(arguments, dict):
            return to_json_value(arguments)
        if not isinstance(arguments, str):
            return None
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)
