"""A file with a run or a conversation: its lines, which are rows of the journal as JSON, and what is read from them.

Secrets are masked.  Each line has a `kind`.  `record` is the first line.  These are rows of the journal, in the order
in which they were written; a later line replaces an earlier one: `run`, `message` (at `place` of the conversation;
`truncate` ends the conversation before a place), `cut` (the whole text of a truncated result), `state` (what the run
leaves unfinished), `call` (before a call is made), `result` and `end`.

The journal has no more of a request than the conversation before it.  A file of `record=` also has what a replay
needs: `request` (the messages from index `from` on: new ones, or the places of those in the conversation; the tools if
they changed), its outcome `reply` or `error`, and `decision` (of a person, about a call).  `usage` is that of an agent
inside a tool.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from ...core.errors import DENIED, RunError, is_denied
from ...core.masking import mask_each
from ...core.messages import Message, Usage, calls_of
from ...core.private_files import open_private, write_atomically
from ...engine.model import TextDelta, ThinkingDelta, ToolCallDelta
from ..journal.location import JournalError
from ..journal.store import DAMAGE
from ..records import (
    ConversationCut,
    Line,
    MessageWritten,
    Record,
    RunBegun,
    RunConcluded,
    StateWritten,
    StepBegun,
    StepEnded,
    TextStored,
    check_message,
    to_line,
)

FIRST_LINE: Line = {"kind": "record", "version": 2}
"""The begin of the first line: its kind, and the version of the format; files of version 1 can be read."""
WRITTEN = (
    RunBegun, MessageWritten, ConversationCut, TextStored, StateWritten, StepBegun, StepEnded, RunConcluded,
)  # fmt: skip
"""The records of a journal that are lines of a file; those of requests have lines of another kind."""
OF_JOURNALS = frozenset(("conversation", "run", "setup", "origin", "input", "digest", "ended", "last"))
"""The fields of records that a file does not need; digests would not fit the masked texts."""
DELTAS = {"text": TextDelta, "thinking": ThinkingDelta, "call": ToolCallDelta}
"""The kinds of the pieces of a reply; a piece has the seconds after the request, its kind and its values."""


def lines_of(records: Iterable[Record]) -> Iterator[Line]:
    """Yield the lines of a file for records of a journal."""
    for record in records:
        if isinstance(record, WRITTEN) and not (isinstance(record, StepBegun | StepEnded) and not record.call):
            yield {name: value for name, value in to_line(record).items() if name not in OF_JOURNALS}


def encode_lines(lines: Iterable[Line]) -> str:
    """Return lines of the file, with masked secrets; raise `TypeError` or `ValueError` for what is not JSON."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    return "".join(f"{encode(line)}\n" for line in mask_each(lines))


def write_lines(path: str | os.PathLike[str], lines: Iterable[Line]) -> None:
    """Replace a file, atomically; a text that is not valid Unicode is escaped."""
    write_atomically(Path(path), encode_lines(lines).encode(errors="backslashreplace"))


@contextmanager
def name_in_errors(path: str | os.PathLike[str], expected: str, remedy: str) -> Iterator[None]:
    """Raise the errors of reading a file with another content than the expected one as `RunError` with its path."""
    try:
        yield
    except DAMAGE as error:
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

    def append(self, records: Sequence[Record]) -> None:
        """Write the records of a journal."""
        self._write(lines_of(records))

    def write(self, kind: str, **data: Any) -> None:
        """Write one line; what is not JSON becomes text."""
        self._write([to_jsonable_python({"kind": kind, **data}, fallback=str)])

    def close(self) -> None:
        """Close the file; what could not be written before is lost."""
        with suppress(OSError):
            self._file.close()

    def _write(self, lines: Iterable[Line]) -> None:
        text = encode_lines(lines)
        with self._errors():
            self._file.write(text)
            self._file.flush()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"record={os.fspath(self._path)!r}: the file cannot be written: {error.strerror}"
            raise JournalError(message) from error


