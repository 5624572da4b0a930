"""A recorded run, or a saved conversation, as it is read from its lines; see `lines` for their kinds."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...core.errors import RunError
from ...core.messages import Message, Usage, calls_of
from .lines import FIRST_LINE, Line

FIRST, VERSION = FIRST_LINE["kind"], FIRST_LINE["version"]
OLD_FIRST, OLD_VERSION = "recording", 1
"""The kind and the version in the first line of files without rows of a journal: they have the requests alone."""

DENIED = "Denied: "
"""The begin of what the model reads of a refused call, before the reason."""


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
        begun: The ids of the calls that began.
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
    begun: set[str] = field(default_factory=set)
    results: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    decisions: dict[str, Any] = field(default_factory=dict)
    end: Line = field(default_factory=dict)
    is_journaled: bool = False

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Recording":
        """Read a recording; raise `RunError` if the file has another content, `OSError` if it cannot be read."""
        try:
            return cls.parse(Path(path).read_bytes(), path=Path(path))
        except (ValueError, RecursionError) as error:
            raise RunError(f"{os.fspath(path)!r} is not a recorded run, or damaged: {error}") from error

    @classmethod
    def parse(cls, content: bytes, path: Path | str = "the recording") -> "Recording":
        """Return the recording with the content of a file; raise `ValueError` for anything else."""
        return cls(path).read(json.loads(line) for line in content.splitlines() if line.strip())

    def read(self, lines: Iterable[Line]) -> "Recording":
        """Add all lines of a recording, and return it; raise `ValueError` for anything else."""
        number, reader = 0, _LineReader(self)
        try:
            for number, line in enumerate(lines, 1):
                reader.read(number, line)
            if not number:
                raise ValueError("it is empty")
            reader.finish()
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"line {number}: {type(error).__name__}: {error}") from error
        return self


class _LineReader:
    """Adds lines to a recording, one after the other."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._sent: list[Message] = []
        self._tools: Mapping[str, Any] | None = None
        self._asked: dict[str, dict[str, str]] = {}
        self._changed: dict[str, str] = {}
        self._used: list[Usage] = []

    def read(self, number: int, line: Line) -> None:
        """Add one line."""
        recording, kind = self._recording, line["kind"]
        if number == 1:
            self._check_version(kind, line["version"])
        elif "usage" in line:  # of a reply, or of an agent inside a tool
            self._used.append(Usage(**line["usage"]))
        if kind in (FIRST, OLD_FIRST, "run"):
            recording.begin |= line
        elif kind in ("message", "truncate"):
            self._change_conversation(line["place"], line.get("message"))
        elif kind == "cut":
            recording.cut.pop(line["key"], None)
            recording.cut |= {line["key"]: line["text"]} if "text" in line else {}
        elif kind == "state":
            recording.state = {**line["state"]}
        elif kind == "request":
            self._add_request(number, line)
        elif kind in ("reply", "error"):
            recording.exchanges[-1] = replace(recording.exchanges[-1], outcome=line)
        elif kind == "decision":
            recording.decisions[line["call"]] = line["decision"]
        elif kind == "call":
            recording.begun.add(line["call"])
            self._changed |= {line["call"]: line["arguments"]} if "arguments" in line else {}
        elif kind == "result":
            call = line["call"]
            changed = {"arguments": self._changed[call]} if call in self._changed else {}
            recording.results[call] = {**self._asked.get(call, {}), **changed, **line}
        elif kind == "end":
            recording.end = line

    def _check_version(self, kind: Any, version: Any) -> None:
        if kind not in (FIRST, OLD_FIRST):
            raise ValueError(f"its first line must be of the kind {FIRST!r}, got {kind!r:.40}")
        if version != (VERSION if kind == FIRST else OLD_VERSION):
            raise ValueError(f"it has version {version!r:.40} of the format, expected {VERSION}. Update agentkit.")

    def _change_conversation(self, place: int, message: Message | None) -> None:
        messages = self._recording.messages
        if not 0 <= place <= len(messages):
            raise ValueError(f"message {len(messages)} is missing")
        if message is None:
            del messages[place:]
            return
        if not isinstance(message["role"], str):
            raise ValueError(f"message {place} has no role")
        messages[place : place + 1] = [message]
        self._asked |= {call.id: {"name": call.name, "arguments": call.arguments} for call in calls_of(message)}

    def _add_request(self, number: int, line: Line) -> None:
        recording = self._recording
        if "messages" in line:
            new = [recording.messages[entry] if isinstance(entry, int) else {**entry} for entry in line["messages"]]
            self._sent = [*self._sent[: line["from"]], *new]
        else:
            recording.is_journaled, self._sent = True, [*recording.messages]
        is_journaled = recording.is_journaled or recording.begin.get("journaled", False)
        self._tools = line.get("tools", None if is_journaled else self._tools)
        choice = line.get("tool_choice", "")
        recording.exchanges.append(Exchange(number, line["model"], self._sent, self._tools, choice))

    def finish(self) -> None:
        """Add what follows from all lines: the usage, the conversation before the run, the results of a journal."""
        recording, begin = self._recording, self._recording.begin
        recording.is_journaled |= begin.get("journaled", False)
        recording.usage = sum(self._used, Usage(**begin.get("usage", {})))
        if "first" not in begin:
            return
        begin["history"], own = recording.messages[: begin["first"]], recording.messages[begin["first"] :]
        content = own[0].get("content") if own else None
        begin["content"] = content if isinstance(content, list) else None
        if recording.is_journaled:  # it has no decisions, but what followed from them
            changed = {call: json.loads(arguments) for call, arguments in self._changed.items()}
            recording.decisions |= {call: changed.get(call, True) for call in recording.results}
            for message in (message for message in own if message["role"] == "tool"):
                call = message["tool_call_id"]
                recording.results.setdefault(call, {**self._asked.get(call, {}), "text": message["content"]})
                if str(message["content"]).startswith(DENIED):
                    recording.decisions.setdefault(call, message["content"].removeprefix(DENIED))
