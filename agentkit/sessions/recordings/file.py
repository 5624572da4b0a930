"""The file of a recorded run: one JSON object a line, in chronological order, with masked secrets.

`recording` has the query and the model, `request` the new part of a request (`messages` from index `from` on, and the
tools if they changed), `reply` or `error` its outcome, `decision` a decision about a call, `result` the result of a
call, `end` the end of the run.  A file that was made from a journal (`journaled`) has the conversation in place of the
messages of requests, the tools of the first request only, and no failed attempts.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...core.errors import RunError
from ...core.masking import mask_data
from ...core.private_files import open_private

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """One complete request, and its outcome: the line of a reply or an error; None if there is no such line."""

    line: int
    model: str
    messages: list[dict[str, Any]]
    tools: Mapping[str, Any] | None
    """None where the tools are not known."""
    tool_choice: str
    """"" where it is not known."""
    outcome: Mapping[str, Any] | None = None


@dataclass(eq=False)
class Recording:
    """A recorded run, read from its file, or from a journal; `path` names where it is."""

    path: Path | str
    begin: Mapping[str, Any]
    exchanges: list[Exchange] = field(default_factory=list)
    results: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The lines of the results of calls, by their ids."""
    decisions: dict[str, Any] = field(default_factory=dict)
    """The decisions about calls, by their ids."""
    end: Mapping[str, Any] = field(default_factory=dict)
    is_journaled: bool = False
    """Whether `exchanges` have the conversation, not the messages of requests, which policies may have changed."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Recording":
        """Read a recording; raise `RunError` if the file has another content, `OSError` if it cannot be read."""
        place = Path(path)
        try:
            lines = [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines() if line.strip()]
            if lines[0]["kind"] != "recording" or lines[0]["version"] != FORMAT:
                raise ValueError(f"its first line must be a recording of version {FORMAT}")
            return _parse_lines(cls(place, lines[0], is_journaled=lines[0].get("journaled", False)), lines)
        except (ValueError, LookupError, TypeError) as error:
            raise RunError(f"{os.fspath(path)!r} is not a recorded run, or damaged: {error}") from error


def _parse_lines(recording: Recording, lines: list[dict[str, Any]]) -> Recording:
    messages: list[dict[str, Any]] = []
    tools: Mapping[str, Any] | None = {}
    for number, line in enumerate(lines, 1):
        kind = line["kind"]
        if kind == "request":
            messages = [*messages[: line["from"]], *line["messages"]]
            tools = line.get("tools", None if recording.is_journaled else tools)
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


def write_recording(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write a recording into a file; raise `OSError` if it cannot be written."""
    with open_private(path, encoding="utf-8", errors="backslashreplace") as file:
        for line in _format_lines(recording):
            file.write(json.dumps(mask_data(line), ensure_ascii=False) + "\n")


def _format_lines(recording: Recording) -> Iterator[dict[str, Any]]:
    journaled = {"journaled": True} if recording.is_journaled else {}
    yield {"kind": "recording", "version": FORMAT, **journaled, **recording.begin}
    known = 0
    for exchange in recording.exchanges:
        tools = {} if exchange.tools is None else {"tools": exchange.tools}
        new = {"from": known, "messages": exchange.messages[known:], "tool_choice": exchange.tool_choice}
        yield {"kind": "request", "model": exchange.model, **new, **tools}
        yield dict(exchange.outcome or {})
        known = len(exchange.messages)
    yield from ({"kind": "decision", "call": call, "decision": value} for call, value in recording.decisions.items())
    yield from ({**line, "kind": "result", "call": call} for call, line in recording.results.items())
    if recording.end:
        yield {**recording.end, "kind": "end"}
