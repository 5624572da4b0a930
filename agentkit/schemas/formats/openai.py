"""OpenAI's APIs, and providers that copied them: chat completions, its strict mode, Responses, structured outputs.

Sources: OpenAI API reference, chat completions (`tools`, `response_format`) and responses (`tools`); guides "Function
calling" (strict mode) and "Structured model outputs".

In the strict dialect the provider makes the model write arguments that fit the schema.  Source: guide "Structured model
outputs", Supported schemas (2026): types string, number, boolean, integer, object, array, enum, anyOf; every property
required, optional ones a union with null; `additionalProperties: false` on every object; recursion by `#/$defs/X`;
`pattern` and nine formats on strings, bounds on numbers, minItems and maxItems on arrays.  Nothing may stand beside a
`$ref` (langchainjs#11381); a schema without a type is refused (camel-ai#3001).  At most 5,000 properties, 10 levels of
objects, 1,000 enum values, 120,000 characters of names and values, and 15,000 characters in one enum of more than 250
values.
"""

import re
from functools import partial
from typing import Any

from ..walk import JsonSchema, iter_children, iter_schemas
from .declaration import CONDITIONS, ROOT, VALIDATED, Declaration, Loss, Node, RenderedTool, rewrite
from .structure import flatten, make_answer_root, make_object_root, make_portable, strip_beside_any_of, types_of

STRICT_KEYWORDS = frozenset({
    "type", "description", "enum", "anyOf", "properties", "required", "additionalProperties", "items", "minItems",
    "maxItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "format", "$ref",
    "$defs",
})  # fmt: skip
STRICT_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
BESIDE_ANY_OF = frozenset({"anyOf", "description", "$defs"})
FOREIGN_PATTERN = re.compile(r"\(\?(?!:)|\\[1-9AZzGKk]|[*+?}]\+")
"""Look-around, named and atomic groups, back-references, Python's anchors, possessive quantifiers."""


def make_strict(root: JsonSchema, losses: list[Loss]) -> tuple[JsonSchema, bool]:
    """Return `root` (an object) in the strict dialect and True; if that is impossible, in the portable form and False.

    Losses are appended to `losses`; if the schema is not strict, each reason is a loss of the keyword "strict".
    """
    found: list[Loss] = []
    obstacles: list[Loss] = []
    schema = rewrite(
        flatten(root, found), found, make_portable, partial(_rewrite_strict, obstacles=obstacles), sealed=CONDITIONS
    )
    if not obstacles and (reason := find_exceeded_limit(schema)):
        obstacles.append(_obstacle(ROOT, reason))
    if not obstacles:
        losses.extend(found)
        return schema, True
    losses.extend(obstacles)
    return rewrite(root, losses, make_portable), False


def make_nullable(schema: JsonSchema) -> JsonSchema:
    """Return the same schema with null."""
    kinds = types_of(schema)
    if "null" in kinds or any("null" in types_of(branch) for branch in schema.get("anyOf", ())):
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "$ref" in schema or {"object", "array"} & set(kinds):
        text = {"description": schema["description"]} if "description" in schema else {}
        inner = {key: value for key, value in schema.items() if key != "description"}
        return {"anyOf": [inner, {"type": "null"}], **text}
    enum = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [*kinds, "null"], **enum}


def _obstacle(path: str, reason: str) -> Loss:
    return Loss(path, "strict", True, f"dropped: {reason}")


