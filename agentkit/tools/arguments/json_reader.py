"""Parse JSON as models write it: accept syntax errors that leave no doubt about any value, and record them.

Accepted: single quotes, unquoted keys, trailing commas, Python's True, False and None, line breaks within strings, and
escaped single quotes.  Everything else is refused.  Nothing is ever added, so truncated text is refused as truncated.
Strings keep exactly the characters that were written.
"""

import re
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 100
"""Levels of nested objects and arrays."""
_SPACE = re.compile(r"[\s\ufeff]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.+-])")
_WORD = re.compile(r"[^\W\d][\w$-]*")
_NAME = re.compile(r"-?\w+")
_UNFINISHED = re.compile(r"[\w.+-]*\Z")
_PLAIN = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_CONTROL = re.compile(r"[\x00-\x1f]")
SURROGATE = re.compile(r"[\ud800-\udfff]")
_HEX = re.compile(r"u([0-9a-fA-F]{4})")
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "'": "'"}
_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf")}


class InvalidJson(ValueError):
    """The text is not JSON, and its meaning is not certain."""


class TruncatedJson(InvalidJson):
    """The text ends in the middle of a value."""


class JsonReader:
    """Reads one value after another; `at` is the current position, `syntax_errors` the errors accepted so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.syntax_errors: dict[str, None] = {}

    def read_value(self, depth: int = 0) -> Any:
        """Read the next value; raises `InvalidJson`."""
        if depth > MAX_DEPTH:
            raise InvalidJson("nested too deeply")
        match self.peek():
            case "{":
                return self._read_object(depth)
            case "[":
                return self._read_array(depth)
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
        is_bare_word = not self.text[: self.at].strip() and self.peek().isalnum()  # no object was opened
        if _UNFINISHED.match(self.text, self.at) and not is_bare_word:
            return TruncatedJson(
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

    def _read_array(self, depth: int) -> list[Any]:
        return [self.read_value(depth + 1) for _ in self._iter_items("]")]

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
        if letter not in _ESCAPED or not letter:
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
