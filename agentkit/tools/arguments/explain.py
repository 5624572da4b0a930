"""What a model is told of its mistakes in arguments: enough to make the next attempt right, in few characters."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from ...schemas import JsonSchema
from .example import examples
from .json_text import Path
from .problem import Finding
from .problems import value_at
from .repair import clipped, shown
from .schema_places import at, inside, properties

LIMIT = 380
"""How many characters a message has at most (the name of the exception comes before it)."""
NAMED = 5
"""How many mistakes the model is told at once."""
_EXAMPLE = 160
_REASON = 100
_SCHEMA = 90
_LONG, _SHORT = 50, 20
_SAID_ELSEWHERE = ("description", "title", "default", "examples", "$defs", "discriminator")


def explain(
    found: Sequence[Finding], given: Any, parameters: JsonSchema, validate: Callable[[Any], object] | None = None
) -> str:
    """The mistakes, each with its path, what was received and what is wanted, and an example of valid arguments.

    `validate` tells by a `ValueError` that an example is not valid after all: it is not shown then.
    """
    wanted = [str(finding.path[0]) for finding in found if finding.path]
    example = _example(parameters, wanted, validate)
    room = LIMIT - len(example)
    places = list(dict.fromkeys((finding.path, finding.kind) for finding in found))
    for value_width, schema_width in ((_LONG, _SCHEMA), (_SHORT, _SCHEMA // 2), (_SHORT, 0)):
        lines = [_line(place, found, given, parameters, value_width, schema_width) for place in places[:NAMED]]
        text = _listed(lines, len(places))
        if len(text) <= room:
            return text + example
    while len(lines) > 1 and len(_listed(lines, len(places))) > room:
        lines.pop()
    more = _listed(lines, len(places)).removeprefix("; ".join(lines))
    return clipped("; ".join(lines), max(room - len(more) - 3, 0)) + more + example


def explain_text(reason: str, parameters: JsonSchema, validate: Callable[[Any], object] | None = None) -> str:
    """That the arguments are no JSON, for the reason given, and an example of valid ones."""
    example = _example(parameters, (), validate)
    return clipped(f"the arguments are not valid JSON: {reason}", LIMIT - len(example) - 3) + example


def explain_kind(given: Any, parameters: JsonSchema, validate: Callable[[Any], object] | None = None) -> str:
    """That the arguments are JSON, but no object."""
    names = clipped(", ".join(properties(at(parameters, ()))) or "none", 100)
    example = _example(parameters, (), validate)
    return f"the arguments must be one JSON object with the parameters {names} (got {shown(given, _LONG)}){example}"


def _listed(lines: Sequence[str], count: int) -> str:
    rest = count - len(lines)
    return "; ".join([*lines, *([f"and {rest} more"] if rest else [])])


def _line(
    place: tuple[Path, str], found: Sequence[Finding], given: Any, parameters: JsonSchema, width: int, wide: int
) -> str:
    path, kind = place
    name = clipped(".".join(map(str, path)), 60)
    fragment = _fragment(path, parameters)
    schema = f"schema {clipped(fragment, wide)}" if wide and fragment else ""
    if kind == "unknown":
        names = clipped(", ".join(properties(at(parameters, path[:-1]))) or "none", max(wide, _SHORT) + 10)
        return f"{name}: there is no such parameter; the parameters are: {names}"
    if kind == "missing":
        return f"{name}: missing, it is required" + (f", {schema}" if schema else "")
    messages = dict.fromkeys(finding.message for finding in found if (finding.path, finding.kind) == place)
    reason = clipped(" or ".join(message[:1].lower() + message[1:] for message in messages), _REASON)
    received = f"(got {shown(value_at(given, path), width)})"
    return f"{name or 'the arguments'}: {reason} {received}" + (f", {schema}" if schema else "")


def _fragment(path: Path, parameters: JsonSchema) -> str:
    """The part of the schema that `path` leads to, as JSON, without what says nothing about validity."""
    if not path:
        return ""
    around = (place for node in at(parameters, path[:-1]) for place in inside(node, path[-1]))
    return _terse(next((place for place in around if isinstance(place, dict)), None))


def _terse(schema: Any) -> str:
    def kept(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: kept(item) for key, item in node.items() if key not in _SAID_ELSEWHERE or not _is_note(item)}
        return [kept(item) for item in node] if isinstance(node, list) else node

    return json.dumps(kept(schema), ensure_ascii=False, separators=(",", ":"), default=str) if schema else ""


def _is_note(item: Any) -> bool:
    """Whether the value under a key like `title` is a note: under properties it is the schema of a parameter."""
    return not (isinstance(item, dict) and ("type" in item or "$ref" in item or "anyOf" in item))


def _example(parameters: JsonSchema, wanted: Sequence[str], validate: Callable[[Any], object] | None) -> str:
    for arguments in examples(parameters, wanted):
        text = json.dumps(arguments, ensure_ascii=False, default=str)
        if len(text) <= _EXAMPLE and _is_valid(text, validate):
            return f"\nValid, for example: {text}"
    return ""


def _is_valid(text: str, validate: Callable[[Any], object] | None) -> bool:
    try:
        if validate:
            validate(json.loads(text))
    except ValueError:
        return False
    return True
