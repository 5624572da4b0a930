"""The structure that providers accept: first what all of them do, then what one dialect requires at the root.

The common subset is the plain schema without the constructs that some provider refuses.  Its rules follow what OpenAI,
Anthropic, Gemini and litellm do to a schema.  `oneOf` with its discriminator becomes `anyOf`, `const` an `enum`, every
`enum` has a type, tuples have `items` as well, and every array has `items` (OpenAI refuses arrays without:
AnswerDotAI/fastcore#798, sigoden/aichat#1049).

Dialects require an object at the root without alternatives, no `allOf`, no references.  Sources: OpenAI refuses oneOf,
anyOf, allOf, enum and not at the root (langchainjs#9804), Anthropic oneOf, allOf and anyOf
(anthropics/claude-code#40075), MCP requires `type: object` (specification, Tool.inputSchema).
"""

from collections.abc import Callable, Set
from functools import cache, partial
from typing import Any

from ...core.portable import copy_value
from ..walk import PREFIX, JsonSchema, dereference_root, iter_children, json_type
from .declaration import (
    CONDITIONS,
    LISTED,
    MAX_KEYWORD_CHARS,
    ROOT,
    SILENT,
    VALIDATED,
    Loss,
    Node,
    as_json,
    map_schemas,
    rewrite,
)

_IDENTITY = ("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$vocabulary", "$comment")


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
        schema["enum"] = [node.lose("const", "replaced by enum")]
    _type_the_enum(node)
    give_items(schema)


def types_of(schema: JsonSchema) -> list[str]:
    """Return the types that a schema names, as a list."""
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def strip_beside_any_of(node: Node, kept: Set[str]) -> None:
    """Leave only `kept` beside `anyOf`: keywords that narrow it are described, the branches hold the type."""
    for keyword in [keyword for keyword in node.schema if keyword not in kept]:
        if keyword == "type":
            node.lose("type", "replaced by anyOf")
        else:
            node.describe(keyword)


def make_union(schemas: list[JsonSchema]) -> JsonSchema:
    """Return a new schema that takes what any of `schemas` takes."""
    distinct = {as_json(schema): schema for schema in reversed(schemas)}  # as text, because 1 == True
    copies = [copy_value(schema) for schema in reversed(distinct.values())]
    return copies[0] if len(copies) == 1 else {"anyOf": copies}


def _type_the_enum(node: Node) -> None:
    values = node.schema.get("enum")
    if not values or "type" in node.schema or "anyOf" in node.schema:
        return
    grouped: dict[str, list[Any]] = {}
    for value in values:
        grouped.setdefault(json_type(value), []).append(value)
    if "number" in grouped and "integer" in grouped:
        grouped["number"] = [value for value in values if json_type(value) in ("number", "integer")]
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
    places = schema.get("prefixItems")
    items = schema.get("items")
    if items is False:
        schema["maxItems"] = min(schema.get("maxItems", len(places or ())), len(places or ()))
    if not isinstance(items, dict):
        schema.pop("items", None)
    if places and "items" not in schema:
        schema["items"] = make_union(places) if schema.get("maxItems", len(places) + 1) <= len(places) else {}
    if "array" in types_of(schema):
        schema.setdefault("items", {})


ANSWER_PROPERTY = "answer"
"""The one property that wraps a schema that is not an object."""