FIRST = FIRST_LINE["kind"]
OLD_FIRST = "recording"
"""The kinds of the first line; old files have no rows of a journal, but the requests alone."""
VERSIONS = {FIRST: FIRST_LINE["version"], OLD_FIRST: 1}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One complete request, and its outcome: the line of a reply or an error; None if there is no such line."""

    line: int
    model: str
    messages: list[Message]
    tools: Mapping[str, Any] | None
    """None where the tools are not known."""
    tool_choice: str
    """"" where it is not known."""
    outcome: Line | None = None


@dataclass(eq=False)
class Recording:
    """A recorded run, read from a file or from a journal.

    Attributes:
        path: Where it is: the file, or the run and its journal.
        begin: The query, the model, the settings, and the conversation before the run (`history`).
        messages: The conversation as it was last written.
        state: What the run left unfinished.
        cut: The whole texts of truncated results.
        usage: The usage of the conversation before and of the run.
        exchanges: The requests and their outcomes.
        begun: The lines of the calls that began, by their ids.
        results: The results of calls, by their ids.
        decisions: The decisions about calls, by their ids.
        end: The answer or the error, if the run ended.
        is_journaled: Whether `exchanges` have the conversation, not the messages of requests, which policies may have
            changed.
    """

    path: Path | str
    begin: dict[str, Any] = field(default_factory=lambda: {"stream": False})
    messages: list[Message] = field(default_factory=list)
    state: Mapping[str, Any] = field(default_factory=dict)
    cut: dict[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    exchanges: list[Exchange] = field(default_factory=list)
    begun: dict[str, Line] = field(default_factory=dict)
    results: dict[str, Line] = field(default_factory=dict)
    decisions: dict[str, Any] = field(default_factory=dict)
    end: Line = field(default_factory=dict)
    is_journaled: bool = False
    _asked: dict[str, Line] = field(default_factory=dict, repr=False)
    """The names and the arguments of the calls in the conversation."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Recording":
        """Read a recording; raise `RunError` if the file has another content, `OSError` if it cannot be read."""
        with name_in_errors(path, "a recorded run", "agent.run(query, record=path) writes one."):
            return cls.parse(Path(path).read_bytes(), path=Path(path))

    @classmethod
    def parse(cls, content: bytes, path: Path | str = "the recording") -> "Recording":
        """Return the recording with the content of a file; raise `ValueError` for anything else."""
        return cls(path).read(json.loads(line) for line in content.splitlines() if line.strip())

    def read(self, lines: Iterable[Line]) -> "Recording":
        """Add all lines of a recording, and return it; raise `ValueError` for anything else."""
        number = 0
        try:
            for number, line in enumerate(lines, 1):
                self._read_line(number, line)
            if "first" in self.begin:
                self._divide(self.begin["first"])
        except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"line {number}: {type(error).__name__}: {error}") from error
        if not number:
            raise ValueError("it is empty")
        return self

    def _read_line(self, number: int, line: Line) -> None:
        kind = line["kind"]
        if number == 1:
            _check_version(kind, line["version"])
            self.usage = Usage(**line.get("usage", {}))
        elif "usage" in line:  # of a reply, or of an agent inside a tool
            self.usage += Usage(**line["usage"])
        if kind == "run" or kind in VERSIONS:
            self.begin |= line
            self.is_journaled |= line.get("journaled", False)
        elif kind in ("message", "truncate"):
            self._change_conversation(line["place"], line.get("message"))
        elif kind == "cut":
            self.cut.pop(line["key"], None)
            self.cut |= {line["key"]: line["text"]} if "text" in line else {}
        elif kind == "state":
            self.state = {**line["state"]}
        elif kind == "request":
            self._add_request(number, line)
        elif kind in ("reply", "error"):
            self.exchanges[-1] = replace(self.exchanges[-1], outcome=line)
            if kind == "reply":
                check_message(line["message"], "the reply")
                calls_of(line["message"])  # raises for a damaged one
        elif kind == "decision":
            self.decisions[line["call"]] = line["decision"]
        elif kind == "call":
            self.begun[line["call"]] = line
        elif kind == "result":
            call = line["call"]
            self.results[call] = {**self._asked.get(call, {}), **self.begun.get(call, {}), **line}
        elif kind == "end":
            self.end = line

    def _change_conversation(self, place: int, message: Message | None) -> None:
        if not 0 <= place <= len(self.messages):
            raise ValueError(f"message {len(self.messages)} is missing")
        if message is None:
            del self.messages[place:]
            return
        check_message(message, f"message {place}")
        self.messages[place : place + 1] = [message]
        self._asked |= {call.id: {"name": call.name, "arguments": call.arguments} for call in calls_of(message)}

    def _add_request(self, number: int, line: Line) -> None:
        before = self.exchanges[-1] if self.exchanges else Exchange(0, "", [], None, "")
        if "messages" in line:
            new = [self.messages[entry] if isinstance(entry, int) else {**entry} for entry in line["messages"]]
            sent = [*before.messages[: line["from"]], *new]
        else:
            self.is_journaled = True
            sent = [*self.messages]
        tools = line.get("tools", None if self.is_journaled else before.tools)
        self.exchanges.append(Exchange(number, line["model"], sent, tools, line.get("tool_choice", "")))

    def _divide(self, first: int) -> None:
        """Divide the conversation into that before the run and its own, which completes the results of a journal."""
        history = self.messages[:first]
        own = self.messages[first:]
        self.begin |= {"history": history, "content": own[0].get("content") if own else None}
        if self.is_journaled:  # it has no decisions, but what followed from them
            made = {call: self.begun.get(call, {}).get("arguments", "true") for call in self.results}
            self.decisions |= {call: json.loads(arguments) for call, arguments in made.items()}
            for message in (message for message in own if message["role"] == "tool"):
                call = message["tool_call_id"]
                text = message["content"]
                self.results.setdefault(call, {**self._asked.get(call, {}), "text": text})
                if is_denied(str(text)):
                    self.decisions.setdefault(call, text.removeprefix(f"{DENIED}: "))


def _check_version(kind: Any, version: Any) -> None:
    if kind not in VERSIONS:
        raise ValueError(f"its first line must be of the kind {FIRST!r}, got {kind!r:.40}")
    if version != VERSIONS[kind]:
        raise ValueError(f"it has version {version!r:.40} of the format, expected {VERSIONS[FIRST]}. Update agentkit.")
