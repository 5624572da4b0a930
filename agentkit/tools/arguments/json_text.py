"""Parse the JSON text of arguments: strictly, and where that fails as models write it.

Accepted are errors that leave no doubt about any value: single quotes, unquoted keys, trailing commas, Python's True,
False and None, line breaks within strings, and escaped single quotes.  They are recorded.  Everything else is refused.
Nothing is ever added, so truncated text is refused as truncated.  Strings keep exactly the characters that were
written.
"""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from ...core.portable import SURROGATE, to_valid_text
from ...core.values import frozen

MAX_ARGUMENTS_DEPTH = 100
"""Levels of nested objects and arrays."""
_SPACE = re.compile(r"[\s\ufeff]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.+-])")
_WORD = re.compile(r"[^\W\d][\w$-]*")
_NAME = re.compile(r"-?\w+")
_UNFINISHED = re.compile(r"[\w.+-]*\Z")
_PLAIN = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_CONTROL = re.compile(r"[\x00-\x1f]")
_HEX = re.compile(r"u([0-9a-fA-F]{4})")
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "'": "'"}
_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_END = "the end"
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf")}


class InvalidJson(ValueError):
    """The text is not JSON, and its meaning is not certain."""


class JsonReader:
    """Reads one value after another; `at` is the current position, `syntax_errors` the errors accepted so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.syntax_errors: dict[str, None] = {}

    def read_value(self, depth: int = 0) -> Any:
        """Read the next value; raises `InvalidJson`."""
        if depth > MAX_ARGUMENTS_DEPTH:
            raise InvalidJson("nested too deeply")
        match self.peek():
            case "{":
                return self._read_object(depth)
            case "[":
                return [self.read_value(depth + 1) for _ in self._iter_items("]")]
            case '"' | "'":
                return self._read_string()
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            return float(number[0]) if number["fraction"] else parse_int(number[0])
        return self._read_literal()

    def peek(self) -> str:
        """Return the next character that is not white space, or "" at the end."""
        if space := _SPACE.match(self.text, self.at):
            self.at = space.end()
        return self.text[self.at : self.at + 1]

    def make_error(self, wanted: str) -> InvalidJson:
        """Return the exception to raise at the current position, where `wanted` is expected."""
        before = self.text[: self.at]
        is_bare_word = "{" not in before and "[" not in before and self.peek().isalnum()  # no object was opened
        if _UNFINISHED.match(self.text, self.at) and not is_bare_word and wanted != _END:
            return InvalidJson(
                f"cut off after {len(self.text)} characters, or a bracket or quote is not closed. Nothing was done. "
                "Send them whole: make them shorter, or split the work over several calls."
            )
        near = self.text[max(self.at - 15, 0) : self.at + 15]
        return InvalidJson(f"expected {wanted} at character {self.at}, near {near!r}")

    def _read_object(self, depth: int) -> dict[str, Any]:
        pairs = []
        for _ in self._iter_items("}"):
            key = self._read_key()
            if self.peek() != ":":
                raise self.make_error("':'")
            self.at += 1
            pairs.append((key, self.read_value(depth + 1)))
        return build_object(pairs)

    def _iter_items(self, end: str) -> Iterator[None]:
        """Advance to each item between brackets, and past the commas and the closing bracket."""
        self.at += 1
        is_first = True
        while self.peek() != end:
            if not is_first:
                if self.peek() != ",":
                    raise self.make_error(f"',' or {end!r}")
                self.at += 1
                if self.peek() == end:
                    self.syntax_errors["trailing comma"] = None
                    break
            yield
            is_first = False
        self.at += 1

    def _read_key(self) -> str:
        if self.peek() in ("'", '"'):
            return self._read_string()
        if not (word := _WORD.match(self.text, self.at)):
            raise self.make_error("a key in double quotes")
        self.syntax_errors["unquoted key"] = None
        self.at = word.end()
        return word[0]

    def _read_literal(self) -> Any:
        word = _NAME.match(self.text, self.at)
        name = word[0] if word else ""
        if name in _LITERALS:
            if name[0].isupper():
                self.syntax_errors["Python literal"] = None
            self.at += len(name)
            return _LITERALS[name]
        if name.lstrip("-") in _CONSTANTS:
            self.at += len(name)
            return _CONSTANTS[name.lstrip("-")]
        raise self.make_error("a JSON value")

    def _read_string(self) -> str:
        quote = self.text[self.at]
        if quote == "'":
            self.syntax_errors["single quotes"] = None
        self.at += 1
        pieces: list[str] = []
        while True:
            if plain := _PLAIN[quote].match(self.text, self.at):
                self.at = plain.end()
                pieces.append(plain[0])
                if _CONTROL.search(plain[0]):
                    self.syntax_errors["line break in a string"] = None
            if self.at >= len(self.text):
                raise self.make_error("a quote")
            if self.text[self.at] == quote:
                self.at += 1
                return join_surrogates("".join(pieces))
            self.at += 1
            pieces.append(self._read_escape())

    def _read_escape(self) -> str:
        if hexadecimal := _HEX.match(self.text, self.at):
            self.at = hexadecimal.end()
            return chr(int(hexadecimal[1], 16))
        letter = self.text[self.at : self.at + 1]
        if letter not in _ESCAPED:
            raise self.make_error("an escape that JSON knows (a backslash itself is written twice)")
        if letter == "'":
            self.syntax_errors["escaped single quote"] = None
        self.at += 1
        return _ESCAPED[letter]


def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict; raises `InvalidJson` for a key with two different values."""
    found = dict(pairs)
    if len(found) != len(pairs):
        for key, value in pairs:
            if repr(value) != repr(found[key]):
                raise InvalidJson(f"the key {key!r} is given twice, with different values")
    return found


def parse_int(digits: str) -> int:
    """Return the integer; raises `InvalidJson` above 4,300 digits, Python's limit."""
    try:
        return int(digits)
    except ValueError as error:
        raise InvalidJson(f"the number {digits[:10]}... has {len(digits)} digits") from error


def join_surrogates(text: str) -> str:
    """Return the text with surrogate pairs joined; a lone surrogate remains."""
    if not SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


ValuePath = tuple[int | str, ...]

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


@frozen
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
    colons = text.count(":")
    return isinstance(value, dict) and (colons == len(value) or colons == _count_keys(value))


def _count_keys(value: Any) -> int:
    """Return the number of keys in a value, at any depth."""
    found = 0
    if isinstance(value, dict):
        found = len(value)
        value = value.values()
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
            raise reader.make_error(_END)
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
        return to_valid_text(value)
    if isinstance(value, list):
        items = [replace_lone_surrogates(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        pairs = [(replace_lone_surrogates(key), replace_lone_surrogates(item)) for key, item in value.items()]
        changed = any(a is not c or b is not d for (a, b), (c, d) in zip(pairs, value.items(), strict=True))
        return build_object(pairs) if changed else value
    return value


def iter_not_finite(value: Any, path: ValuePath = ()) -> Iterator[tuple[ValuePath, Any]]:
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
