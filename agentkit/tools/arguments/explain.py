"""Error messages about arguments for the model: enough to correct the next attempt, in few characters.

A message shows an example, a small value that is valid by the JSON Schema.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

from ...core.portable import format_value, truncate, truncate_masked
from ...schemas.walk import JsonSchema, follow_reference, iter_child_schemas, json_type, matches
from .json_text import ValuePath
from .validation_errors import ArgumentProblem, find_schemas, find_value, list_properties

MAX_EXAMPLE_ITEMS = 20
"""How many items or keys a minimum may demand; an example with too few is invalid, and not shown."""
MAX_EXAMPLE_VALUES = 500
"""How many values an example may hold: definitions that refer to each other twice would double with each level."""
MAX_SHOWN_REFERENCES = 2
"""How many references inside each other an error follows to show a schema."""
MAX_EXAMPLE_DEPTH = 6
"""Levels below which an example omits optional content."""
_BY_FORMAT = {
    "date": "2024-01-31",
    "date-time": "2024-01-31T12:00:00Z",
    "time": "12:00:00",
    "duration": "PT1H",
    "email": "ann@example.com",
    **dict.fromkeys(("uuid", "uuid4"), "12345678-1234-4234-8234-123456789abc"),
    "uri": "https://example.com",
    **dict.fromkeys(("ipv4", "ipvanyaddress"), "192.0.2.1"),
    "ipv6": "2001:db8::1",
    **dict.fromkeys(("ipv4network", "ipvanynetwork"), "192.0.2.0/24"),
    "ipv6network": "2001:db8::/32",
    **dict.fromkeys(("ipv4interface", "ipvanyinterface"), "192.0.2.1/24"),
    "ipv6interface": "2001:db8::1/32",
    **dict.fromkeys(("base64", "base64url"), "dGV4dA=="),
    "regex": "a+",
    "json-string": "{}",
}
_GUESSES = (
    *("text", "abc", "ABC", "Abc", "a", "A", "1", "12", "123", "1234", "12345", "123456", "A1", "a1", "AB12"),
    *("abc-123", "ABC-123", "2024-01-31", "12:30", "1.5", "+39123456", "#a1b2c3", "USD", "en", "en-US", "/a", "a@b.de"),
)


class Source(NamedTuple):
    """The schema of the arguments, and how many more values an example may hold."""

    root: JsonSchema
    left: Iterator[int]


def build_examples(parameters: JsonSchema, wanted: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield arguments with the `wanted` and the required parameters, then with the required ones only."""
    whole = _resolve_schema(parameters, parameters)
    source = Source(parameters, count(MAX_EXAMPLE_VALUES, -1))
    required = list(whole.get("required", ()))
    known = [name for name in whole.get("properties", {}) if name in required or name in set(wanted)]
    for names in (known, required):
        yield {name: build_value(whole["properties"].get(name, {}), source, 1) for name in names}


def build_value(schema: Any, source: Source, depth: int = 0) -> Any:
    """Return a value for `schema`.  Patterns are guessed, and rules outside the schema are not known: validate it."""
    if not isinstance(schema, dict) or next(source.left) <= 0:
        return "text"
    node = _resolve_schema(schema, source.root)
    if node.get("examples"):
        return node["examples"][0]
    if "const" in node:
        return node["const"]
    if node.get("enum"):
        return node["enum"][0]
    kind = node.get("type", "object" if "properties" in node else "string")
    kind = next((name for name in kind if name != "null"), "null") if isinstance(kind, list) else kind
    match kind:
        case "object":
            return _build_object(node, source, depth)
        case "array":
            return _build_array(node, source, depth)
        case "integer" | "number":
            return _build_number(node, kind)
        case "string" if "contentSchema" in node:
            return json.dumps(build_value(node["contentSchema"], source, depth + 1))
        case "string":
            return _build_string(node)
    return {"boolean": True}.get(kind)


