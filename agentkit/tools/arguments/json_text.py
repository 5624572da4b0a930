"""Parse the JSON text of arguments: strictly, and with accepted syntax errors where that fails."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from .json_reader import SURROGATE, InvalidJson, JsonReader, build_object, join_surrogates

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
"""Numbers that pydantic would read as infinite: in a string, or as an integer where a float is expected."""
_INFINITY = float("inf")
_MAX_FLOAT = sys.float_info.max
_MAX_ENCODINGS = 3
"""Times that JSON text may be encoded as a JSON string."""


@dataclass(frozen=True, slots=True)
class ParsedJson:
    """The value of a text, and the syntax errors that were accepted."""

    value: Any
    syntax_errors: tuple[str, ...] = ()


_EXPONENT = re.compile(r"e\+?\d{3}")


def is_strict_object(text: str) -> bool:
    """Return whether `text` is one JSON object that every parser reads in the same way.

    That excludes NaN and infinity, a repeated key, numbers above the range of a float, and lone surrogates.
    """
    if _is_certainly_strict(text):
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


def _is_certainly_strict(text: str) -> bool:
    """Quick check that accepts most texts: nothing in them is suspicious, and colons equal keys."""
    low = text.lower()
    if "nan" in low or "inf" in low or "\\u" in low or len(low) >= 309 or _EXPONENT.search(low):
        return False
    try:
        value = from_json(text)
    except (ValueError, TypeError):
        return False
    return isinstance(value, dict) and text.count(":") == _count_keys(value)


def _count_keys(value: Any) -> int:
    """Return the number of keys in a value, at any depth."""
    found = 0
    if isinstance(value, dict):
        found, value = len(value), value.values()
    return found + sum(_count_keys(inner) for inner in value if isinstance(inner, dict | list))


def parse_strict(text: str) -> Any:
    """Parse standard JSON (and NaN and infinity); raises `InvalidJson`."""
    try:
        return json.loads(text, object_pairs_hook=build_object)
    except InvalidJson:
        raise
    except ValueError as error:
        raise InvalidJson(str(error)) from error
    except RecursionError as error:
        raise InvalidJson("nested too deeply") from error


def parse_lenient(text: str, depth: int = 0) -> ParsedJson:
    """Parse JSON with syntax errors that leave no doubt about any value; raises `InvalidJson`."""
    try:
        parsed = ParsedJson(parse_strict(text))
    except InvalidJson:
        parsed = _parse_with_errors(text)
    if isinstance(parsed.value, str) and depth < _MAX_ENCODINGS:
        try:
            inner = parse_lenient(parsed.value, depth + 1)
        except InvalidJson:
            if parsed.value.lstrip()[:1] in ("{", "["):
                raise
            return parsed  # a plain text, not JSON in JSON
        return ParsedJson(inner.value, (*parsed.syntax_errors, "double encoding", *inner.syntax_errors))
    value = replace_lone_surrogates(parsed.value)
    if value is not parsed.value:
        return ParsedJson(value, (*parsed.syntax_errors, "half a surrogate pair"))
    return parsed


def _parse_with_errors(text: str) -> ParsedJson:
    if text.lstrip().startswith('{\\"'):  # escaped as if it stood in a string
        try:
            return ParsedJson(parse_strict(parse_strict(f'"{text.strip()}"')), ("double encoding",))
        except InvalidJson:
            pass
    last = _LAST_TOKEN.search(text)
    reader = JsonReader(text[: last.start()] if last else text)
    if last:
        reader.syntax_errors["special token"] = None
    _skip_noise(reader)
    values = [reader.read_value()]
    _skip_noise(reader)
    while reader.peek():
        if _CLOSING.match(reader.text, reader.at):
            reader.syntax_errors["surplus bracket"] = None
            break
        if reader.peek() != "{" or not isinstance(values[0], dict):
            raise reader.make_error("the end")
        reader.syntax_errors["concatenated objects"] = None
        values.append(reader.read_value())
        _skip_noise(reader)
    return ParsedJson(_choose_object(values), tuple(reader.syntax_errors) or ("white space",))


def _skip_noise(reader: JsonReader) -> None:
    """Skip code fences and special tokens, which may surround a value."""
    while found := [(kind, match) for kind, form in _NOISE.items() if (match := form.match(reader.text, reader.at))]:
        kind, match = found[0]
        reader.syntax_errors[kind] = None
        reader.at = match.end()


def _choose_object(values: list[Any]) -> Any:
    """Return the only distinct object of a text, without empty objects and repetitions."""
    distinct = {repr(value): value for value in values if value != {}} or {"": values[0]}
    if len(distinct) > 1:
        raise InvalidJson("several objects: make one call for each")
    return next(iter(distinct.values()))


def replace_lone_surrogates(value: Any) -> Any:
    """Return the value with each lone surrogate as U+FFFD; the same object if there is no change."""
    if isinstance(value, str):
        return SURROGATE.sub("\ufffd", join_surrogates(value)) if SURROGATE.search(value) else value
    if isinstance(value, list):
        items = [replace_lone_surrogates(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        pairs = [(replace_lone_surrogates(key), replace_lone_surrogates(item)) for key, item in value.items()]
        changed = any(a is not c or b is not d for (a, b), (c, d) in zip(pairs, value.items(), strict=True))
        return build_object(pairs) if changed else value
    return value


def iter_not_finite(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield path and value of each number above the range of a float, and of each string that reads as one."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from iter_not_finite(item, (*path, key))
    elif isinstance(value, str):
        if len(value) < 400 and _NOT_FINITE.fullmatch(value):
            yield path, value
    elif isinstance(value, float | int) and not -_MAX_FLOAT <= value <= _MAX_FLOAT:
        yield path, value


def _reject_constant(literal: str) -> None:
    raise InvalidJson(f"{literal} is not JSON")


def _parse_finite(number: str) -> float:
    if (value := float(number)) in (_INFINITY, -_INFINITY):
        raise InvalidJson(f"{number} is too large")
    return value


_STRICT = json.JSONDecoder(object_pairs_hook=build_object, parse_constant=_reject_constant, parse_float=_parse_finite)
