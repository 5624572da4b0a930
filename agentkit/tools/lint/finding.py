"""What the linter has to say."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...schemas import JsonSchema, children

Severity: TypeAlias = Literal["error", "warning", "hint"]


@dataclass(frozen=True)
class Finding:
    """Something to mend in a tool.

    Attributes:
        tool: Its name; "" for what concerns all tools together.
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
class Place:
    """One schema inside a tool's: `lines[].quantity` is the quantity of each item of the parameter `lines`."""

    path: str
    schema: JsonSchema


def places(root: JsonSchema) -> Iterator[Place]:
    """All schemas of a tool, `root` first; a type that contains itself is gone through once."""
    return _places(root, "", root.get("$defs", {}), frozenset())


def target(schema: JsonSchema, definitions: JsonSchema) -> JsonSchema:
    """What a schema refers to; {} if it refers to nothing."""
    found: JsonSchema = definitions.get(str(schema.get("$ref")).removeprefix("#/$defs/"), {})
    return found


def _places(schema: JsonSchema, path: str, definitions: JsonSchema, within: frozenset[str]) -> Iterator[Place]:
    yield Place(path, schema)
    if (reference := schema.get("$ref")) and reference not in within:
        yield from _places(target(schema, definitions), path, definitions, within | {reference})
    for place, inner in children(schema):
        if place[0] != "$defs":
            yield from _places(inner, f"{path}{_step(place)}".lstrip("."), definitions, within)


def _step(place: tuple[str | int, ...]) -> str:
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
