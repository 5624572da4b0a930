"""Values that every provider accepts: JSON in valid Unicode, tool names and arguments; and the conversion to them."""

import json
import math
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from .masking import MAX_SECRET_CHARS, mask

Json: TypeAlias = dict[str, Any]
"""A JSON object."""
SURROGATE = re.compile(r"[\ud800-\udfff]")
SHOWN_VALUE_CHARS = 200
"""Characters of a value in messages and records, unless the caller has another bound."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""A tool name that every provider accepts (OpenAI and Anthropic: at most 64 characters; Gemini: no leading digit)."""
_REFUSED = re.compile(r"[^A-Za-z0-9_-]+")


def to_portable_name(name: str) -> str:
    """Return a tool name that every provider accepts in a conversation; a valid name is returned unchanged."""
    if _NAME.fullmatch(name):
        return name
    text = _REFUSED.sub("_", name)[:64] or "unnamed_tool"
    return text if _NAME.fullmatch(text) else f"_{text}"[:64]


def find_free_name(name: str, *taken: Container[str]) -> str:
    """Return `name`; if one of `taken` has it, with a number at its end, at most 64 characters in all."""
    free = name
    number = 1
    while any(free in names for names in taken):
        number += 1
        end = f"_{number}"
        free = f"{name[: 64 - len(end)]}{end}"
    return free


def format_value(value: Any, max_chars: int = SHOWN_VALUE_CHARS) -> str:
    """Return the value as JSON, secrets masked, truncated to `max_chars` characters and "..."."""
    return truncate_masked(json.dumps(value, ensure_ascii=False, default=str), max_chars)


def truncate_masked(text: str, max_chars: int = SHOWN_VALUE_CHARS) -> str:
    """Return a text as `truncate` does, its secrets masked before: a truncated secret does not match."""
    return truncate(mask(text[: max_chars + MAX_SECRET_CHARS]), max_chars)


def truncate(text: str, max_chars: int = SHOWN_VALUE_CHARS) -> str:
    """Return a text truncated to `max_chars` characters and "...", with lone surrogates as U+FFFD.

    Args:
        text: The text, which a model or a server may have written.
        max_chars: The characters that are kept; a shorter text is returned without "...".
    """
    return SURROGATE.sub("\ufffd", text if len(text) <= max_chars else f"{text[:max_chars]}...")


MAX_JSON_DEPTH = 200
"""Levels of nesting that can be sent."""
_SPARE_LEVELS = 10
"""Levels that converted values leave free, since a repair may wrap them."""
MAX_INTEGER_BITS = 14_000
"""Bits of an integer that can be sent: Python converts at most 4,300 digits to text."""


def find_flaw(value: Any, depth: int = 0) -> Literal["not_json", "not_unicode"] | None:
    """Return why `value` cannot be sent as JSON, or None if it can."""
    if isinstance(value, str):
        return None if value.isascii() or _is_unicode(value) else "not_unicode"
    if value is None:
        return None
    if isinstance(value, int):
        return None if value.bit_length() <= MAX_INTEGER_BITS else "not_json"
    if isinstance(value, float):
        return None if math.isfinite(value) else "not_json"
    if depth == MAX_JSON_DEPTH or not isinstance(value, dict | list):
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
    """Convert `value` to JSON that can be sent: messages of SDKs to dicts, NaN to null, other objects to text."""
    if isinstance(value, str):
        return to_valid_text(str.__str__(value))
    if value is None:
        return None
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_INTEGER_BITS else f"(an integer of {value.bit_length():,} bits)"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if len(inside) >= MAX_JSON_DEPTH - _SPARE_LEVELS or id(value) in inside:
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
    except Exception as error:  # from a foreign class's __str__ or model_dump
        return f"<{type(value).__name__}: {type(error).__name__}>"


def to_object_text(arguments: Any) -> str:
    """Return the arguments of a call as the text of a JSON object in valid Unicode, which every provider accepts.

    Valid text is returned unchanged, an object as its text, and everything else as "{}".  Anthropic, Gemini and Ollama
    are sent the object itself: there, broken text in the history fails every later request.
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


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; one that is no JSON, or is nested too deeply to read, is returned unchanged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def iterate_scalars(data: Any) -> Iterator[Any]:
    """Yield the values in JSON data that are neither objects nor lists, at any depth."""
    if isinstance(data, dict | list):
        for entry in data.values() if isinstance(data, dict) else data:
            yield from iterate_scalars(entry)
    else:
        yield data


def copy_value(value: Any) -> Any:
    """Return JSON data with new objects and lists; other values are shared."""
    if isinstance(value, dict):
        return {key: copy_value(entry) for key, entry in value.items()}
    return [copy_value(entry) for entry in value] if isinstance(value, list) else value


def to_canonical_text(arguments: str) -> str:
    """Return the arguments of a call in one layout, with sorted keys; text that is not JSON is returned unchanged."""
    try:
        return _CANONICAL.encode(json.loads(arguments))
    except (ValueError, RecursionError):
        return arguments


def to_valid_text(text: str) -> str:
    """Replace what is not valid Unicode (halves of surrogate pairs) in `text`."""
    if text.isascii() or _is_unicode(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _parse_object(arguments: Any) -> Any:
    """Return `arguments` as an object, decoding up to three layers of JSON text; None if they are no object."""
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


_CANONICAL = json.JSONEncoder(sort_keys=True)
_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)


def split_words(text: str) -> list[str]:
    """Split a text into words, the pieces in which providers stream it."""
    return re.findall(r"\s*\S+\s*$|\s*\S+|\s+", text)
