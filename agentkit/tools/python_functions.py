"""Tools as typed Python functions, for a model that writes programs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .json_tool import JsonTool


def describe_functions(tools: Sequence[JsonTool[..., Any]]) -> Iterator[str]:
    """Yield the types that tools return, then the tools as functions."""
    classes: dict[str, str] = {}
    functions = [_describe_function(tool, classes) for tool in tools]
    yield from classes.values()
    yield from functions


def _describe_function(tool: JsonTool[..., Any], classes: dict[str, str]) -> str:
    """Return a tool as a typed function; its objects are added to `classes`."""
    schema = tool.parameters
    required = schema.get("required", ())
    definitions = schema.get("$defs", {})
    parameters = []
    texts = [tool.description.strip()]
    for name, entry in schema.get("properties", {}).items():
        typed = f"{name}: {_name_type(entry, definitions, classes, name)}"
        parameters.append(typed if name in required else f"{typed} = {entry.get('default')!r}")
        if text := entry.get("description"):
            texts.append(f"{name}: {text}")
    returned: Mapping[str, Any] = tool.output_schema or {}
    kind = _name_type(returned, returned.get("$defs", {}), classes, f"{tool.name}_result")
    if text := returned.get("description"):
        texts.append(f"Returns: {text}")
    text = "\n    ".join("\n".join(texts).splitlines())
    return f'async def {tool.name}({", ".join(parameters)}) -> {kind}:\n    """{text}"""'


_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def _name_type(schema: Any, definitions: Mapping[str, Any], classes: dict[str, str], name: str) -> str:
    """Return the Python type of a JSON Schema.

    Args:
        schema: The schema.
        definitions: Its `$defs`.
        classes: Gets a class for each object with known fields, by its name.
        name: The name of such a class, where the schema has no title.
    """
    if not isinstance(schema, dict):
        return "Any"
    if reference := schema.get("$ref"):
        key = str(reference).rpartition("/")[2]
        inside = {other: entry for other, entry in definitions.items() if other != key}  # a type in itself is Any
        return _name_type(definitions.get(key), inside, classes, key)
    if "const" in schema or "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema.get('enum', [schema.get('const')])))}]"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(_name_type(entry, definitions, classes, name) for entry in options))
    kind: Any = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_name_type({**schema, "type": one}, definitions, classes, name) for one in kind)
    if kind == "array":
        return f"list[{_name_type(schema.get('items'), definitions, classes, name)}]"
    if kind == "object" and (fields := schema.get("properties")):
        required = schema.get("required", ())
        lines = []
        for key, entry in fields.items():
            typed = _name_type(entry, definitions, classes, key)
            lines.append(f"{key}: {typed}" if key in required else f"{key}: NotRequired[{typed}]")
        title = "".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", schema.get("title") or name))
        while classes.setdefault(title, body := f"class {title}(TypedDict): {'; '.join(lines)}") != body:
            title += "_"
        return title
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_name_type(values, definitions, classes, name)}]" if isinstance(values, dict) else "dict"
    return _TYPES.get(kind or "", "Any")
