"""The providers' published rules as checks: each function gives the findings, an empty list is a pass.

Written from the documents named with each, without a look at agentkit/formats.
"""

import re

from jsonschema import Draft202012Validator

PARTS = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems")
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
MAPS = ("properties", "patternProperties", "$defs", "dependentSchemas")


def every_schema(schema, path="$"):
    """All schemas in a schema, with their paths."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key in PARTS:
        yield from every_schema(schema.get(key), f"{path}.{key}")
    for key in LISTS:
        for place, inner in enumerate(schema.get(key, ())):
            yield from every_schema(inner, f"{path}.{key}[{place}]")
    for key in MAPS:
        for name, inner in schema.get(key, {}).items():
            yield from every_schema(inner, f"{path}.{key}[{name}]")


def kinds(schema):
    given = schema.get("type", [])
    return {given} if isinstance(given, str) else set(given)


def json_schema(schema):
    """Draft 2020-12; titles are dropped; references lead somewhere."""
    Draft202012Validator.check_schema(schema)
    for path, part in every_schema(schema):
        if isinstance(part.get("title"), str):
            yield f"{path}: title"
        if "$ref" in part and part["$ref"].removeprefix("#/$defs/") not in schema.get("$defs", {}):
            yield f"{path}: {part['$ref']} leads nowhere"


def openai(tool):
    """OpenAI API reference, FunctionDefinition; langchainjs#9804 (root); fastcore#798 (items); sentry-mcp#106 (1024)."""
    function = tool.get("function", tool)
    assert tool["type"] == "function"
    yield from openai_parameters(function["parameters"])
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"]):
        yield "name"
    if len(function.get("description", "")) > 1024:
        yield "description longer than 1024"


def openai_parameters(schema):
    yield from json_schema(schema)
    if schema.get("type") != "object" or "properties" not in schema:
        yield "the root is no object with properties"
    yield from (f"{key} at the root" for key in {"oneOf", "anyOf", "allOf", "enum", "const", "not"} & set(schema))
    for path, part in every_schema(schema):
        if "array" in kinds(part) and not isinstance(part.get("items"), dict):
            yield f"{path}: an array without items"


STRICT_KEYWORDS = {
    "type", "description", "enum", "anyOf", "$ref", "$defs", "pattern", "format", "multipleOf", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "items", "minItems", "maxItems", "properties", "required",
    "additionalProperties",
}  # fmt: skip
STRICT_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def openai_strict(schema):
    """OpenAI guide "Structured model outputs", Supported schemas; camel-ai#3001 (type), langchainjs#11381 ($ref)."""
    yield from openai_parameters(schema)
    names = values = 0
    texts = []
    for path, part in every_schema(schema):
        yield from (f"{path}: {key}" for key in set(part) - STRICT_KEYWORDS)
        if not {"type", "anyOf", "$ref"} & set(part):
            yield f"{path}: no type"
        if "$ref" in part and len(part) > 1:
            yield f"{path}: siblings of $ref"
        if "anyOf" in part and set(part) - {"anyOf", "description", "$defs"}:
            yield f"{path}: siblings of anyOf"
        if "object" in kinds(part):
            if part.get("additionalProperties") is not False:
                yield f"{path}: open"
            if sorted(part.get("required", [])) != sorted(part.get("properties", {})):
                yield f"{path}: not all required"
        if part.get("format", "date") not in STRICT_FORMATS:
            yield f"{path}: format {part['format']}"
        if re.search(r"\(\?[=!<]", part.get("pattern", "")):
            yield f"{path}: look-around"
        names += len(part.get("properties", {}))
        values += len(part.get("enum", ()))
        texts += [*part.get("properties", {}), *part.get("$defs", {}), *map(str, part.get("enum", ()))]
        if len(part.get("enum", ())) > 250 and sum(len(str(value)) for value in part["enum"]) > 15000:
            yield f"{path}: enum too long"
    if names > 5000 or values > 1000 or sum(map(len, texts)) > 120_000:
        yield "too large"
    if depth(schema, schema.get("$defs", {}), ()) > 10:
        yield "too deep"


def depth(schema, definitions, seen):
    own = 1 if "object" in kinds(schema) else 0
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items", {})]
    if "$ref" in schema and schema["$ref"] not in seen:
        return depth(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions, (*seen, schema["$ref"]))
    return own + max((depth(part, definitions, seen) for part in inner if part), default=0)