def _resolve_schema(schema: JsonSchema, root: JsonSchema) -> JsonSchema:
    """Return the schema with its reference followed and the first alternative that is not null chosen."""
    node = schema
    for _ in range(MAX_EXAMPLE_DEPTH):
        if isinstance(reference := node.get("$ref"), str):
            node = _merge_schemas(
                {key: item for key, item in node.items() if key != "$ref"}, follow_reference(reference, root)
            )
        elif key := next((key for key in ("anyOf", "oneOf", "allOf") if node.get(key)), None):
            branches = node[key]
            rest = {name: item for name, item in node.items() if name != key}
            first = next((branch for branch in branches if branch != {"type": "null"}), branches[0])
            chosen = branches if key == "allOf" else [first]
            for branch in chosen:
                rest = _merge_schemas(rest, branch)
            node = rest
        else:
            break
    return node


def _merge_schemas(node: JsonSchema, other: Any) -> JsonSchema:
    if not isinstance(other, dict):
        return node
    merged = {**node, **other}
    if "properties" in node and "properties" in other:
        merged["properties"] = {**node["properties"], **other["properties"]}
    if "required" in node and "required" in other:
        merged["required"] = list(dict.fromkeys([*node["required"], *other["required"]]))
    return merged


def _build_object(node: JsonSchema, source: Source, depth: int) -> dict[str, Any]:
    places = node.get("properties", {})
    shown = {
        name: build_value(places.get(name, {}), source, depth + 1)
        for name in node.get("required", ())
        if depth < 4 * MAX_EXAMPLE_DEPTH
    }
    more = node.get("additionalProperties")
    for number in range(len(shown), min(node.get("minProperties", 0), MAX_EXAMPLE_ITEMS)):
        shown[f"key{number + 1}"] = build_value(more, source, depth + 1)
    return shown


def _build_array(node: JsonSchema, source: Source, depth: int) -> list[Any]:
    first = [build_value(place, source, depth + 1) for place in node.get("prefixItems", ())]
    least = min(node.get("minItems", 0), MAX_EXAMPLE_ITEMS)
    has_item = depth < MAX_EXAMPLE_DEPTH and isinstance(node.get("items"), dict) and node.get("maxItems") != 0
    count = max(least, has_item) - len(first)
    rest = [build_value(node.get("items"), source, depth + 1) for _ in range(count)]
    if node.get("uniqueItems") and count > 1:
        choices = _resolve_schema(node["items"], source.root).get("enum", [])
        rest = choices[:count] or [
            item + place if isinstance(item, int) else f"{item}{place}" for place, item in enumerate(rest)
        ]
    return [*first, *rest]


def _build_number(node: JsonSchema, kind: str) -> int | float:
    step = node.get("multipleOf", 1)
    low = node.get("minimum", node.get("exclusiveMinimum"))
    high = node.get("maximum", node.get("exclusiveMaximum"))
    guess: Any = 1 if low is None and high is None else low if low is not None else high
    guess = step * (math.floor(guess / step) if low is None else math.ceil(guess / step))
    if guess == node.get("exclusiveMinimum"):
        guess += step if kind == "integer" or high is None or guess + step < high else (high - guess) / 2
    elif guess == node.get("exclusiveMaximum"):
        guess -= step
    number: int | float = int(guess) if kind == "integer" else guess
    return number


