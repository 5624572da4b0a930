"""Find the part of a JSON Schema that a path in the arguments leads to."""

from collections.abc import Iterable, Iterator
from typing import Any

from ...schemas import JsonSchema
from ...schemas.patterns import matches
from .json_text import Path

Nodes = list[JsonSchema]
"""Schemas of one place: the schema itself, its references, and its alternatives (anyOf, oneOf, allOf)."""


def find_schemas(root: JsonSchema, path: Path) -> Nodes:
    """Return the schemas at `path`, alternatives included; an empty list where the schema does not constrain it."""
    nodes = expand_schemas([root], root)
    for step in path:
        nodes = expand_schemas((inner for node in nodes for inner in iter_child_schemas(node, step)), root)
    return nodes


def expand_schemas(schemas: Iterable[Any], root: JsonSchema) -> Nodes:
    """Return the schemas with the schemas behind their references and alternatives, each once."""
    found: dict[int, JsonSchema] = {}
    waiting = list(schemas)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, dict) and id(node) not in found:
            found[id(node)] = node
            if isinstance(reference := node.get("$ref"), str):
                waiting.append(follow_reference(reference, root))
            waiting.extend(option for key in ("anyOf", "oneOf", "allOf") for option in node.get(key, ()))
    return list(found.values())


def iter_child_schemas(node: JsonSchema, step: int | str) -> Iterator[Any]:
    """Yield the schemas of a key or of an array index in one node."""
    if isinstance(step, int):
        first = node.get("prefixItems", ())
        yield first[step] if step < len(first) else node.get("items")
    elif step in node.get("properties", {}):
        yield node["properties"][step]
    else:
        patterns = node.get("patternProperties", {})
        matching = [inner for pattern, inner in patterns.items() if matches(pattern, step)]
        yield from matching or [node.get("additionalProperties")]


def follow_reference(reference: str, root: JsonSchema) -> Any:
    """Return the target of a local reference (`#/$defs/Name`), or None."""
    node: Any = root
    for step in reference.split("/")[1:]:
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


def list_properties(nodes: Nodes) -> list[str]:
    """Return the names of the declared keys."""
    return list(dict.fromkeys(name for node in nodes for name in node.get("properties", {})))


def list_options(nodes: Nodes) -> list[Any]:
    """Return the distinct values of `enum` and `const`."""
    values = [
        value for node in nodes for value in (*node.get("enum", ()), *([node["const"]] if "const" in node else ()))
    ]
    return list({repr(value): value for value in values}.values())


def list_types(nodes: Nodes) -> set[str]:
    """Return the JSON types that the schemas allow, as far as they name them."""
    named: set[str] = {json_type(value) for value in list_options(nodes)}
    for node in nodes:
        kind = node.get("type", [])
        named.update([kind] if isinstance(kind, str) else kind)
    return named


def json_type(value: Any) -> str:
    """Return JSON Schema's name for the type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
