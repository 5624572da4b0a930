"""Ask the person at the terminal or in the notebook: whether calls may be made, and what tools want to know.

All calls of a turn that wait for a decision are one question.  A question of a tool is a text or a form, and what the
person enters is read as the value that its schema wants.
"""

import json
import os
import re
import select
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, Literal, TypeAlias, TypeVar

from .errors import Paused
from .host import find_kernel
from .masking import mask
from .messages import ToolCall
from .pending import Pending, Question, escape_unprintable
from .portable import parse_json
from .threads import is_cancelled
from .values import frozen

T = TypeVar("T")
Scope: TypeAlias = Literal["call", "values", "recipients"]
"""What a person allows: this call; also later calls of the tool with the same values, or to the same recipients."""


@frozen
class PersonAnswer:
    """The decision of a person about one call, and what it holds for."""

    decision: bool | str | dict[str, Any]
    scope: Scope = "call"


_CONSENT = {"y", "yes", "yes please", "ok", "okay", "allow", "true"}
_PUNCTUATION = re.compile(r"[\s,.!]+")


def is_consent(text: str) -> bool:
    """Return whether a text says yes, and nothing else; neither case nor punctuation matter."""
    return _PUNCTUATION.sub(" ", text.lower()).strip() in _CONSENT


_NUMBERED = re.compile(r"(?P<numbers>\d{1,3}(?:[ ,]+\d{1,3})*)[ :]+(?P<words>\S.*)", re.DOTALL)


def make_question(pending: Sequence[Pending]) -> str:
    """Return the question that stands after the calls."""
    allowable = [value for entry in pending for value in entry.allowable]
    options = ["y", "n"]
    if allowable:
        options.append("v (y, also for these values from now on)")
    if any(value.is_destination for value in allowable):
        options.append("r (y, also for these recipients from now on)")
    if len(pending) == 1:
        return f'Allow it? {", ".join(options)}, a reason to refuse it, or other arguments as {{"...": ...}}: '
    return (
        f"Allow them? {', '.join(options)}, or a reason to refuse them; after their numbers for some of them, "
        '"1 3 y", and with other arguments, "2 {...}": '
    )


def read_decisions(entry: str, pending: Sequence[Pending]) -> dict[int, PersonAnswer]:
    """Return the decisions of an answer by the calls' indices; raise `ValueError` if it cannot be read."""
    places = range(len(pending))
    words = entry.strip()
    if len(pending) > 1 and (match := _NUMBERED.fullmatch(words)):
        numbers = {int(number) for number in re.findall(r"\d+", match["numbers"])}
        words = match["words"]
        if not numbers <= {place + 1 for place in places}:
            raise ValueError(f"The calls have the numbers 1 to {len(pending)}.")
        chosen = sorted(number - 1 for number in numbers)
    else:
        chosen = list(places)
    return {place: _read_words(words, pending[place], is_alone=len(chosen) == 1) for place in chosen} if words else {}


def _read_words(words: str, pending: Pending, *, is_alone: bool) -> PersonAnswer:
    lower = words.lower()
    if is_consent(words):
        return PersonAnswer(True)
    if lower in ("n", "no"):
        return PersonAnswer(False)
    if lower == "v" and pending.allowable:
        return PersonAnswer(True, "values")
    if lower == "r" and any(value.is_destination for value in pending.allowable):
        return PersonAnswer(True, "recipients")
    if not words.startswith("{"):
        if len(words) == 1:  # a typing error, not a reason
            raise ValueError(f"{words!r} is no answer to {pending.call.name}.")
        return PersonAnswer(words)
    if not is_alone:
        raise ValueError('Arguments are for one call: "2 {...}".')
    try:
        return PersonAnswer(dict(json.loads(words)))
    except ValueError as error:
        raise ValueError(f"That is no JSON object: {error}.") from None


REFUSALS = {"n": False, "no": False, "false": False}
SIMPLE_TYPES = ("string", "number", "integer", "boolean")
FORM_KEY = "answer"
"""The field of a form for an answer that is not an object."""


def is_form(schema: Mapping[str, Any]) -> bool:
    """Return whether an answer is an object with properties, so that each is a field of a form."""
    return schema.get("type") == "object" and bool(schema.get("properties"))


