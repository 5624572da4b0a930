"""Gemini's function declarations: a subset of OpenAPI's schema; what it cannot express goes into the description.

Sources: Gemini API reference, `FunctionDeclaration` and `Schema`: the parser refuses unknown keywords (pizza-bot#62,
CLIProxyAPI#97) and lists of types (aoci-code#61), an enum is for strings only (decolua/9router#359) and has no empty
entry (ha-claude#32), an array needs `items`, every schema a type (inspect_ai#3097), on Vertex nothing stands beside
`anyOf` (langchain-google#1216), parameters are `[A-Za-z_][A-Za-z0-9_]{0,63}`, an object at the root has properties
(pipecat-flows#110).  `default` is accepted and ignored, so it is described in words.  litellm passes this form on
unchanged when it is wrapped as an OpenAI tool.
"""

import re
from math import ceil, floor

from ..walk import JsonSchema, inline
from .declaration import (
    CONDITIONS,
    LISTED,
    VALIDATED,
    Declaration,
    Loss,
    Node,
    RenderedTool,
    alias_names,
    as_json,
    describe_keyword,
    rewrite,
)
from .structure import flatten, make_object_root, make_portable, strip_beside_any_of, types_of, unroll

GEMINI_PROPERTY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def to_gemini(declaration: Declaration) -> RenderedTool:
    """Return the function declaration, with types in lower case; a function without parameters has no `parameters`.

    Enum values that are not strings are written as the strings of their JSON: 1 as "1", true as "true".
    """
    losses: list[Loss] = []
    root = flatten(unroll(make_object_root(inline(declaration.parameters), losses), losses), losses)
    root, aliases = alias_names(root, GEMINI_PROPERTY_NAME, losses)
    schema = replace_null(rewrite(root, losses, *GEMINI_CHANGES, sealed=CONDITIONS | {"additionalProperties", "allOf"}))
    description = declaration.description
    parameters = {"parameters": schema} if schema.get("properties") else {}
    if not parameters and "description" in schema:  # the only place left, for a tool with open keys
        description = f"{description}\n\nArguments: {schema['description']}".strip()
    text = {"description": description} if description else {}
    return RenderedTool({"name": declaration.name, **text, **parameters}, tuple(losses), aliases)


GEMINI_KEYWORDS = frozenset({
    "type", "format", "description", "nullable", "enum", "items", "properties", "required", "minItems", "maxItems",
    "minLength", "maxLength", "minProperties", "maxProperties", "minimum", "maximum", "pattern", "anyOf",
})  # fmt: skip
GEMINI_FORMATS = frozenset({"enum", "date-time"})
_NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TYPE_OF_KEYWORD = {
    "properties": "object", "required": "object", "items": "array", "prefixItems": "array", "pattern": "string",
    "minLength": "string", "maxLength": "string", "minimum": "number", "maximum": "number",
}  # fmt: skip


def build_any_value() -> list[JsonSchema]:
    """Return the alternatives of any value, for a parser that requires types."""
    kinds: list[JsonSchema] = [{"type": kind, "nullable": True} for kind in ("string", "number", "boolean", "object")]
    return [*kinds, {"type": "array", "items": {"type": "string"}, "nullable": True}]


def replace_null(schema: JsonSchema) -> JsonSchema:
    """Return `schema`, or a nullable string in place of one that takes only null: Gemini has no such type."""
    if schema.get("type") != "null":
        return schema
    return {"type": "string", "nullable": True, "description": schema.get("description", "always null")}


def _write_enum_as_strings(node: Node) -> None:
    """Write enum values as strings: 1 as "1", true as "true"; null becomes nullable, "" goes into the description."""
    schema = node.schema
    if "const" in schema:
        schema["enum"] = [node.lose("const", "replaced by enum")]
    values = schema.get("enum")
    if not values:
        return
    for keyword in ("format", "prefixItems", "items", *_NUMERIC):
        if keyword in schema:
            node.lose(keyword, LISTED)
    if None in values or "null" in types_of(schema):
        schema["nullable"] = True
    if "" in values:
        node.add_note('or ""')
    rest = [value for value in values if value not in (None, "")]
    texts = list(dict.fromkeys(value if isinstance(value, str) else as_json(value) for value in rest))
    if not rest:
        node.lose("enum", "replaced by nullable" if "" not in values else "description")
        schema["type"] = "string" if "" in values else "null"
        return
    if texts != rest:
        node.lose("enum", "replaced by enum of strings")
        if set(types_of(schema)) - {"string", "null"}:
            node.lose("type", "replaced by enum of strings")
    elif texts != values:
        node.lose("enum", "replaced by enum and nullable" if "" not in values else "description")
    schema |= {"type": "string", "enum": texts, "format": "enum"}


