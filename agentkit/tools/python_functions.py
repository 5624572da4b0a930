"""Tools as typed Python functions, for a model that writes programs."""

import builtins
import json
import keyword
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from .json_tool import JsonTool

_MARK = re.compile(r"#|'''|\"\"\"|'|\"|\b(?:await|asyncio\.run)\b")
"""A comment, a text, or an await."""
_ENDS = {
    "#": re.compile(r"[^\n]*+"),
    "'": re.compile(r"(?:[^\\\n']|\\.)*+'?", re.DOTALL),
    '"': re.compile(r'(?:[^\\\n"]|\\.)*+"?', re.DOTALL),
    "'''": re.compile(r"(?:[^\\']|\\.|'(?!''))*+(?:''')?", re.DOTALL),
    '"""': re.compile(r'(?:[^\\"]|\\.|"(?!""))*+(?:""")?', re.DOTALL),
}
"""The rest of a comment or a text, by its begin; that of a text without an end is its line, or all."""
_AWAIT_IN_TEXT = re.compile(r"\{[^{}]*\bawait\b")


def name_functions(tools: Iterable[JsonTool[..., Any]]) -> dict[str, JsonTool[..., Any]]:
    """Return tools by the names that they have as functions.

    A name that is no identifier, or that of a function of Python, is changed: "get-weather" is `get_weather`, and "sum"
    is `sum_`.
    """
    listed = {tool.name: tool for tool in tools}
    named = _make_names(listed, lambda name: _is_identifier(name) and not hasattr(builtins, name))
    return {named[name]: tool for name, tool in listed.items()}


def _name_parameters(tool: JsonTool[..., Any]) -> dict[str, str]:
    """Return the names of a tool's parameters in Python by their own: "from" is `from_`."""
    return _make_names([*tool.parameters.get("properties", {})], _is_identifier)


def _make_names(names: Collection[str], is_free: Callable[[str], bool]) -> dict[str, str]:
    """Return a name in Python for each name: itself where it is free."""
    taken = set(filter(is_free, names))
    made = {}
    for own in names:
        name = own
        if name not in taken:
            name = re.sub(r"\W|^(?=\d)", "_", own)
            while name in taken or not is_free(name):
                name += "_"
            taken.add(name)
        made[own] = name
    return made


def _is_identifier(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def has_await(code: str) -> bool:
    """Return whether a program awaits, outside of comments and texts."""
    place = 0
    while found := _MARK.search(code, place):
        mark = found[0]
        if mark not in _ENDS:
            return True
        end = _ENDS[mark].match(code, found.end())
        assert end is not None  # it may be empty
        has_values = "f" in code[max(0, found.start() - 2) : found.start()].lower()
        if has_values and _AWAIT_IN_TEXT.search(end[0]):
            return True
        place = end.end()
    return False


def write_arguments(name: str, tool: JsonTool[..., Any] | None, given: Sequence[Any], named: Mapping[str, Any]) -> str:
    """Return the arguments of a call in a program as JSON.

    Args:
        name: The name of the function.
        tool: The tool, None for an unknown one.
        given: The arguments without names.
        named: Those with names.

    Raises:
        TypeError: The tool does not take them.
        ValueError: One of them is no JSON data.
    """
    names = _name_parameters(tool) if tool is not None else {}
    if len(given) > len(names) and tool is not None:
        raise TypeError(f"{name}() takes {len(names)} arguments, got {len(given)}")
    own = {other: key for key, other in names.items()}
    placed = dict(zip(names, given, strict=False))
    called = {own.get(key, key): value for key, value in named.items()}
    if twice := placed.keys() & called.keys():
        raise TypeError(f"{name}() got several values for {', '.join(twice)}")
    return json.dumps(to_jsonable_python({**placed, **called}, fallback=_to_data), ensure_ascii=False)


def _to_data(value: Any) -> Any:
    """Return an object of a program as JSON data."""
    if getattr(value, "is_dataclass", False):
        return dict(value.attributes)
    raise TypeError(f"{getattr(value, 'name', type(value).__name__)} cannot be an argument: give JSON data")


def describe_functions(tools: Iterable[tuple[str, JsonTool[..., Any]]]) -> Iterator[str]:
    """Yield the types that tools return, then the tools as functions, each with its name."""
    classes: dict[str, str] = {}
    functions = [_describe_function(name, tool, classes) for name, tool in tools]
    yield from classes.values()
    yield from functions


def _describe_function(name: str, tool: JsonTool[..., Any], classes: dict[str, str]) -> str:
    """Return a tool as a typed function with a name; its objects are added to `classes`."""
    schema = tool.parameters
    required = schema.get("required", ())
    definitions = schema.get("$defs", {})
    parameters = []
    texts = [tool.description.strip()]
    named = _name_parameters(tool)
    for key, entry in schema.get("properties", {}).items():
        typed = f"{named[key]}: {_name_type(entry, definitions, classes, key)}"
        parameters.append(typed if key in required else f"{typed} = {entry.get('default')!r}")
        if text := entry.get("description"):
            texts.append(f"{named[key]}: {text}")
    returned: Mapping[str, Any] = tool.output_schema or {}
    kind = _name_type(returned, returned.get("$defs", {}), classes, f"{tool.name}_result")
    if text := returned.get("description"):
        texts.append(f"Returns: {text}")
    text = "\n    ".join("\n".join(texts).splitlines())
    return f'async def {name}({", ".join(parameters)}) -> {kind}:\n    """{text}"""'


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
