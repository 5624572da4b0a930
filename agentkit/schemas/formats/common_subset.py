"""The common subset of all providers: the plain schema without the constructs that some provider refuses.

The rules follow what OpenAI, Anthropic, Gemini and litellm do to a schema.  `oneOf` with its discriminator becomes
`anyOf`, `const` an `enum`, every `enum` has a type, tuples have `items` as well, and every array has `items` (OpenAI
refuses arrays without: AnswerDotAI/fastcore#798, sigoden/aichat#1049).
"""

from copy import deepcopy
from typing import Any

from .. import JsonSchema
from .rewriting import SILENT, Node, as_json

_IDENTITY = ("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$vocabulary", "$comment")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def make_portable(node: Node) -> None:
    """Change one schema in place into a form that OpenAI, Anthropic and litellm's other providers take."""
    schema = node.schema
    for keyword in _IDENTITY:
        if keyword in schema:
            node.lose(keyword, SILENT)
    if "oneOf" in schema and "anyOf" not in schema:
        schema["anyOf"] = node.lose("oneOf", "replaced by anyOf")
    if "discriminator" in schema:
        node.lose("discriminator", "dropped: the enum of each branch tells them apart")
    if "const" in schema:
        value = node.lose("const", "replaced by enum")
        schema["enum"] = [value]
    _type_the_enum(node)
    give_items(schema)


def type_of(value: Any) -> str:
    """Return the JSON Schema type of a JSON value."""
    return _TYPES.get(type(value), "null")


def types_of(schema: JsonSchema) -> list[str]:
    """Return the types that a schema names, as a list."""
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def make_union(schemas: list[JsonSchema]) -> JsonSchema:
    """Return a new schema that takes what any of `schemas` takes."""
    distinct = {as_json(schema): schema for schema in reversed(schemas)}  # as text, because 1 == True
    copies = [deepcopy(schema) for schema in reversed(distinct.values())]
    return copies[0] if len(copies) == 1 else {"anyOf": copies}


def _type_the_enum(node: Node) -> None:
    values = node.schema.get("enum")
    if not values or "type" in node.schema or "anyOf" in node.schema:
        return
    grouped: dict[str, list[Any]] = {}
    for value in values:
        grouped.setdefault(type_of(value), []).append(value)
    if "number" in grouped and "integer" in grouped:
        grouped["number"] = [value for value in values if type_of(value) in ("number", "integer")]
        del grouped["integer"]
    if len(grouped) == 1:
        node.schema["type"] = next(iter(grouped))
    else:
        node.lose("enum", "replaced by anyOf")
        node.schema["anyOf"] = [
            {"type": kind} if kind == "null" else {"type": kind, "enum": part} for kind, part in grouped.items()
        ]
        for branch in node.schema["anyOf"]:
            give_items(branch)
    if set(grouped) == {"null"}:
        node.lose("enum", "replaced by type")


def give_items(schema: JsonSchema) -> None:
    """Add `items` to an array without them, in place; for a tuple, the union of its places."""
    places, items = schema.get("prefixItems"), schema.get("items")
    if items is False:
        schema["maxItems"] = min(schema.get("maxItems", len(places or ())), len(places or ()))
    if not isinstance(items, dict):
        schema.pop("items", None)
    if places and "items" not in schema:
        schema["items"] = make_union(places) if schema.get("maxItems", len(places) + 1) <= len(places) else {}
    if "array" in types_of(schema):
        schema.setdefault("items", {})