GEMINI_KEYWORDS = {
    "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
    "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf", "propertyOrdering",
    "default", "items", "minimum", "maximum",
}  # fmt: skip


def gemini(declaration):
    """Gemini API reference, Schema and FunctionDeclaration; facts/schema.md 3, [8] to [13]; litellm.md 3.2."""
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", declaration["name"]):
        yield "name"
    yield from (key for key in set(declaration) - {"name", "description", "parameters"})
    schema = declaration.get("parameters")
    if schema is None:
        return
    if schema.get("type") != "object" or not schema.get("properties"):
        yield "the root is no object with properties"
    for path, part in every_schema(schema):
        yield from (f"{path}: {key} is unknown" for key in set(part) - GEMINI_KEYWORDS)
        if "anyOf" in part:
            if set(part) != {"anyOf"} or len(part["anyOf"]) < 2:
                yield f"{path}: anyOf with {sorted(part)}"
        elif part.get("type") not in ("string", "number", "integer", "boolean", "array", "object"):
            yield f"{path}: type {part.get('type')}"
        yield from gemini_schema(path, part)


def gemini_schema(path, part):
    if "enum" in part and (part["type"] != "string" or not all(isinstance(v, str) and v for v in part["enum"])):
        yield f"{path}: enum {part['enum']}"
    if part.get("format") == "enum" and not part.get("enum"):
        yield f"{path}: format enum without one"
    if part.get("format", "enum") not in ("enum", "date-time"):
        yield f"{path}: format {part['format']} is dropped by litellm"
    if part.get("type") == "array" and not part.get("items"):
        yield f"{path}: an array without items"
    if set(part.get("required", ())) - set(part.get("properties", {})):
        yield f"{path}: required without property"
    for name in part.get("properties", {}):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
            yield f"{path}: property {name!r}"


def anthropic(tool):
    """Anthropic API reference, tools; claude-code#40075 (root), claude-code#79418 and composio#3500 (keys)."""
    if set(tool) - {"name", "description", "input_schema"} or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"]):
        yield f"envelope {sorted(tool)}"
    schema = tool["input_schema"]
    yield from json_schema(schema)
    if schema.get("type") != "object":
        yield "the root is no object"
    yield from (f"{key} at the root" for key in {"oneOf", "anyOf", "allOf"} & set(schema))
    for path, part in every_schema(schema):
        for name in part.get("properties", {}):
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
                yield f"{path}: property {name!r}"


def mcp(tool):
    """MCP specification 2025-11-25, server/tools, Tool."""
    if set(tool) - {"name", "description", "inputSchema"}:
        yield f"envelope {sorted(tool)}"
    yield from json_schema(tool["inputSchema"])
    if tool["inputSchema"].get("type") != "object":
        yield "the root is no object"


def plain(schema):
    """JSON Schema, draft 2020-12, without titles."""
    yield from json_schema(schema)


def strict_tool(tool):
    """Strict rules where the tool says that it is strict, else the rules of any tool; Responses: strict is mandatory."""
    fields = tool.get("function", tool)
    yield from openai(tool)
    if not isinstance(fields["strict"], bool):
        yield "strict"
    if fields["strict"]:
        yield from openai_strict(fields["parameters"])


def response_format(form):
    """OpenAI API reference, ResponseFormatJSONSchema."""
    assert form["type"] == "json_schema"
    inner = form["json_schema"]
    if set(inner) - {"name", "description", "strict", "schema"}:
        yield f"envelope {sorted(inner)}"
    if inner["schema"].get("type") != "object":
        yield "the root is no object"
    yield from openai_strict(inner["schema"]) if inner["strict"] else json_schema(inner["schema"])


RULES = {
    "json": plain,
    "openai": openai,
    "openai_strict": strict_tool,
    "responses": strict_tool,
    "response_format": response_format,
    "anthropic": anthropic,
    "gemini": gemini,
    "mcp": mcp,
}


def parameters_of(format, schema):
    """The schema of the arguments within a format's envelope."""
    if format in ("openai", "openai_strict"):
        return schema["function"]["parameters"]
    if format == "response_format":
        return schema["json_schema"]["schema"]
    return (
        schema
        if format == "json"
        else schema.get({"anthropic": "input_schema", "mcp": "inputSchema"}.get(format, "parameters"), {})
    )
