"""Findings of the linter, and the places in a schema that it checks."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

from ...schemas import JsonSchema, iter_children

MAX_PLACES = 10_000
Severity: TypeAlias = Literal["error", "warning", "hint"]


@dataclass(frozen=True)
class LintFinding:
    """A problem of a tool.

    Attributes:
        tool: The tool's name; "" for a problem of all tools together.
        path: The parameter, as `lines[].quantity`; "" for the tool itself.
        rule: The name of the rule: "parameter-description", "enum-in-text" and the like.
        message: What is wrong, and what to write instead.
        severity: "error" (cannot be used), "warning" (a model will do worse) or "hint".
    """

    tool: str
    path: str
    rule: str
    message: str
    severity: Severity


@dataclass(frozen=True)
class SchemaPlace:
    """One schema inside a tool's: `lines[].quantity` is the quantity of each item of the parameter `lines`."""

    path: str
    schema: JsonSchema


def iter_places(root: JsonSchema) -> Iterator[SchemaPlace]:
    """Yield the schemas of a tool, `root` first, at most `MAX_PLACES`; a type that contains itself is visited once."""
    return islice(_iter_places(root, "", root.get("$defs", {}), frozenset()), MAX_PLACES)


def resolve_reference(schema: JsonSchema, definitions: JsonSchema) -> JsonSchema:
    """Return the target of a schema's reference; {} without one."""
    found: JsonSchema = definitions.get(str(schema.get("$ref")).removeprefix("#/$defs/"), {})
    return found


def _iter_places(
    schema: JsonSchema, path: str, definitions: JsonSchema, within: frozenset[str]
) -> Iterator[SchemaPlace]:
    yield SchemaPlace(path, schema)
    if (reference := schema.get("$ref")) and reference not in within:
        yield from _iter_places(resolve_reference(schema, definitions), path, definitions, within | {reference})
    for place, inner in iter_children(schema):
        if place[0] != "$defs":
            yield from _iter_places(inner, f"{path}{_format_step(place)}".lstrip("."), definitions, within)


def _format_step(place: tuple[str | int, ...]) -> str:
    match place:
        case ("properties", name):
            return f".{name}"
        case ("prefixItems", index):
            return f"[{index}]"
        case ("items",) | ("contains",):
            return "[]"
        case ("additionalProperties",) | ("patternProperties", _):
            return ".*"
    return ""