def _rewrite_strict(node: Node, obstacles: list[Loss]) -> None:
    schema = node.schema
    if "allOf" in schema:
        obstacles.append(_obstacle(node.path, "allOf that cannot be merged"))
    kinds = types_of(schema)
    if reason := _find_openness(node, kinds):
        obstacles.append(_obstacle(node.path, reason))
    for keyword in [keyword for keyword in schema if keyword not in STRICT_KEYWORDS]:
        if keyword == "default" and schema["default"] is None:
            node.lose("default", "replaced by null")
        else:
            node.describe(keyword)
    if schema.get("format", "date") not in STRICT_FORMATS:
        node.describe("format")
    if FOREIGN_PATTERN.search(schema.get("pattern", "")):
        node.describe("pattern")
    if "anyOf" in schema:
        strip_beside_any_of(node, BESIDE_ANY_OF)
    if "object" in kinds and "anyOf" not in schema:
        _close_object(node)
    if "$ref" in schema and len(schema) > 1:
        schema["anyOf"] = [{"$ref": schema.pop("$ref")}]


def _find_openness(node: Node, kinds: list[str]) -> str:
    """Return why this schema takes values of unknown shape; "" if it does not."""
    schema = node.schema
    listed = [value for part in (schema, *schema.get("anyOf", ())) for value in part.get("enum", ())]
    if any(isinstance(value, list | dict) for value in listed):
        return "an enum of lists or objects"
    if "object" in kinds and "anyOf" not in schema:
        if schema.get("unevaluatedProperties") is False:
            node.lose("unevaluatedProperties", "replaced by additionalProperties")
            schema.setdefault("additionalProperties", False)
        if (
            schema.get("patternProperties")
            or schema.get("additionalProperties", "properties" not in schema) is not False
        ):
            return "the keys of an open mapping cannot be listed"
    if "array" in kinds and schema.get("items") == {}:
        return "items of any type"
    if not kinds and not {"anyOf", "$ref"} & set(schema):
        return "a value of any type"
    return ""


def _close_object(node: Node) -> None:
    schema = node.schema
    properties: dict[str, Any] = schema.setdefault("properties", {})
    required = set(schema.get("required", ()))
    if missing := sorted(required - set(properties)):
        node.report("required", missing, VALIDATED)
    for name in properties:
        if name not in required:
            properties[name] = make_nullable(properties[name])
    schema["required"] = list(properties)
    schema["additionalProperties"] = False


MAX_PROPERTIES = 5000
MAX_STRICT_LEVELS = 10
MAX_ENUM_VALUES = 1000
MAX_NAME_CHARS = 120_000
LONG_ENUM_VALUES = 250
MAX_LONG_ENUM_CHARS = 15_000


def find_exceeded_limit(schema: JsonSchema) -> str:
    """Return which limit `schema` exceeds, in words; "" if it exceeds no limit."""
    nodes = list(iter_schemas(schema))
    names = [name for node in nodes for key in ("properties", "$defs") for name in node.get(key, ())]
    enums = [[str(value) for value in node["enum"]] for node in nodes if "enum" in node]
    values = [value for enum in enums for value in enum]
    properties = sum(len(node.get("properties", ())) for node in nodes)
    lengths = [sum(map(len, enum)) for enum in enums if len(enum) > LONG_ENUM_VALUES]
    depth = count_levels(schema, schema.get("$defs", {}))
    for count, limit, what in (
        (properties, MAX_PROPERTIES, "properties"),
        (depth, MAX_STRICT_LEVELS, "levels of objects"),
        (len(values), MAX_ENUM_VALUES, "enum values"),
        (sum(map(len, names)) + sum(map(len, values)), MAX_NAME_CHARS, "characters of names and values"),
        (max(lengths, default=0), MAX_LONG_ENUM_CHARS, f"characters in an enum of more than {LONG_ENUM_VALUES} values"),
    ):
        if count > limit:
            return f"{count} {what}, {limit} are allowed"
    return ""


def count_levels(schema: JsonSchema, definitions: dict[str, JsonSchema]) -> int:
    """Return how many objects lie inside each other; a type that contains itself counts once."""
    known: dict[str, int] = {}

    def count(node: JsonSchema) -> int:
        deepest = max((count(part) for place, part in iter_children(node) if place[0] != "$defs"), default=0)
        if isinstance(reference := node.get("$ref"), str):
            if reference not in known:
                known[reference] = 0
                known[reference] = count(definitions[reference.removeprefix("#/$defs/")])
            deepest = max(deepest, known[reference])
        return deepest + ("properties" in node)

    return count(schema)