def _build_string(node: JsonSchema) -> str:
    text = _BY_FORMAT.get(node.get("format", ""), "text")
    if pattern := node.get("pattern"):
        text = next((guess for guess in _GUESSES if matches(pattern, guess)), text)
    least = min(node.get("minLength", 0), 50 * MAX_EXAMPLE_ITEMS)
    most = node.get("maxLength")
    text = (text * (least // max(len(text), 1) + 1))[: max(least, len(text))] if len(text) < least else text
    return text if most is None else text[:most]


MAX_EXPLANATION_CHARS = 380
"""Characters of a message, without the name of the exception before it."""
MAX_PROBLEMS_SHOWN = 5
"""Problems that one message lists."""
_MAX_EXAMPLE_CHARS = 160
_MAX_REASON_CHARS = 100
_MAX_SCHEMA_CHARS = 90
_MAX_VALUE_CHARS = 50
_MIN_VALUE_CHARS = 20
_NOTE_KEYWORDS = ("description", "title", "default", "examples", "$defs", "discriminator")


def explain_problems(
    found: Sequence[ArgumentProblem],
    given: Any,
    parameters: JsonSchema,
    validate: Callable[[Any], object],
) -> str:
    """Return a message with each problem's path, the received value, its schema, and an example of valid arguments.

    An example for which `validate` raises `ValueError` is not shown.
    """
    wanted = [str(finding.path[0]) for finding in found if finding.path]
    example = _format_example(parameters, wanted, validate)
    room = MAX_EXPLANATION_CHARS - len(example)
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


def explain_invalid_json(reason: str, parameters: JsonSchema, validate: Callable[[Any], object]) -> str:
    """Return the message for arguments that are not JSON, with the reason and an example."""
    example = _format_example(parameters, (), validate)
    return truncate(f"the arguments are not valid JSON: {reason}", MAX_EXPLANATION_CHARS - len(example) - 3) + example


def explain_wrong_type(given: Any, parameters: JsonSchema, validate: Callable[[Any], object]) -> str:
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
    place: tuple[ValuePath, str],
    found: Sequence[ArgumentProblem],
    given: Any,
    parameters: JsonSchema,
    width: int,
    wide: int,
) -> str:
    path, kind = place
    name = truncate_masked(".".join(map(str, path)), 60)
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
    if kind == "key":
        holder = truncate_masked(".".join(map(str, path[:-1])), 60)
        return f"{holder}: the key {format_value(path[-1], width)}: {reason}"
    received = f"(got {format_value(find_value(given, path), width)})"
    return f"{name or 'the arguments'}: {reason} {received}" + (f", {schema}" if schema else "")


def _find_fragment(path: ValuePath, parameters: JsonSchema) -> str:
    """Return the part of the schema at `path` as JSON, without keywords that do not constrain values."""
    if not path:
        return ""
    around = (place for node in find_schemas(parameters, path[:-1]) for place in iter_child_schemas(node, path[-1]))
    return _dump_without_notes(next((place for place in around if isinstance(place, dict)), None), parameters)


def _dump_without_notes(schema: Any, root: JsonSchema) -> str:
    """Return a schema as JSON, with what its references lead to in their places, two of them deep."""

    def strip(node: Any, within: tuple[str, ...] = ()) -> Any:
        if isinstance(node, dict) and isinstance(reference := node.get("$ref"), str):
            target = follow_reference(reference, root)
            rest = {key: item for key, item in node.items() if key != "$ref"}
            if not isinstance(target, dict):
                return strip(rest, within)
            if len(within) == MAX_SHOWN_REFERENCES or reference in within:
                return strip({key: target[key] for key in ("type",) if key in target}, within)
            return strip({**target, **rest}, (*within, reference))
        if isinstance(node, dict):
            return {
                key: strip(item, within)
                for key, item in node.items()
                if key not in _NOTE_KEYWORDS or not _is_note(item)
            }
        return [strip(item, within) for item in node] if isinstance(node, list) else node

    return json.dumps(strip(schema), ensure_ascii=False, separators=(",", ":"), default=str) if schema else ""


def _is_note(item: Any) -> bool:
    """Return whether the value of a key like `title` is a note; under `properties` it is a parameter's schema."""
    return not (isinstance(item, dict) and ("type" in item or "$ref" in item or "anyOf" in item))


def _format_example(parameters: JsonSchema, wanted: Sequence[str], validate: Callable[[Any], object]) -> str:
    for arguments in build_examples(parameters, wanted):
        text = json.dumps(arguments, ensure_ascii=False, default=str)
        if len(text) <= _MAX_EXAMPLE_CHARS:
            with suppress(ValueError):
                validate(json.loads(text))
                return f"\nValid, for example: {text}"
    return ""
