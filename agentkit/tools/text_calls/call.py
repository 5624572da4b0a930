"""A tool call in text: it needs the name of a known tool, and arguments that fit that tool."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..arguments.json_reader import InvalidJson, JsonReader
from ..arguments.schema_places import find_schemas, list_types
from ..arguments.tool_names import match_tool_name
from ..registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call of a known tool: its name, the arguments as JSON text, and the source text."""

    name: str
    arguments: str
    source: str


def make_call(name: Any, given: Any, source: str, tools: ToolRegistry) -> TextCall | None:
    """Return the call of the tool that `name` certainly means; None if there is no such tool.

    Args:
        name: The written name.
        given: An object, its JSON text, nothing, or the bare value for a tool with only one parameter.
        source: The text of the call.
        tools: The known tools.
    """
    if not isinstance(name, str) or (known := match_tool_name(name.strip(), tools)) is None:
        return None
    if given is None:
        given = {}
    if isinstance(given, str):
        given = _parse_object(given)
    parameters = list(tools[known].parameters.get("properties", {}))
    if not isinstance(given, Mapping) and len(parameters) == 1:
        given = {parameters[0]: given}
    if not isinstance(given, Mapping):
        return None
    try:
        return TextCall(known, json.dumps(given, ensure_ascii=False), source)
    except (TypeError, ValueError, RecursionError):
        return None


def make_call_from_texts(
    name: str, texts: Sequence[tuple[str, str]], source: str, tools: ToolRegistry
) -> TextCall | None:
    """Return the call whose parameters are separate texts: JSON where the parameter is not a string."""
    if (known := match_tool_name(name.strip(), tools)) is None:
        return None
    parameters = tools[known].parameters
    given = {}
    for key, text in texts:
        given[key] = text if "string" in list_types(find_schemas(parameters, (key,))) else parse_value(text, text)
    return make_call(known, given, source, tools)


def make_call_from_python(
    name: str, positional: Sequence[Any], named: Mapping[str, Any], source: str, tools: ToolRegistry
) -> TextCall | None:
    """Return the call with arguments as in Python; positional ones follow the order of the parameters."""
    if (known := match_tool_name(name.strip(), tools)) is None:
        return None
    parameters = list(tools[known].parameters.get("properties", {}))
    if len(positional) == 1 and isinstance(positional[0], dict) and not named and set(positional[0]) <= set(parameters):
        return make_call(known, positional[0], source, tools)
    given = dict(zip(parameters, positional, strict=False))
    if len(positional) > len(parameters) or set(given) & set(named):
        return None
    return make_call(known, {**given, **named}, source, tools)


def parse_value(text: str, otherwise: Any = None) -> Any:
    """Return the JSON value of a text, syntax errors accepted; `otherwise` without one."""
    reader = JsonReader(text)
    try:
        value = reader.read_value()
        return otherwise if reader.peek() else value
    except (InvalidJson, RecursionError):
        return otherwise


def _parse_object(text: str) -> Any:
    value = parse_value(text)
    return value if isinstance(value, dict) else {} if text.strip() in ("", "null") else text