def to_openai(declaration: Declaration) -> RenderedTool:
    """Return the function tool of chat completions, not strict: `{"type": "function", "function": {...}}`."""
    losses: list[Loss] = []
    schema = rewrite(make_object_root(declaration.parameters, losses), losses, make_portable)
    return RenderedTool(
        {"type": "function", "function": build_function_fields(declaration, schema, losses)}, tuple(losses)
    )


MAX_FUNCTION_DESCRIPTION_CHARS = 1024
"""The longest description of a function; more is an error (getsentry/sentry-mcp#106, OpenHands#7167)."""


def build_strict_fields(declaration: Declaration) -> tuple[dict[str, Any], list[Loss]]:
    """Return the fields of a function, strict if possible, and its losses."""
    losses: list[Loss] = []
    schema, is_strict = make_strict(make_object_root(declaration.parameters, losses), losses)
    return {**build_function_fields(declaration, schema, losses), "strict": is_strict}, losses


def build_function_fields(declaration: Declaration, schema: JsonSchema, losses: list[Loss]) -> dict[str, Any]:
    """Return `name`, `description` and `parameters`; the end of a long description goes into that of the schema."""
    text, rest = _split_description(declaration.description)
    if rest:
        own = schema.pop("description", "")
        schema = {"description": f"{rest}\n\n{own}" if own else rest, **schema}
        losses.append(Loss("", "description", rest, "parameters.description"))
    described = {"description": text} if text else {}
    return {"name": declaration.name, **described, "parameters": schema}


def _split_description(text: str) -> tuple[str, str]:
    """Return `text` in two parts, the first at most 1,024 characters; split between paragraphs, sentences or words."""
    if len(text) <= MAX_FUNCTION_DESCRIPTION_CHARS:
        return text, ""
    for border in (r"\n\s*\n", r"(?<=[.!?])\s", r"\s"):
        ends = [match.start() for match in re.finditer(border, text[: MAX_FUNCTION_DESCRIPTION_CHARS + 1])]
        if ends and ends[-1] > MAX_FUNCTION_DESCRIPTION_CHARS // 2:
            return text[: ends[-1]], text[ends[-1] :].strip()
    return text[:MAX_FUNCTION_DESCRIPTION_CHARS], text[MAX_FUNCTION_DESCRIPTION_CHARS:]


def to_openai_strict(declaration: Declaration) -> RenderedTool:
    """Return the strict function tool: a provider makes the model write arguments that fit the schema.

    A tool that cannot be strict has `strict: false`, and a loss "strict" for each reason.
    """
    fields, losses = build_strict_fields(declaration)
    return RenderedTool({"type": "function", "function": fields}, tuple(losses))


def to_response_format(declaration: Declaration) -> RenderedTool:
    """Return the structured output of chat completions whose object is `parameters`: the form of an answer, not a tool.

    A type that is not an object, or a union of objects, is wrapped: the model answers `{"answer": ...}`, and a loss of
    the keyword "type" at `parameters` reports it.  A type that cannot be strict has `strict: false`, with losses.
    """
    losses: list[Loss] = []
    schema, is_strict = make_strict(make_answer_root(declaration.parameters, losses), losses)
    text = {"description": declaration.description} if declaration.description else {}
    form = {"name": declaration.name, **text, "strict": is_strict, "schema": schema}
    return RenderedTool({"type": "json_schema", "json_schema": form}, tuple(losses))


def to_responses(declaration: Declaration) -> RenderedTool:
    """Return the function tool of the Responses API: flat, strict if possible.

    `strict` is always present: the API takes a missing one for true.  A tool that cannot be strict has losses.
    """
    fields, losses = build_strict_fields(declaration)
    return RenderedTool({"type": "function", **fields}, tuple(losses))
