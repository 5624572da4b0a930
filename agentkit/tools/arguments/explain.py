"""Error messages about arguments for the model: enough to correct the next attempt, in few characters."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from ...schemas import JsonSchema
from .example import build_examples
from .json_text import Path
from .repair import format_value, truncate
from .schema_places import find_schemas, iter_child_schemas, json_type, list_properties
from .validation_errors import ArgumentProblem, find_value

MAX_MESSAGE_CHARS = 380
"""Characters of a message, without the name of the exception before it."""
MAX_PROBLEMS_SHOWN = 5
"""Problems that one message lists."""
_MAX_EXAMPLE_CHARS = 160
_MAX_REASON_CHARS = 100
_MAX_SCHEMA_CHARS = 90
_MAX_VALUE_CHARS, _MIN_VALUE_CHARS = 50, 20
_NOTE_KEYWORDS = ("description", "title", "default", "examples", "$defs", "discriminator")


def explain_problems(
    found: Sequence[ArgumentProblem],
    given: Any,
    parameters: JsonSchema,
    validate: Callable[[Any], object] | None = None,
) -> str:
    """Return a message with each problem's path, the received value, its schema, and an example of valid arguments.

    An example for which `validate` raises `ValueError` is not shown.
    """
    wanted = [str(finding.path[0]) for finding in found if finding.path]
    example = _format_example(parameters, wanted, validate)
    room = MAX_MESSAGE_CHARS - len(example)
    places = list(dict.fromkeys((finding.path, finding.kind) for finding in found))
    for value_width, schema_width in (
        (_MAX_VALUE_CHARS, _MAX_SCHEMA_CHARS),
        (_MIN_VALUE_CHARS, _MAX_SCHEMA_CHARS // 2),
        (_MIN_VALUE_CHARS, 0),
    ):
        lines = [
            _format_line(place, found, given, parameters, value_width, schema_width)
            for place in places[:MAX_PROBLEMS_SHOWN]
        ]
        text = _join_lines(lines, len(places))
        if len(text) <= room:
            return text + example
    while len(lines) > 1 and len(_join_lines(lines, len(places))) > room:
        lines.pop()
    more = _join_lines(lines, len(places)).removeprefix("; ".join(lines))
    return truncate("; ".join(lines), max(room - len(more) - 3, 0)) + more + example


def explain_invalid_json(reason: str, parameters: JsonSchema, validate: Callable[[Any], object] | None = None) -> str:
    """Return the message for arguments that are not JSON, with the reason and an example."""
    example = _format_example(parameters, (), validate)
    return truncate(f"the arguments are not valid JSON: {reason}", MAX_MESSAGE_CHARS - len(example) - 3) + example


def explain_wrong_type(given: Any, parameters: JsonSchema, validate: Callable[[Any], object] | None = None) -> str:
    """Return the message for arguments that are JSON, but not an object."""
    names = truncate(", ".join(list_properties(find_schemas(parameters, ()))) or "none", 100)
    example = _format_example(parameters, (), validate)
    received = format_value(given, _MAX_VALUE_CHARS)
    kind = {"string": "a text", "array": "a list"}.get(json_type(given), json_type(given))
    return f"the arguments must be one JSON object with the parameters {names}, not {kind} (got {received}){example}"


def _join_lines(lines: Sequence[str], count: int) -> str:
    rest = count - len(lines)
    return "; ".join([*lines, *([f"and {rest} more"] if rest else [])])


def _format_line(
    place: tuple[Path, str], found: Sequence[ArgumentProblem], given: Any, parameters: JsonSchema, width: int, wide: int
) -> str:
    path, kind = place
    name = truncate(".".join(map(str, path)), 60)
    fragment = _find_fragment(path, parameters)
    schema = f"schema {truncate(fragment, wide)}" if wide and fragment else ""
    if kind == "unknown":
        names = truncate(
            ", ".join(list_properties(find_schemas(parameters, path[:-1]))) or "none", max(wide, _MIN_VALUE_CHARS) + 10
        )
        return f"{name}: there is no such parameter; the parameters are: {names}"
    if kind == "missing":
        return f"{name}: missing, it is required" + (f", {schema}" if schema else "")
    messages = dict.fromkeys(finding.message for finding in found if (finding.path, finding.kind) == place)
    reason = truncate(" or ".join(message[:1].lower() + message[1:] for message in messages), _MAX_REASON_CHARS)
    received = f"(got {format_value(find_value(given, path), width)})"
    return f"{name or 'the arguments'}: {reason} {received}" + (f", {schema}" if schema else "")


def _find_fragment(path: Path, parameters: JsonSchema) -> str:
    """Return the part of the schema at `path` as JSON, without keywords that do not constrain values."""
    if not path:
        return ""
    around = (place for node in find_schemas(parameters, path[:-1]) for place in iter_child_schemas(node, path[-1]))
    return _dump_without_notes(next((place for place in around if isinstance(place, dict)), None))


def _dump_without_notes(schema: Any) -> str:
    def strip(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: strip(item) for key, item in node.items() if key not in _NOTE_KEYWORDS or not _is_note(item)}
        return [strip(item) for item in node] if isinstance(node, list) else node

    return json.dumps(strip(schema), ensure_ascii=False, separators=(",", ":"), default=str) if schema else ""


def _is_note(item: Any) -> bool:
    """Return whether the value of a key like `title` is a note; under `properties` it is a parameter's schema."""
    return not (isinstance(item, dict) and ("type" in item or "$ref" in item or "anyOf" in item))


def _format_example(parameters: JsonSchema, wanted: Sequence[str], validate: Callable[[Any], object] | None) -> str:
    for arguments in build_examples(parameters, wanted):
        text = json.dumps(arguments, ensure_ascii=False, default=str)
        if len(text) <= _MAX_EXAMPLE_CHARS and _is_valid(text, validate):
            return f"\nValid, for example: {text}"
    return ""


def _is_valid(text: str, validate: Callable[[Any], object] | None) -> bool:
    try:
        if validate:
            validate(json.loads(text))
    except ValueError:
        return False
    return True