def _choose_single_type(node: Node) -> None:
    """Leave one type: `[T, null]` becomes nullable T; a missing type is derived from other keywords."""
    schema = node.schema
    kinds = types_of(schema)
    if "allOf" in schema:
        kinds = kinds or list(dict.fromkeys(kind for part in schema["allOf"] for kind in types_of(part)))[:1]
        schema |= {"type": kinds[0]} if kinds else {}
        node.describe("allOf")
    rest = [kind for kind in kinds if kind != "null"]
    if len(kinds) > len(rest) and rest:
        schema["nullable"] = True
        schema["type"] = rest[0]
    if not kinds and "anyOf" not in schema:
        hints = [kind for keyword, kind in _TYPE_OF_KEYWORD.items() if keyword in schema]
        if hints:
            schema["type"] = hints[0]
        else:
            schema["anyOf"] = build_any_value()


def _make_bounds_inclusive(node: Node) -> None:
    """Replace a bound that excludes its value by the next integer, or describe it."""
    schema = node.schema
    for exclusive, inclusive, tighter, sign in (
        ("exclusiveMinimum", "minimum", max, 1),
        ("exclusiveMaximum", "maximum", min, -1),
    ):
        if exclusive not in schema:
            continue
        bound = schema[exclusive]
        if schema.get("type") == "integer":
            node.lose(exclusive, f"replaced by {inclusive}")
            bound = floor(bound) + 1 if sign > 0 else ceil(bound) - 1
        else:
            node.describe(exclusive)
        if inclusive in schema and tighter(schema[inclusive], bound) != schema[inclusive]:
            node.lose(inclusive, "dropped: the other bound is tighter")
        schema[inclusive] = tighter(schema.get(inclusive, bound), bound)


def _complete_containers(node: Node) -> None:
    schema = node.schema
    if schema.get("type") == "array":
        schema["items"] = replace_null(schema.get("items") or {"anyOf": build_any_value()})
    if schema.get("additionalProperties") is False:
        node.lose("additionalProperties", VALIDATED)
    properties = schema.get("properties")
    if properties:
        schema["properties"] = {name: replace_null(inner) for name, inner in properties.items()}
    elif properties is not None:
        del schema["properties"]
    required = schema.get("required", [])
    if missing := [name for name in required if name not in (properties or {})]:
        node.report("required", missing, VALIDATED)
    schema["required"] = [name for name in required if name in (properties or {})]
    if not schema["required"]:
        del schema["required"]


def _describe_unsupported(node: Node) -> None:
    """Move all keywords that the dialect does not know into the description."""
    schema = node.schema
    if schema.get("default", "") is None and any(map(_takes_null, (schema, *schema.get("anyOf", ())))):
        node.lose("default", "replaced by nullable")
    if schema.get("format", "enum") not in GEMINI_FORMATS or (schema.get("type") != "string" and "format" in schema):
        node.describe("format")
    for keyword in [keyword for keyword in schema if keyword not in GEMINI_KEYWORDS]:
        node.describe(keyword)


def _isolate_any_of(node: Node) -> None:
    """Leave `anyOf` alone: null becomes nullable, a single alternative is merged, text goes into the first branch."""
    schema = node.schema
    if "anyOf" not in schema:
        return
    flat: list[JsonSchema] = []
    for branch in schema["anyOf"]:
        flat.extend(branch.get("anyOf", [branch]))
    nullable = schema.get("nullable", False) or any(_takes_null(branch) for branch in flat)
    real = [branch for place, branch in enumerate(flat) if branch.get("type") != "null" and branch not in flat[:place]]
    for branch in flat:
        if branch.get("type") == "null" and "description" in branch:
            node.add_note(branch["description"])
    if not real:
        del schema["anyOf"]
        schema["type"] = "null"
        return
    if len(real) == 1:
        _replace_by_branch(node, real[0])
        if nullable:
            schema["nullable"] = True
        return
    strip_beside_any_of(node, {"anyOf", "nullable", "description"})
    if text := schema.get("description"):
        first = real[0].get("description")
        real[0]["description"] = f"{text} ({first})" if first and first not in text else text
    schema.clear()
    schema["anyOf"] = [{**branch, "nullable": True} if nullable else branch for branch in real]


def _takes_null(branch: JsonSchema) -> bool:
    return branch.get("type") == "null" or bool(branch.get("nullable"))


def _replace_by_branch(node: Node, branch: JsonSchema) -> None:
    """Merge the only alternative into the schema around it."""
    schema = node.schema
    del schema["anyOf"]
    schema.pop("type", None)
    if text := branch.get("description"):
        node.add_note(text)
    for key, value in branch.items():
        if key in schema and key != "description" and schema[key] != value:
            node.add_note(describe_keyword(key, schema[key]))
            node.report(key, schema[key], "description")
        if key != "description":
            schema[key] = value


GEMINI_CHANGES = (
    _write_enum_as_strings,
    make_portable,
    _choose_single_type,
    _make_bounds_inclusive,
    _complete_containers,
    _describe_unsupported,
    _isolate_any_of,
)
"""The changes that turn one schema into Gemini's dialect, in this order."""
