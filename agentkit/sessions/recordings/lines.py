"""The lines of a file with a run or a conversation: the rows of the journal as JSON, with masked secrets.

Each line has a `kind`.  `record` is the first line.  These are rows of the journal, in the order in which they were
written; a later line replaces an earlier one: `run`, `message` (at `place` of the conversation; `truncate` ends the
conversation before a place), `cut` (the whole text of a truncated result), `state` (what the run leaves unfinished),
`call` (before a call is made), `result` and `end`.

The journal has no more of a request than the conversation before it.  A file of `record=` also has what a replay
needs: `request` (the messages from index `from` on: new ones, or the places of those in the conversation; the tools if
they changed), its outcome `reply` or `error`, and `decision` (of a person, about a call).  `usage` is that of an agent
inside a tool.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from ...core.errors import RunError
from ...core.masking import mask_data
from ...core.private_files import open_private, write_atomically
from ...engine.model import TextDelta, ThinkingDelta, ToolCallDelta
from ..journal import tables
from ..journal.location import JournalError
from ..journal.store import Statement

Line = Mapping[str, Any]
FIRST_LINE: Line = {"kind": "record", "version": 2}
"""The begin of the first line: its kind, and the version of the format; files of version 1 can be read."""
WRITES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    tables.INSERT_RUN: ("run", ("id", "", "query", "model", "", "first", "begun")),
    tables.INSERT_MESSAGE: ("message", ("", "place", "message")),
    tables.DELETE_MESSAGES: ("truncate", ("", "place")),
    tables.INSERT_CUT: ("cut", ("", "key", "text")),
    tables.DELETE_CUT: ("cut", ("", "key")),
    tables.UPDATE_STATE: ("state", ("state",)),
    tables.INSERT_STEP: ("call", ("", "step", "call", "name", "", "arguments")),
    tables.END_STEP: ("result", ("", "outcome", "", "", "step", "call")),
    tables.END_RUN: ("end", ("status", "", "outcome")),
}
"""The kinds of lines, and the names of the values in them, for the statements that write rows; "" is left out."""
JSON_VALUES = ("message", "text", "state", "outcome")
DELTAS = {"text": TextDelta, "thinking": ThinkingDelta, "call": ToolCallDelta}
"""The kinds of the pieces of a reply; a piece has the seconds after the request, its kind and its values."""


def lines_of(statements: Iterable[Statement]) -> Iterator[Line]:
    """Yield the lines for rows that are written; requests have other lines, and other rows have none."""
    for statement, row in statements:
        kind, names = WRITES.get(statement, ("", ()))
        values = {name: value for name, value in zip(names, row, strict=False) if name and value is not None}
        if kind and values.get("call") != "":
            data = {name: json.loads(value) if name in JSON_VALUES else value for name, value in values.items()}
            outcome = data.pop("outcome", {})
            yield {"kind": kind, **data, **outcome}


def encode_line(line: Line) -> str:
    """Return a line of the file, with masked secrets; raise `TypeError` or `ValueError` for what is not JSON."""
    return json.dumps(mask_data(line), ensure_ascii=False) + "\n"


def write_lines(path: str | os.PathLike[str], lines: Iterable[Line]) -> None:
    """Replace a file, atomically; a text that is not valid Unicode is escaped."""
    write_atomically(Path(path), "".join(map(encode_line, lines)).encode(errors="backslashreplace"))


@contextmanager
def name_in_errors(path: str | os.PathLike[str], expected: str, remedy: str) -> Iterator[None]:
    """Raise the errors of reading a file with another content than the expected one as `RunError` with its path."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        reason = str(error).removesuffix(".")
        raise RunError(f"{os.fspath(path)!r} is damaged, or not {expected}: {reason}. {remedy}") from error
    except RunError as error:
        raise RunError(f"{os.fspath(path)!r}: {error}") from error


class RecordFile:
    """The file of a run that is recorded; it has what happened so far, also when the process is killed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        with self._errors():
            self._file = open_private(self._path, encoding="utf-8", errors="backslashreplace")

    def append(self, statements: Sequence[Statement]) -> None:
        """Write the rows of a journal."""
        self._write(map(encode_line, lines_of(statements)))

    def write(self, kind: str, **data: Any) -> None:
        """Write one line; what is not JSON becomes text."""
        self._write([encode_line(to_jsonable_python({"kind": kind, **data}, fallback=str))])

    def close(self) -> None:
        """Close the file; what could not be written before is lost."""
        with suppress(OSError):
            self._file.close()

    def _write(self, lines: Iterable[str]) -> None:
        with self._errors():
            self._file.write("".join(lines))
            self._file.flush()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"record={os.fspath(self._path)!r}: the file cannot be written: {error.strerror}"
            raise JournalError(message) from error
