"""The text of arguments -> the JSON value it holds: read strictly and, where that fails, past slips of the syntax."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from .json_reader import SURROGATE, Reader, Unreadable, joined, unique

Path = tuple[int | str, ...]

_TOKEN = r"</?[|｜]?[\w|｜▁.:/-]{1,40}>"
_NOISE = {
    "code fence": re.compile(r"\s*```[ \t]*(?:[A-Za-z0-9]+(?=\s))?"),
    "special token": re.compile(r"\s*" + _TOKEN),
}
_LAST_TOKEN = re.compile(r"(?P<token>" + _TOKEN + r")\s*\Z")
_CLOSING = re.compile(r"[\s\]}]+\Z")
_NOT_FINITE = re.compile(r"\s*[+-]?(?:nan|inf(?:inity)?|[\d._]+e\+?\d{3,})\s*", re.IGNORECASE)
_DOUBTS = (
    re.compile(r'"\s*[+-]?(?:nan|inf(?:inity)?|[\d._]+e\+?\d{3,})\s*"', re.IGNORECASE),
    re.compile(r"\d{309}"),
)
"""Numbers that pydantic would read as infinite: in a string, or as an integer where a float is wanted."""
_INFINITY = float("inf")
_LARGEST = sys.float_info.max
_ENCODED = 3
"""How often a JSON text may stand as a string in a JSON text."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The value of a text, and the slips that were read over."""

    value: Any
    slips: tuple[str, ...] = ()


_EXPONENT = re.compile(r"e\+?\d{3}")


def is_sound(text: str) -> bool:
    """Whether `text` is strictly the JSON of one object, without anything that is read differently here and there.

    That would be NaN and infinity, a key that stands there twice, numbers too large for a float, half a surrogate pair.
    """
    if _is_plain(text):
        return True
    try:
        value = _STRICT.decode(text)
    except (ValueError, RecursionError):
        return False
    if "\\ud" in text or "\\uD" in text or not text.isascii():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return False
    is_long = len(text) >= 309
    return isinstance(value, dict) and not _DOUBTS[0].search(text) and not (is_long and _DOUBTS[1].search(text))


def _is_plain(text: str) -> bool:
    """A quick yes for most texts: nothing in them looks like any of that, and there are as many keys as colons."""
    low = text.lower()
    if "nan" in low or "inf" in low or "\\u" in low or len(low) >= 309 or _EXPONENT.search(low):
        return False
    try:
        value = from_json(text)
    except (ValueError, TypeError):
        return False
    return isinstance(value, dict) and text.count(":") == _keys(value)


def _keys(value: Any) -> int:
    """How many keys stand in a value, at any depth."""
    found = 0
    if isinstance(value, dict):
        found, value = len(value), value.values()
    return found + sum(_keys(inner) for inner in value if isinstance(inner, dict | list))


def strictly(text: str) -> Any:
    """The value of a text that is JSON as the standard has it (and NaN and infinity); raises `Unreadable`."""
    try:
        return json.loads(text, object_pairs_hook=unique)
    except Unreadable:
        raise
    except ValueError as error:
        raise Unreadable(str(error)) from error
    except RecursionError as error:
        raise Unreadable("nested too deeply") from error


def read(text: str, depth: int = 0) -> Reading:
    """The value of a text with slips of the syntax; raises `Unreadable`."""
    try:
        reading = Reading(strictly(text))
    except Unreadable:
        reading = _loosely(text)
    if isinstance(reading.value, str) and depth < _ENCODED:
        inner = read(reading.value, depth + 1)
        return Reading(inner.value, (*reading.slips, "double encoding", *inner.slips))
    value = whole_characters(reading.value)
    if value is not reading.value:
        return Reading(value, (*reading.slips, "half a surrogate pair"))
    return reading


def _loosely(text: str) -> Reading:
    if text.lstrip().startswith('{\\"'):  # escaped as if it stood in a string
        try:
            return Reading(strictly(strictly(f'"{text.strip()}"')), ("double encoding",))
        except Unreadable:
            pass
    last = _LAST_TOKEN.search(text)
    reader = Reader(text[: last.start()] if last else text)
    if last:
        reader.slips["special token"] = None
    _skip_noise(reader)
    values = [reader.value()]
    _skip_noise(reader)
    while reader.peek():
        if _CLOSING.match(reader.text, reader.at):
            reader.slips["surplus bracket"] = None
            break
        if reader.peek() != "{" or not isinstance(values[0], dict):
            raise reader.fail("the end")
        reader.slips["concatenated objects"] = None
        values.append(reader.value())
        _skip_noise(reader)
    return Reading(_only(values), tuple(reader.slips) or ("white space",))


def _skip_noise(reader: Reader) -> None:
    """Step over code fences and special tokens, which may stand around a value."""
    while found := [(kind, match) for kind, form in _NOISE.items() if (match := form.match(reader.text, reader.at))]:
        kind, match = found[0]
        reader.slips[kind] = None
        reader.at = match.end()


def _only(values: list[Any]) -> Any:
    """The one object that the objects of a text are; empty ones and repetitions say nothing."""
    distinct = {repr(value): value for value in values if value != {}} or {"": values[0]}
    if len(distinct) > 1:
        raise Unreadable("several objects: make one call for each")
    return next(iter(distinct.values()))


def whole_characters(value: Any) -> Any:
    """The value with each lone half of a surrogate pair, which is no character, as U+FFFD; the same object if none."""
    if isinstance(value, str):
        return SURROGATE.sub("\ufffd", joined(value)) if SURROGATE.search(value) else value
    if isinstance(value, list):
        items = [whole_characters(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        pairs = [(whole_characters(key), whole_characters(item)) for key, item in value.items()]
        changed = any(a is not c or b is not d for (a, b), (c, d) in zip(pairs, value.items(), strict=True))
        return unique(pairs) if changed else value
    return value


def not_finite(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Where in a value there is a number that no float can hold, or a string that is read as one."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from not_finite(item, (*path, key))
    elif isinstance(value, str):
        if len(value) < 400 and _NOT_FINITE.fullmatch(value):
            yield path, value
    elif isinstance(value, float | int) and not -_LARGEST <= value <= _LARGEST:
        yield path, value


def _refuse(literal: str) -> None:
    raise Unreadable(f"{literal} is no JSON")


def _finite(number: str) -> float:
    if (value := float(number)) in (_INFINITY, -_INFINITY):
        raise Unreadable(f"{number} is too large")
    return value


_STRICT = json.JSONDecoder(object_pairs_hook=unique, parse_constant=_refuse, parse_float=_finite)
