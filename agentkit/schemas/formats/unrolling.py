"""A schema for readers without references and without lists of types."""

from functools import partial
from typing import Any

from .. import JsonSchema
from .declaration import Loss
from .rewriting import ROOT, mapped

LEVELS = 3
"""How many levels of a type that contains itself are shown."""
_OWN = {
    "string": ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "object": ("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
}
"""The keywords that speak of values of one type only."""


def unrolled(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """A copy in which references are followed for three levels, and lists of types are an `anyOf`.

    What lies deeper is any object (or anything, where the type is no object); `losses` is added to.
    """
    definitions = schema.get("$defs", {})

    def follow(node: JsonSchema, path: str, depth: int = LEVELS) -> JsonSchema:
        reference = node.get("$ref")
        if not isinstance(reference, str):
            spread = _spread(node, path, losses)
            return mapped(spread, path, partial(follow, depth=depth), frozenset({"$defs"}))
        beside = {key: value for key, value in node.items() if key != "$ref"}
        name = reference.removeprefix("#/$defs/")
        target = definitions[name]
        if depth:
            return follow({**target, **beside}, path, depth - 1)
        losses.append(Loss(path, "$ref", reference, f"dropped: {LEVELS} levels of {name} are shown"))
        kind: dict[str, Any] = {"type": "object"} if target.get("type") == "object" else {}
        return {**kind, "description": f"another {name}", **beside}

    whole = follow(schema, ROOT)
    return {key: value for key, value in whole.items() if key != "$defs"}


def _spread(node: JsonSchema, path: str, losses: list[Loss]) -> JsonSchema:
    kinds = node.get("type")
    if not isinstance(kinds, list) or len(set(kinds) - {"null"}) < 2 or {"anyOf", "oneOf", "enum", "const"} & set(node):
        return node
    losses.append(Loss(path, "type", list(kinds), "replaced by anyOf"))
    owned = {"type"}.union(*(_OWN.get(kind, ()) for kind in kinds))
    branches = [{"type": kind} | {key: node[key] for key in _OWN.get(kind, ()) if key in node} for kind in kinds]
    return {key: value for key, value in node.items() if key not in owned} | {"anyOf": branches}
