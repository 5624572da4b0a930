"""The file of a recorded run: one JSON object a line, in the order in which things happened, without secrets.

`recording` says what was asked of whom, `request` what is new in a request (`messages` from place `from` on, and the
tools if they changed), `reply` or `error` what came back, `decision` what somebody decided about a call, `result` what
it came to, `end` how the run ended.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...core.errors import RunError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, whole, and what came back: the line of a reply or of an error; None if nothing did."""

    line: int
    model: str
    messages: list[dict[str, Any]]
    tools: Mapping[str, Any]
    tool_choice: str
    outcome: Mapping[str, Any] | None = None


@dataclass(eq=False)
class Recording:
    """A recorded run, read back."""

    path: Path
    begin: Mapping[str, Any]
    exchanges: list[Exchange] = field(default_factory=list)
    results: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The lines of what calls came to, by their ids."""
    decisions: dict[str, Any] = field(default_factory=dict)
    """What was decided about calls, by their ids."""
    end: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Recording":
        """The recording in a file; raises `RunError` for anything else, `OSError` when there is no file."""
        place = Path(path)
        try:
            lines = [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines() if line.strip()]
            if lines[0]["kind"] != "recording" or lines[0]["version"] != FORMAT:
                raise ValueError(f"its first line must be a recording of version {FORMAT}")
            return _parse_lines(cls(place, lines[0]), lines)
        except (ValueError, LookupError, TypeError) as error:
            raise RunError(f"{os.fspath(path)!r} is no recorded run, or damaged: {error}") from error


def _parse_lines(recording: Recording, lines: list[dict[str, Any]]) -> Recording:
    messages: list[dict[str, Any]] = []
    tools: Mapping[str, Any] = {}
    for number, line in enumerate(lines, 1):
        kind = line["kind"]
        if kind == "request":
            messages = [*messages[: line["from"]], *line["messages"]]
            tools = line.get("tools", tools)
            recording.exchanges.append(Exchange(number, line["model"], messages, tools, line["tool_choice"]))
        elif kind in ("reply", "error"):
            recording.exchanges[-1] = replace(recording.exchanges[-1], outcome=line)
        elif kind == "result":
            recording.results[line["call"]] = line
        elif kind == "decision":
            recording.decisions[line["call"]] = line["decision"]
        elif kind == "end":
            recording.end = line
    return recording
