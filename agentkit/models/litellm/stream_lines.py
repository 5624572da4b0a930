"""The lines of a stream: their JSON, the errors in them, and taps that read what litellm drops."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .replies import read_native_reason

_MAX_ENDS = 100
"""How often the end of a stream can be read; litellm's wrapper does it a few times."""
_REASON_MARKS = ('"stop_reason"', '"finishReason"', '"blockReason"', '"done_reason"')


class _AttributeDict(dict[str, Any]):
    """A JSON object with attribute access, None for a missing key, like litellm's chunks."""

    __getattr__ = dict.get


decode_json = json.JSONDecoder(object_hook=_AttributeDict).decode


class ErrorInStream(Exception):
    """An error that a provider sent within a stream; some versions of litellm skip it."""

    def __init__(self, line: str, status_code: Any) -> None:
        super().__init__(line)
        self.status_code = status_code


def check_line(line: str) -> None:
    """Raise the error that a line of a stream holds, if any."""
    if '"error"' in line:
        error: Any = None
        with suppress(ValueError, AttributeError):
            error = decode_json(line.removeprefix("data:").strip()).error
        if error:
            raise ErrorInStream(line, getattr(error, "code", None))


def parse_line(otherwise: Callable[[str], Any], str_line: str) -> Any:
    """Parse a line of OpenAI's stream at a fourth of the CPU of litellm's objects; other lines go to `otherwise`."""
    check_line(str_line)
    if str_line.startswith("data: {"):
        with suppress(ValueError):
            return decode_json(str_line[6:])
    return otherwise(str_line)


class ChunkTap:
    """A stream of the OpenAI SDK that passes each chunk to `note` as well."""

    def __init__(self, stream: Any, note: Callable[[Any], None]) -> None:
        self._stream = stream
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> "ChunkTap":
        return self

    def __aiter__(self) -> "ChunkTap":
        return self

    def __next__(self) -> Any:
        return self._inspect(next(self._stream))

    async def __anext__(self) -> Any:
        return self._inspect(await anext(self._stream))

    def _inspect(self, chunk: Any) -> Any:
        self._note(chunk)
        return chunk


class LineTap:
    """An iterator of lines that stores the stop reason when a line contains one."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines
        self.reason: str | None = None
        self.finished = False
        self._ends = 0

    def __iter__(self) -> "LineTap":
        self._lines = iter(self._lines)
        return self

    def __aiter__(self) -> "LineTap":
        self._lines = aiter(self._lines)
        return self

    def __next__(self) -> Any:
        try:
            return self._inspect(next(self._lines))
        except StopIteration:
            self._end()
            raise

    async def __anext__(self) -> Any:
        try:
            return self._inspect(await anext(self._lines))
        except StopAsyncIteration:
            self._end()
            raise

    def _end(self) -> None:
        """Count the calls after the last line; some versions of litellm repeat them without end if it is no JSON."""
        self._ends += 1
        if self._ends > _MAX_ENDS:
            raise json.JSONDecodeError("the stream held no JSON", "", 0)

    def _inspect(self, line: Any) -> Any:
        text = line.decode(errors="replace") if isinstance(line, bytes) else str(line)
        check_line(text)
        if any(word in text for word in _REASON_MARKS):
            self.finished = True
            self.reason = read_native_reason(text.removeprefix("data:")) or self.reason
        return line