def to_form(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a form for an answer; one that is not an object becomes its only field.

    A field holds a single value, or some of several texts; one that may be null may be left out.  Any other value, such
    as an object, is entered as JSON in a text.
    """
    fields = _fields_of(schema)
    required = schema.get("required", ()) if is_form(schema) else (FORM_KEY,)
    shown = {name: field if _is_field(field) else _json_field(field, schema) for name, (field, _) in fields.items()}
    needed = [name for name in required if name in fields and not fields[name][1]]
    return {"type": "object", "properties": shown, "required": needed}


def read_form(schema: Mapping[str, Any], content: Mapping[str, Any]) -> Any:
    """Return the answer, for which `schema` was asked, that the fields of its form hold."""
    values = dict(content)
    for name, (field, may_be_null) in _fields_of(schema).items():
        entry = content.get(name)
        if isinstance(entry, str) and not _is_field(field):
            values[name] = parse_json(entry)
        elif entry is None and may_be_null and name in schema.get("required", ()):
            values[name] = None
    return values if is_form(schema) else values.get(FORM_KEY)


def _fields_of(schema: Mapping[str, Any]) -> dict[str, tuple[Mapping[str, Any], bool]]:
    """Return the schemas of the values of a form without null, and whether each may be null."""
    fields = dict[str, tuple[Mapping[str, Any], bool]]()
    for name, given in (schema["properties"] if is_form(schema) else {FORM_KEY: schema}).items():
        field = dict(given) if isinstance(given, Mapping) else {}  # true: any value
        choices = field.get("anyOf", ())
        others = [one for one in choices if isinstance(one, Mapping) and one != {"type": "null"}]
        may_be_null = len(others) == 1 and {"type": "null"} in choices
        if may_be_null:
            del field["anyOf"]
            field |= others[0]
        kinds = field.get("type")
        if isinstance(kinds, list) and len(kinds) == 2 and "null" in kinds:  # ["string", "null"]
            may_be_null = True
            field["type"] = next(kind for kind in kinds if kind != "null")
            if isinstance(values := field.get("enum"), list):
                field["enum"] = [value for value in values if value is not None]
        if may_be_null and field.get("default", 0) is None:
            del field["default"]
        defined = schema.get("$defs", {}).get(field.get("$ref", "").removeprefix("#/$defs/"))
        if defined is not None:
            del field["$ref"]
            field = {**defined, **field}
        fields[name] = field, may_be_null
    return fields


def _is_field(wanted: Mapping[str, Any]) -> bool:
    """Return whether a form has such a field: a simple value, one of several, or some of several texts."""
    items = wanted.get("items")
    if wanted.get("type") == "array":
        return isinstance(items, dict) and ("enum" in items or "anyOf" in items)
    return _is_simple(wanted) or any("const" in one for one in wanted.get("oneOf", ()) if isinstance(one, dict))


def _json_field(field: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    expected = json.dumps(field)
    if "$defs" in schema and "#/$defs/" in expected:
        expected = json.dumps({**field, "$defs": schema["$defs"]})
    texts = [text for text in (field.get("description"), f"JSON with the schema {expected}") if text]
    return {"type": "string", "description": ". ".join(texts)}


def read_value(question: Question, ask: Callable[[str], str], problem: str = "") -> Any:
    """Ask a question with `ask`, which shows a prompt and returns a line; return the value, not yet validated.

    An object of simple properties is asked for property by property; one that may be null may be left empty.
    """
    lead = f"\n{question.text}" + (f"\n{problem}" if problem else "")
    fields = _fields_of(question.schema)
    if not is_form(question.schema) or not all(_is_simple(field) for field, _ in fields.values()):
        return read_entry(question.schema, ask(f"{lead}\n{describe_answer_type(question.schema)}: "))
    values = {}
    required = question.schema.get("required", ())
    for name, (field, may_be_null) in fields.items():
        note = field.get("description") or field.get("title") or ""
        is_needed = name in required and not may_be_null
        optional = "" if is_needed else " (may be left empty)"
        entry = ask(f"{lead}\n{name}{f' - {note}' if note else ''}, {describe_answer_type(field)}{optional}: ")
        lead = ""
        if entry or is_needed:
            values[name] = read_entry(field, entry)
        elif name in required:
            values[name] = None
    return values


def _is_simple(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (schema.get("type") in SIMPLE_TYPES or "enum" in schema)


def describe_answer_type(schema: Mapping[str, Any]) -> str:
    """Return in a few words what an answer must be."""
    if isinstance(choices := schema.get("enum"), list):
        return f"one of {', '.join(str(choice) for choice in choices)}"
    kind = schema.get("type")
    if kind == "string":
        return f"text ({schema['format']})" if "format" in schema else "text"
    return {"boolean": "y or n", "number": "a number", "integer": "a whole number"}.get(str(kind), "JSON")


def read_entry(schema: Mapping[str, Any], entry: str) -> Any:
    """Return what the person entered as the value that the schema describes; a text where it is nothing else."""
    if isinstance(choices := schema.get("enum"), list):
        return next((choice for choice in choices if str(choice) == entry), entry)
    if schema.get("type") == "string":
        return entry
    if schema.get("type") == "boolean":
        return True if is_consent(entry) else REFUSALS.get(entry.lower(), entry)
    return parse_json(entry)


if sys.platform == "win32":
    import msvcrt
else:
    import termios

MAX_ANSWER_BYTES = 65_536
"""Bytes of an answer that are read at once."""
QUIET_INPUT_SECONDS = 0.15
"""A question is shown when this time has passed without input: text that was typed or pasted before is no answer."""
BURST_SECONDS = 0.05
"""Lines that follow each other within this time were pasted together; they are one answer."""

_PROMPT_LOCK = Lock()
_POLL_SECONDS = 0.2
"""How often a waiting prompt checks whether its run was cancelled."""


@frozen
class Person:
    """Ask a person whether a call may be made, or a question of a tool.

    `read` shows a prompt and returns what the person enters; default: `ask_terminal` at a terminal, else `input`.
    """

    read: Callable[[str], str] | None = None

    def __call__(self, call: ToolCall) -> bool | str | dict[str, Any] | type[Paused]:
        """Return the person's decision about one call; see `ask_about`."""
        answers = self.ask_about([Pending.decision(call)])
        return answers[call.id].decision if answers else Paused

    def ask_about(self, pending: Sequence[Pending]) -> dict[str, PersonAnswer]:
        """Ask one question about all these calls, again until each has an answer; return the answers by call id.

        Some are missing if there is no terminal or its input has ended.
        """
        answers: dict[str, PersonAnswer] = {}
        problem = ""
        while left := [entry for entry in pending if entry.call.id not in answers]:
            complaint = f"{escape_unprintable(problem)}\n" if problem else ""
            prompt = f"\n{describe_calls(left)}\n{complaint}{make_question(left)}"
            if (text := _ask_alone(partial(self.read or _read, prompt))) is None:
                return answers
            try:
                answers |= {left[place].call.id: answer for place, answer in read_decisions(text, left).items()}
                problem = ""
            except ValueError as error:
                problem = str(error)
        return answers

    def answer(self, question: Question, problem: str = "") -> Any:
        """Return the person's answer to a question of a tool, as JSON data; None if no person can be asked."""
        return _ask_alone(partial(read_value, question, partial(_ask_line, self.read or _read), problem))


def ask_line(prompt: str) -> str | None:
    """Return the line that the person at the terminal or in the notebook enters; None if no person can be asked."""
    return _ask_alone(partial(_ask_line, _read, prompt))


def _ask_alone(ask: Callable[[], T]) -> T | None:
    """Return what `ask` reads from the person, while no other question is shown; None if no person can be asked."""
    try:
        with _PROMPT_LOCK:
            return ask()
    except (EOFError, OSError, RuntimeError):  # a lost standard input; a notebook without a frontend
        return None


def _ask_line(read: Callable[[str], str], text: str) -> str:
    return read("\n".join(map(escape_unprintable, mask(text).split("\n")))).strip()


def _read(prompt: str) -> str:
    is_terminal = find_kernel() is None and sys.stdin is not None and sys.stdin.isatty()
    return ask_terminal(prompt) if is_terminal else input(prompt)


def ask_terminal(prompt: str) -> str:
    """Write `prompt` to standard error and return what the person enters after it is shown.

    Input from before the prompt is discarded.  Pasted lines are returned together.

    Raises:
        EOFError: There is no terminal, its input has ended, or the run was cancelled while it waited.
    """
    if not sys.stdin.isatty():
        raise EOFError
    _discard_input()
    sys.stderr.write(_wrap(prompt))
    sys.stderr.flush()
    entry = sys.stdin.readline() if sys.platform == "win32" else _read_burst()
    if not entry:
        raise EOFError
    return entry


def _wrap(prompt: str) -> str:
    """Break the lines of a prompt between words where the terminal would break them inside of words."""
    columns = shutil.get_terminal_size().columns
    lines = []
    for line in prompt.split("\n"):
        inside = line.strip(" ")
        start = line[: len(line) - len(line.lstrip(" "))] if inside else ""
        end = line[len(start) + len(inside) :]
        room = columns - len(end)
        broken = textwrap.wrap(
            inside, room, initial_indent=start, subsequent_indent=start, break_long_words=False, break_on_hyphens=False
        )
        lines.append("\n".join(broken) + end if len(line) > columns and room > len(start) else line)
    return "\n".join(lines)


def _read_burst() -> str:
    """Return the next line of the terminal with the lines pasted after it; "" at the end of the input.

    It bypasses the buffer of `sys.stdin`, which may hold lines from before the question.
    """
    while not _has_input(_POLL_SECONDS):
        if is_cancelled():
            return ""
    entry = os.read(sys.stdin.fileno(), MAX_ANSWER_BYTES)
    while entry and _has_input(BURST_SECONDS) and (more := os.read(sys.stdin.fileno(), MAX_ANSWER_BYTES)):
        entry += more
    return entry.decode(sys.stdin.encoding, errors="replace")


def _discard_input() -> None:
    """Discard the input of the terminal until it is quiet; raise `EOFError` if the run is cancelled meanwhile."""
    if sys.platform == "win32":
        while msvcrt.kbhit():
            msvcrt.getwch()
        return
    while True:
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        if not _has_input(QUIET_INPUT_SECONDS):
            break
        if is_cancelled():
            raise EOFError
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)  # a line that has no end yet


def _has_input(seconds: float) -> bool:
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def describe_calls(pending: Sequence[Pending]) -> str:
    """Return the calls as text for a person, numbered if there are several, each with its reason; secrets masked."""
    parts = []
    for number, entry in enumerate(pending, 1):
        lines = [f"{number}. {entry.text}" if len(pending) > 1 else entry.text]
        lines += [escape_unprintable(f"  It waits: {entry.reason}")] if entry.reason else []
        lines += [escape_unprintable(f"  {entry.problem}")] if entry.problem else []
        parts.append("\n".join(lines))
    return mask("\n".join(parts))
