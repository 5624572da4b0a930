"""The answer while the model still writes it: the text or the data so far."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic_core import from_json

from ..core.flow import Event
from ..schemas import ModelSchema
from ..tools.final_answer import ANSWER_KEY
from ..tools.json_tool import JsonTool
from .model import ModelAsked, ModelReplied, ToolCallDelta

REPARSE_FACTOR = 1.05
"""Data are parsed again when their text has grown by this factor, so the total work is linear in its length."""


@dataclass(frozen=True, slots=True)
class AnswerForming(Event):
    """The answer so far; `added` is the new part of a text.  A repeated request starts the answer again."""

    is_piece: ClassVar[bool] = True

    parts: Sequence[Any] = field(repr=False)
    count: int = field(repr=False)
    added: str = ""

    @property
    def value(self) -> Any:
        """The text so far, or the data so far, plain and not validated."""
        return "".join(self.parts[: self.count]) if self.added else self.parts[0]


class PartialAnswerReader:
    """Read the answer of a streamed run from its events; `tool` is the answer tool."""

    def __init__(self, tool: JsonTool[..., Any]) -> None:
        self._name = tool.name
        fields = list(tool.parameters["properties"].items())
        is_whole = len(fields) == 1 and not isinstance(tool.arguments, ModelSchema)
        self._key = fields[0][0] if is_whole else None
        self._wrapping = None if is_whole or ANSWER_KEY in dict(fields) else ANSWER_KEY
        self._is_text = is_whole and fields[0][1].get("type") == "string"
        self._index: int | None = None
        self._reader: _TextReader | _DataReader = _DataReader(None, None)

    def read(self, event: Event) -> Iterator[AnswerForming]:
        """Yield the part of the answer that `event` brings, if any."""
        if isinstance(event, ModelAsked):
            self._index = None
        elif isinstance(event, ToolCallDelta):
            if self._index is None and event.name == self._name:
                self._index = event.index
                self._reader = _TextReader() if self._is_text else _DataReader(self._key, self._wrapping)
            if event.index == self._index:
                yield from self._reader.take(event.arguments)
        elif isinstance(event, ModelReplied) and self._index is not None:
            yield from self._reader.rest()


class _TextReader:
    """A text inside an object: its characters are decoded as they arrive."""

    def __init__(self) -> None:
        self._raw = ""
        self._parts: list[str] = []  # shared by all events: copies would be quadratic in the length of the text
        self._is_open = False
        self._is_over = False

    def take(self, piece: str) -> Iterator[AnswerForming]:
        if self._is_over:
            return
        self._raw += piece
        if not self._is_open:
            if (opening := _OPENING.match(self._raw)) is None:
                self._is_over = len(self._raw) > MAX_OPENING_CHARS
                return
            self._raw = self._raw[opening.end() :]
            self._is_open = True
        complete = _CHARACTERS.match(self._raw)
        if complete and complete[0]:
            added = json.loads(f'"{complete[0]}"', strict=False)
            self._raw = self._raw[complete.end() :]
            self._parts.append(added)
            yield AnswerForming(self._parts, len(self._parts), added)
        self._is_over = self._raw[:1] == '"' or len(self._raw) > MAX_ESCAPE_CHARS

    def rest(self) -> Iterator[AnswerForming]:
        """Yield nothing: each piece was read when it arrived."""
        yield from ()


MAX_OPENING_CHARS = 1_000
"""Characters in front of the text; with more, the text is not shown before it is complete."""
MAX_ESCAPE_CHARS = 12
"""Characters of the longest escape, a pair of surrogates; what is longer and cannot be decoded never can."""
_OPENING = re.compile(r'\s*\{\s*"[^"\\]*"\s*:\s*"')
_CHARACTERS = re.compile(
    r'(?:[^"\\]++|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*+'
)
"""Characters that can be decoded on their own: not the first half of an escape or of a surrogate pair."""


class _DataReader:
    """Data: the text is parsed from its beginning, less often as it grows.

    The data are the value of `key`.  Without a key they are the whole object, which some models nevertheless wrap in an
    object under `wrapping`.
    """

    def __init__(self, key: str | None, wrapping: str | None) -> None:
        self._key = key
        self._wrapping = wrapping
        self._pieces: list[str] = []
        self._length = 0
        self._read = 0
        self._last: Any = None

    def take(self, piece: str) -> Iterator[AnswerForming]:
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length >= self._read * REPARSE_FACTOR:
            yield from self.rest()

    def rest(self) -> Iterator[AnswerForming]:
        if self._length == self._read:
            return
        self._read = self._length
        self._pieces = ["".join(self._pieces)]
        try:
            value = from_json(self._pieces[0], allow_partial="trailing-strings")
        except (ValueError, TypeError):  # TypeError: half of a surrogate pair
            return
        if self._key is not None and isinstance(value, dict):
            value = value.get(self._key)
        elif isinstance(value, dict) and [*value] == [self._wrapping]:
            value = value[self._wrapping]
        if value is not None and value != self._last:
            self._last = value
            yield AnswerForming([value], 1)