def make_object_root(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """Return a copy with an object at its root: alternatives are merged into one, another type is wrapped."""
    schema = dereference_root(schema)
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = [
            dereference_root({"$defs": schema.get("$defs", {}), **branch}) for branch in schema.get(keyword, ())
        ]
        if branches and all(_is_object(branch, schema) for branch in branches):
            schema = _merge_branches(schema, keyword, branches, losses)
    if not _is_object(schema, {}) or {"allOf", "anyOf", "oneOf", "$ref"} & set(schema):
        return wrap_answer(schema, losses)
    for keyword in ("enum", "const", "not"):
        if keyword in schema:
            losses.append(Loss(ROOT, keyword, schema.pop(keyword), VALIDATED))
    return {**schema, "type": "object", "properties": schema.get("properties", {})}


def make_answer_root(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """Return a copy with an object at its root; alternatives and other types are wrapped unchanged."""
    schema = dereference_root(schema)
    if schema.get("type") == "object" and not {"allOf", "anyOf", "oneOf", "enum", "const", "not"} & set(schema):
        return {**schema, "properties": schema.get("properties", {})} if _is_closed(schema) else schema
    return wrap_answer(schema, losses)


def wrap_answer(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """Return an object with the one required property "answer", which is `schema`."""
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    losses.append(Loss(ROOT, "type", schema.get("type"), f"replaced by an object with the property {ANSWER_PROPERTY}"))
    root: JsonSchema = {"type": "object", "properties": {ANSWER_PROPERTY: inner}, "required": [ANSWER_PROPERTY]}
    root["additionalProperties"] = False
    return {**root, "$defs": schema["$defs"]} if "$defs" in schema else root


def _is_closed(schema: JsonSchema) -> bool:
    return schema.get("additionalProperties", True) is False


def _is_object(schema: JsonSchema, around: JsonSchema) -> bool:
    is_implied = "properties" in schema or (around.get("type") == "object" and "required" in schema)
    return schema.get("type", "object" if is_implied else None) == "object"


def _merge_branches(schema: JsonSchema, keyword: str, branches: list[JsonSchema], losses: list[Loss]) -> JsonSchema:
    """Return the root and its branches as one object; an alternative's property is required if all require it."""
    own = {key: value for key, value in schema.items() if key not in (keyword, "discriminator")}
    every = keyword == "allOf"
    properties: dict[str, list[JsonSchema]] = {}
    for part in (own, *branches):
        for name, inner in part.get("properties", {}).items():
            properties.setdefault(name, []).append(inner)
    required = [set(branch.get("required", ())) for branch in branches]
    needed = set().union(*required) if every else set.intersection(*required)
    closed = all(_is_closed(branch) for branch in branches) and (_is_closed(own) or "properties" not in own)
    losses.append(Loss(ROOT, keyword, schema[keyword], "description" if not every else "replaced by properties"))
    if "discriminator" in schema:
        losses.append(Loss(ROOT, "discriminator", schema["discriminator"], "dropped: the alternatives are merged"))
    for branch in branches:
        lost = set(branch) - {"type", "properties", "required", "additionalProperties", "description", "title", "$defs"}
        losses.extend(Loss(ROOT, key, branch[key], VALIDATED) for key in sorted(lost))
    texts = [own.get("description", ""), *([] if every else [_describe_alternatives(branches)])]
    merged: JsonSchema = {
        **own,
        "type": "object",
        "properties": {name: _unite(found, every) for name, found in properties.items()},
        "required": [name for name in properties if name in needed | set(own.get("required", ()))],
    }
    if text := "\n".join(filter(None, texts)):
        merged["description"] = text
    merged.pop("additionalProperties", None)
    return {**merged, "additionalProperties": False} if closed else merged


def _unite(found: list[JsonSchema], every: bool) -> JsonSchema:
    together = make_union(found)
    return {"allOf": together["anyOf"]} if every and len(found) > 1 and set(together) == {"anyOf"} else together


def _describe_alternatives(branches: list[JsonSchema]) -> str:
    """Return the ways to give the arguments, each with its names; optional ones in brackets."""

    def names(branch: JsonSchema) -> str:
        required: list[str] = branch.get("required", [])
        optional = [f"[{name}]" for name in branch.get("properties", {}) if name not in required]
        return ", ".join([*required, *optional]) or "nothing"

    text = "either " + " or ".join(map(names, branches))
    return text if len(text) <= MAX_KEYWORD_CHARS else f"{text[: MAX_KEYWORD_CHARS - 1]}…"


_TIGHTER: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}


def flatten(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """Return a copy of `schema` in which each `allOf` that can be one schema is one; losses are appended to `losses`.

    Alternatives that narrow an object with properties of its own go into its description; tuples have `items`.
    """
    return rewrite(
        schema,
        losses,
        _merge_all_of,
        _describe_unions,
        lambda node: give_items(node.schema),
        sealed=CONDITIONS - {"prefixItems"},
    )


def _merge_all_of(node: Node) -> None:
    """Merge the parts of `allOf` into the schema around it; leave them where they contradict each other."""
    merged: JsonSchema | None = {key: value for key, value in node.schema.items() if key != "allOf"}
    for part in node.schema.get("allOf", ()):
        merged = _intersect(merged, part) if merged is not None else None
    if merged is not None and "allOf" in node.schema:
        node.lose("allOf", "replaced by its parts")
        node.schema.clear()
        node.schema.update(merged)


def _describe_unions(node: Node) -> None:
    for keyword in [keyword for keyword in ("anyOf", "oneOf") if keyword in node.schema]:
        if {"enum", "const"} & set(node.schema):
            node.lose(keyword, LISTED)
        elif "properties" in node.schema:
            node.describe(keyword)


def _intersect(left: JsonSchema, right: JsonSchema) -> JsonSchema | None:
    """Return one schema that takes what both take; None if one schema cannot express that."""
    if any("$ref" in part and set(other) - {"description"} for part, other in ((left, right), (right, left))):
        return None
    merged: dict[str, Any] = dict(left)
    closed = {part.get("additionalProperties", True) is False for part in (left, right) if "properties" in part}
    if len(closed) > 1:
        return None
    for key, value in right.items():
        if key not in merged or merged[key] == value:
            merged[key] = value
        elif key in _TIGHTER:
            merged[key] = _TIGHTER[key](merged[key], value)
        elif key == "required":
            merged[key] = [*merged[key], *(name for name in value if name not in merged[key])]
        elif key == "properties" and all(merged[key].get(name, inner) == inner for name, inner in value.items()):
            merged[key] = {**merged[key], **value}
        elif key == "description":
            merged[key] = f"{merged[key]} ({value})"
        else:
            return None
    return merged


MAX_RECURSION_LEVELS = 3
"""How many levels of a type that contains itself are shown."""
MAX_UNROLLED_SCHEMAS = 2_000
"""How many schemas a schema may have with its references followed; else fewer levels are: each multiplies the size."""
_KEYWORDS_OF_TYPE = {
    "string": ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "object": ("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
}
"""The keywords that apply to values of one type only."""


def unroll(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """Return a copy in which references are followed for up to three levels, and lists of types are an `anyOf`.

    Deeper levels are any object (or any value, if the type is not an object); losses are appended to `losses`.
    """
    definitions = schema.get("$defs", {})
    root = {key: value for key, value in schema.items() if key != "$defs"}

    @cache
    def count_target(name: str, levels: int) -> int:
        return count(definitions[name], levels - 1)

    def count(node: JsonSchema, levels: int) -> int:
        reference = node.get("$ref")
        target = count_target(reference.removeprefix(PREFIX), levels) if levels and isinstance(reference, str) else 1
        return target + sum(count(inner, levels) for _, inner in iter_children(node))

    most = next((it for it in range(MAX_RECURSION_LEVELS, 0, -1) if count(root, it) <= MAX_UNROLLED_SCHEMAS), 0)

    def follow(node: JsonSchema, path: str, levels: int = most) -> JsonSchema:
        reference = node.get("$ref")
        if not isinstance(reference, str):
            spread = _split_types(node, path, losses)
            return map_schemas(spread, path, partial(follow, levels=levels))
        beside = {key: value for key, value in node.items() if key != "$ref"}
        name = reference.removeprefix(PREFIX)
        target = definitions[name]
        if levels:
            return follow({**target, **beside}, path, levels - 1)
        losses.append(Loss(path, "$ref", reference, f"dropped: {name} is followed to depth {most}"))
        kind: dict[str, Any] = {"type": "object"} if target.get("type") == "object" else {}
        return {**kind, "description": f"another {name}", **beside}

    return follow(root, ROOT)


def _split_types(node: JsonSchema, path: str, losses: list[Loss]) -> JsonSchema:
    kinds = node.get("type")
    if not isinstance(kinds, list) or len(set(kinds) - {"null"}) < 2 or {"anyOf", "oneOf", "enum", "const"} & set(node):
        return node
    losses.append(Loss(path, "type", list(kinds), "replaced by anyOf"))
    owned = {"type"}.union(*(_KEYWORDS_OF_TYPE.get(kind, ()) for kind in kinds))
    branches = [
        {"type": kind} | {key: node[key] for key in _KEYWORDS_OF_TYPE.get(kind, ()) if key in node} for kind in kinds
    ]
    return {key: value for key, value in node.items() if key not in owned} | {"anyOf": branches}
