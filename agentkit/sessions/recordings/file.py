"""A file with a run or a conversation: a record on each line, with masked secrets, and what is read from it.

The first line names the version of the format.  A file has one conversation and one run at most, whose ids are not
repeated.  `record=` writes a file while a run proceeds, `journal.export` and `Session.save` write the records of a run
or a conversation at once.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...core.errors import DENIED, DefinitionError, RunError
from ...core.masking import mask_json
from ...core.messages import Message, Usage, calls_of, system
from ...core.private_files import open_private, write_atomically
from ...engine.model import TextDelta, ThinkingDelta, ToolCallDelta
from ..journal.run_info import RunRecords, Setup, decode_setup, subtract_usage, usage_in
from ..journal.store import JournalError
from ..records import (
    DAMAGE,
    FILE_VERSION,
    Exchange,
    FileBegun,
    Line,
    Record,
    RunBegun,
    RunEntry,
    StepBegun,
    StepEnded,
    Stored,
    fold,
    from_line,
    write_json,
    write_line,
)

OF_STORES = frozenset(("conversation", "run", "input", "digest"))
"""The fields of records that a file does not need; digests would not fit the masked texts."""
DELTAS = {"text": TextDelta, "thinking": ThinkingDelta, "call": ToolCallDelta}
"""The kinds of the pieces of a reply; a piece has the seconds after the request, its kind and its values."""


def lines_of(records: Iterable[Record]) -> Iterator[str]:
    """Yield the lines of a file for records, as JSON with masked secrets."""
    return mask_json(write_line(record, OF_STORES) for record in records)


def begin_file(usage: Usage, **about: Any) -> FileBegun:
    """Return the first record of a file, with the usage before the run and more about it."""
    return FileBegun(FILE_VERSION, write_json({**about, "usage": usage.as_dict()}))


def write_lines(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Replace a file, atomically; a text that is not valid Unicode is escaped."""
    write_atomically(Path(path), "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace"))


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


_HEAD_BYTES = 64


class RecordFile:
    """The file of a run that is recorded; it has what happened so far, also when the process is killed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        try:
            self._refuse_other_content()
            self._file = open_private(self._path, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise DefinitionError(self._explain(error)) from error

    def _refuse_other_content(self) -> None:
        """Raise `DefinitionError` for a file with content that is no recording: it would be lost."""
        if not self._path.is_file():  # also a device or a pipe
            return
        with self._path.open("rb") as file:
            first = file.read(_HEAD_BYTES).lstrip()
        if first and not first.startswith((b'{"kind": "record', b'{"kind":"record')):
            shown = os.fspath(self._path)
            raise DefinitionError(f"record={shown!r}: the file exists and is no recording. Name another file.")

    def append(self, records: Sequence[Record]) -> None:
        """Write records, but for the steps and the setup of a journal: the file has whole requests in their place."""
        kept = (record for record in records if not isinstance(record, StepBegun | StepEnded) or record.call)
        shown = (record._replace(setup=None) if isinstance(record, RunBegun) else record for record in kept)
        text = "".join(f"{line}\n" for line in lines_of(shown))
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            raise JournalError(self._explain(error)) from error

    def close(self) -> None:
        """Close the file; what could not be written before is lost."""
        with suppress(OSError):
            self._file.close()

    def _explain(self, error: OSError) -> str:
        return f"record={os.fspath(self._path)!r}: the file cannot be written: {error.strerror}. Name another file."


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
        begun: The calls that began, by their ids, in the order of their ends.
        results: The results of calls, by their ids.
        decisions: The decisions about calls, by their ids.
        end: The answer or the error, if the run ended.
        is_hiding: Whether the run hid untrusted results.
        version: The version of the file.
        places: The numbers of the lines with requests; none for a run of a journal.
        is_journaled: Whether `exchanges` have the conversation, not the messages of requests, which policies may have
            changed.
    """

    def __init__(self, path: Path | str, stored: Stored, places: Sequence[int] = ()) -> None:
        conversation = stored.conversation(0)
        if conversation.damage:
            raise ValueError(conversation.damage)
        self.path = path
        self.places = places
        self.version = stored.version
        self.begin: dict[str, Any] = {"stream": False, **stored.about}
        self.messages = conversation.messages
        self.state: dict[str, Any] = json.loads(conversation.state)
        self.cut = conversation.read_texts()
        settings = self.begin.get("settings") or {}
        has_handles = any(key.startswith("#") for key in self.cut)  # which show it of a journal of before
        self.is_hiding = settings.get("untrusted") == "hidden" or has_handles
        self.usage = stored.usage
        self.exchanges: Sequence[Exchange] = stored.exchanges
        self.decisions: Mapping[str, Any] = stored.decisions
        self.end: Line = {}
        self.is_journaled = not any(exchange.tool_choice for exchange in stored.exchanges)
        steps = sorted(stored.steps[stored.last].values(), key=lambda step: step.ended or math.inf)
        asked = {
            call.id: {"name": call.name, "arguments": call.arguments}
            for message in self.messages
            for call in calls_of(message)
        }
        self.begun = {step.call: step for step in steps if step.call}
        self.results: dict[str, Line] = {}
        for call, step in self.begun.items():
            if step.outcome:
                given = {"arguments": step.arguments} if step.arguments else {}
                self.results[call] = {**asked.get(call, {}), "name": step.name, **given, **json.loads(step.outcome)}
        for message in self.messages:  # which alone have the images of results
            result = self.results.get(message.get("tool_call_id", ""))
            if result and isinstance(message["content"], list):
                images = [part for part in message["content"] if part["type"] != "text"]
                self.results[message["tool_call_id"]] = {**result, "images": images}
        if run := stored.runs.get(stored.last):
            self._read_run(run, RunRecords(run, stored.setups[run.id], steps), asked)

    def _read_run(self, run: RunEntry, records: RunRecords, asked: Mapping[str, Line]) -> None:
        """Divide the conversation into that before the run and its own, which completes the results of a journal."""
        own = self.messages[run.first :]
        content = own[0].get("content") if own else None
        self.begin |= {"query": run.query, "model": run.model, "content": content}
        self.begin["history"] = self.messages[: run.first]
        self.end = json.loads(run.outcome or "{}")
        if not self.is_journaled:
            return
        if not self.exchanges:
            setup = decode_setup(records.setup)
            self.is_hiding = self.is_hiding or (setup is not None and setup.is_hiding)
            self.begin |= {"session_state": setup.session_state} if setup else {}
            self.exchanges = [*_exchanges_of(records, setup, self.messages)]
            self.usage += usage_in(reply) if (reply := records.last_reply) else Usage()
        # it has no decisions, but what followed from them
        made = {call: json.loads(self.begun[call].arguments or "true") for call in self.results}
        self.decisions = {**made, **self.decisions}
        for message in (message for message in own if message["role"] == "tool"):
            call = message["tool_call_id"]
            text = message["content"]
            did_run = call in self.results
            self.results.setdefault(call, {**asked.get(call, {}), "text": text})
            if message.get("refused") or (not did_run and str(text).startswith(DENIED)):  # files of before have no mark
                self.decisions.setdefault(call, text.removeprefix(f"{DENIED}: "))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Recording":
        """Read a recording; raise `RunError` if the file has another content, `OSError` if it cannot be read."""
        with name_in_errors(path, "a recorded run", "agent.run(query, record=path) writes one."):
            return cls.parse(Path(path).read_bytes(), path=Path(path))

    @classmethod
    def parse(cls, content: bytes, path: Path | str = "the recording") -> "Recording":
        """Return the recording with the content of a file; raise `ValueError` for anything else."""
        return cls.of([json.loads(line) for line in content.splitlines() if line.strip()], path)

    @classmethod
    def of(cls, lines: Sequence[Line], path: Path | str) -> "Recording":
        """Return the recording with these lines; raise `ValueError` for anything else."""
        if not lines:
            raise ValueError("it is empty")
        records = FileRecords(lines)
        try:
            stored = fold(records)
        except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"line {records.number}: {type(error).__name__}: {error}") from error
        return cls(path, stored, records.places)


