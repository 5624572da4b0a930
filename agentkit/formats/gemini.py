"""Gemini's function declarations: a subset of OpenAPI's schema, with what it cannot hold said in the description.

Sources: Gemini API reference, `FunctionDeclaration` and `Schema` (type, format, description, nullable, enum, items,
properties, required, minItems, maxItems, minimum, maximum, pattern, anyOf and a few more); the parser refuses names it
does not know, enums are for strings only, an array needs `items`, every node a `type`, nothing stands beside `anyOf`.
"""

from typing import Any

from ..schemas import JsonSchema, inline, rebuild

KEPT = (
    "type", "format", "description", "nullable", "enum", "items", "properties", "required", "minItems", "maxItems",
    "minLength", "maxLength", "minimum", "maximum", "pattern", "anyOf",
)  # fmt: skip
FORMATS = frozenset({"enum", "date-time"})
DEPTH = 3
"""How many levels of a type that contains itself are shown."""


def gemini(name: str, description: str, parameters: JsonSchema) -> dict[str, Any]:
    """The function declaration; a function without parameters has none (an object may not be empty)."""
    declaration: dict[str, Any] = {"name": name, "description": description}
    schema = rebuild(_unrolled(inline(parameters)), _node)
    if schema.get("properties"):
        declaration["parameters"] = schema
    return declaration


def _unrolled(schema: JsonSchema) -> JsonSchema:
    """A recursive schema with its references followed to a fixed depth; what lies deeper is any object."""
    definitions = schema.get("$defs", {})

    def follow(node: Any, depth: int) -> Any:
        if isinstance(node, list):
            return [follow(item, depth) for item in node]
        if not isinstance(node, dict):
            return node
        if isinstance(reference := node.get("$ref"), str):
            beside = {key: value for key, value in node.items() if key != "$ref"}
            if depth == 0:
                return {"type": "object", **beside}
            target = schema if reference == "#" else definitions[reference.removeprefix("#/$defs/")]
            return follow({**target, **beside}, depth - 1)
        return {key: follow(value, depth) for key, value in node.items() if key != "$defs"}

    unrolled: JsonSchema = follow(schema, DEPTH) if definitions else schema
    return unrolled


def _node(schema: JsonSchema) -> JsonSchema:
    """One schema whose inner schemas are done already."""
    node = dict(schema)
    notes: list[str] = []
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")
    if len(merged := node.get("allOf", ())) == 1:
        node = {**merged[0], **node}
    _say_enum(node, notes)
    _say_bounds(node, notes)
    _say_containers(node, notes)
    if node.get("format") not in FORMATS and "format" in node:
        notes.append(f"format: {node.pop('format')}")
    _fold_null(node)
    if "anyOf" not in node:
        node.setdefault("type", "object" if "properties" in node else "string")
    return _described({key: node[key] for key in KEPT if key in node}, notes)


def _say_enum(node: JsonSchema, notes: list[str]) -> None:
    values = node.get("enum")
    if values is None:
        return
    if None in values:
        node["nullable"] = True
    rest = [value for value in values if value is not None]
    if all(isinstance(value, str) for value in rest):
        node |= {"type": "string", "enum": rest, "format": "enum"}
        return
    del node["enum"]
    notes.append(f"one of: {', '.join(map(str, rest))}")
    kinds = {bool: "boolean", int: "integer", float: "number"}
    node["type"] = kinds.get(type(rest[0]), "string") if len({type(value) for value in rest}) == 1 else "string"


def _say_bounds(node: JsonSchema, notes: list[str]) -> None:
    step = 1 if node.get("type") == "integer" else 0
    for exclusive, inclusive, sign, word in (
        ("exclusiveMinimum", "minimum", 1, "more than"),
        ("exclusiveMaximum", "maximum", -1, "less than"),
    ):
        if exclusive in node:
            bound = node.pop(exclusive)
            node[inclusive] = bound + sign * step
            if not step:
                notes.append(f"{word} {bound}")
    if "multipleOf" in node:
        notes.append(f"a multiple of {node.pop('multipleOf')}")


def _say_containers(node: JsonSchema, notes: list[str]) -> None:
    if "prefixItems" in node:
        places = node.pop("prefixItems")
        node["items"] = places[0] if all(place == places[0] for place in places) else {"anyOf": places}
        node |= {"minItems": len(places), "maxItems": len(places)}
    if node.get("type") == "array":
        node.setdefault("items", {"type": "string"})
    if node.pop("uniqueItems", False):
        notes.append("each item once")
    if isinstance(values := node.get("additionalProperties"), dict):
        notes.append(f"an object with any keys; each value: {values.get('type', 'anything')}")


def _fold_null(node: JsonSchema) -> None:
    """`anyOf: [T, null]` becomes T, nullable; `anyOf` of several keeps nullable and description in its branches."""
    if isinstance(kinds := node.get("type"), list):
        node["nullable"] = "null" in kinds
        rest = [kind for kind in kinds if kind != "null"]
        node["type"] = rest[0] if rest else "string"
    branches = node.get("anyOf")
    if branches is None:
        return
    real = [branch for branch in branches if branch.get("type") != "null"]
    nullable = len(real) < len(branches) or node.get("nullable", False)
    if len(real) == 1:
        del node["anyOf"]
        node |= {key: value for key, value in real[0].items() if key not in node}
        node["nullable"] = nullable
    else:
        text = node.pop("description", "")
        for key in [key for key in node if key != "anyOf"]:
            del node[key]
        shown = [_described(branch, [text] if text and place == 0 else []) for place, branch in enumerate(real)]
        node["anyOf"] = [{**branch, "nullable": True} if nullable else branch for branch in shown]


def _described(node: JsonSchema, notes: list[str]) -> JsonSchema:
    if not notes:
        return node
    text = node.get("description", "")
    return {**node, "description": f"{text} ({'; '.join(notes)})" if text else "; ".join(notes)}