def _exchanges_of(run: RunRecords, setup: Setup | None, messages: Sequence[Message]) -> Iterator[Exchange]:
    """Yield the requests of a journaled run, each with the conversation before its reply."""
    first = [system(setup.instruction)] if setup else messages[:1]  # a hand-over changes the instruction
    before = dict[str, Any]()
    places = [place for place in range(run.entry.first, len(messages)) if messages[place]["role"] == "assistant"]
    for number, place in enumerate(places, 1):
        asked = run.step_of(number)
        figures = json.loads(asked.outcome or "{}") if asked else {}
        usage = figures.get("usage", before)
        model = asked.name if asked else run.entry.model
        known = {"usage": subtract_usage(usage, before), "finish_reason": figures.get("finish_reason"), "model": model}
        tools = setup.tools if setup and number == 1 else None
        outcome = {"kind": "reply", "message": messages[place], **known}
        yield Exchange(model, [*first, *messages[1:place]], tools, outcome=outcome)
        before = usage


class FileRecords:
    """The records of the lines of a file, of any version, as a store returns them.

    Version 1 has requests and no conversation.  Exported runs of version 2 have a request before each reply, without
    its messages.

    Attributes:
        number: The number of the line that is being read.
        places: The numbers of the lines with requests that were read.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self.number = 1
        self.places: list[int] = []
        self._steps: dict[str, int] = {}
        self._end = 0
        self._asked = 0

    def __iter__(self) -> Iterator[Record]:
        kind = self._lines[0]["kind"]
        version = self._lines[0]["version"]
        if kind not in ("record", "recording"):
            raise ValueError(f"its first line must be of the kind 'record', got {kind!r:.40}")
        if version not in range(1, FILE_VERSION + 1):
            raise ValueError(f"it has version {version!r:.40} of the format, expected {FILE_VERSION}. Update agentkit.")
        for number, line in enumerate(self._lines, 1):
            self.number = number
            if line["kind"] == "request":
                self.places.append(number)
            yield from map(from_line, self._renew(line))

    def _renew(self, line: Line) -> Iterator[Line]:
        """Yield the lines of the present version for one line."""
        match line["kind"]:
            case "recording":
                history = line["history"]
                yield {**line, "kind": "record"}
                yield from ({"kind": "message", "place": at, "message": entry} for at, entry in enumerate(history))
                yield {"kind": "run", "id": "", "query": line["query"], "model": line["model"], "first": len(history)}
                return
            case "message":
                self._end = max(self._end, line["place"] + 1)
            case "request" if "messages" not in line:
                line = {**line, "messages": [*range(self._asked, self._end)], "from": self._asked}
                self._asked = self._end
            case "call":
                self._steps[line["call"]] = line["step"]
            case "result" if "step" not in line:
                if line["call"] not in self._steps:
                    yield {"kind": "call", "step": 0, "call": line["call"], "name": line["name"]}
                line = {"step": self._steps.get(line["call"], 0), **line}
            case "end" if "status" not in line:
                line = {"status": "finished", **line}
        yield line
