"""The roles of parameters, declared or known by type, name and effect; and which calls are consequential."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from inspect import Parameter
from typing import Annotated, Any, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from ..core.errors import DefinitionError
from ..core.messages import Content, Destination, Plain, Role
from ..core.values import frozen
from ..schemas.models import ModelSchema, is_arguments_model
from ..schemas.signature import read_signature
from .json_tool import JsonTool
from .settings import ORDERED_EFFECTS

_DESTINATION = """
    account address assignee attachment attachments attendees bcc beneficiary branch bucket cc channel chat client
    command contact customer database dest destination directory dir domain email emails endpoint file filename folder
    group guests handle host hostname iban invitees ip link mailbox members owner participants path paths payee phone
    phonenumber queue receiver recipient recipients repo repository room server subscriber table target team to topic
    uri url urls user username users wallet webhook website
"""
DESTINATION_WORDS = frozenset(_DESTINATION.split())
"""Words of parameter names for recipients, addresses, paths and accounts."""
ADDRESS_WORDS = frozenset(["uri", "uris", "url", "urls", "webhook", "website"])
"""Words of parameter names for web addresses: a tool with such a parameter can send to any server."""
_ENDINGS = ("address", "email", "path", "uri", "url")
"""Endings of words that are as these words: `webhookurl`."""
_CONTENT = "body caption comment content description message note notes subject summary text title"
CONTENT_WORDS = frozenset(_CONTENT.split())
"""Parameter names for content."""
DESTINATION_FORMATS = frozenset(
    ["uri", "uri-reference", "email", "idn-email", "hostname", "path", "file-path", "directory-path", "phone", "ipv4"]
)
"""JSON Schema formats of destinations."""
RUNS_AGENT = "__agentkit_agent__"
"""Attribute of the functions of agents as tools."""
RUNS_PROGRAM = "__agentkit_program__"
"""Attribute of the functions that run a program, see `RunProgram`: its calls are decided about one by one."""
MAX_MARKER_DEPTH = 4
"""Levels of nested models that are searched for markers and formats."""
ANY_NAME = "*"
"""Stands for the names that a schema does not list."""
MAX_SCHEMAS = 10_000
"""Parts of a schema that are searched for formats."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_INDEX = re.compile(r"\[\d+\]")


@frozen
class _Places:
    """What the markers and the schema of a tool tell about the places in its arguments.

    Attributes:
        declared: The roles that markers declare.
        formats: The formats of each place, those of alternatives and items included.
        has_destination: Whether one of the places, whose names are all listed, is a destination.
        has_address: Whether one of the places is a web address.
    """

    declared: Mapping[str, Role]
    formats: Mapping[str, Collection[str]]
    has_destination: bool
    has_address: bool


_PLACES: WeakKeyDictionary[JsonTool[..., Any], _Places] = WeakKeyDictionary()
"""The places of tools that were asked for."""


def find_role(tool: JsonTool[..., Any], where: str) -> Role:
    """Return the role of a place in a tool's arguments, such as `mail.to[0]`.

    A marker holds for all that is inside of its parameter.  Without one the type decides, then the name: a web or
    mail address, a path and a name such as `recipient_id` are destinations.  All other parameters of a tool with a
    destination, and of one that only reads, are content; of other tools those named as such, and the rest is plain.
    """
    path = _INDEX.sub("", where.removeprefix("a name in "))
    places = _read_places(tool)
    outer = path
    while outer:
        if outer in places.declared:
            return places.declared[outer]
        outer = outer.rpartition(".")[0]
    if _looks_as_destination(path, places.formats.get(path, ())):
        return Destination()
    is_named = path.rpartition(".")[2].lower() in CONTENT_WORDS
    return Content() if is_named or tool.effect == "read" or places.has_destination else Plain()


def is_destination(tool: JsonTool[..., Any], where: str) -> bool:
    """Return whether a place in a tool's arguments says where the call goes."""
    return isinstance(find_role(tool, where), Destination)


def sends_outside(tool: JsonTool[..., Any]) -> bool:
    """Return whether a tool sends data outside: as declared (`egress=`), else if it takes a web address anywhere."""
    return _read_places(tool).has_address if tool.egress is None else tool.egress


def is_consequential(tool: JsonTool[..., Any]) -> bool:
    """Return whether a call of the tool changes something, or sends data outside."""
    return tool.effect in ORDERED_EFFECTS or sends_outside(tool)


def may_have_effect(tool: JsonTool[..., Any]) -> bool:
    """Return whether a call of the tool is consequential, or may be, because its effect is not declared.

    An agent as a tool has no effect itself: the calls in its run are decided about there.
    """
    return is_consequential(tool) or (tool.effect is None and not runs_agent(tool))


def runs_agent(tool: JsonTool[..., Any]) -> bool:
    """Return whether a tool is an agent, which writes its results itself."""
    return bool(getattr(tool.function, RUNS_AGENT, False))


def runs_program(tool: JsonTool[..., Any]) -> bool:
    """Return whether a tool runs a program that the model wrote."""
    return bool(getattr(tool.function, RUNS_PROGRAM, False))


def list_roles(tool: JsonTool[..., Any]) -> dict[str, str]:
    """Return the roles of a tool's parameters, by their names: "destination", "content" or "plain"."""
    return {name: type(find_role(tool, name)).__name__.lower() for name in tool.parameters.get("properties", {})}


def _looks_as_destination(path: str, formats: Collection[str]) -> bool:
    return not DESTINATION_FORMATS.isdisjoint(formats) or not DESTINATION_WORDS.isdisjoint(_words(path))


def _words(path: str) -> list[str]:
    """Return the words of the last name of a path, such as `mail.to` or `recipientEmail`."""
    words = [word.lower() for word in _WORD.findall(path.rpartition(".")[2])]
    return [*words, *(ending for word in words for ending in _ENDINGS if word.endswith(ending))]


def _read_places(tool: JsonTool[..., Any]) -> _Places:
    """Return the places in a tool's arguments, read once per tool."""
    if (known := _PLACES.get(tool)) is not None:
        return known
    declared = dict(_read_markers(tool))
    formats = _read_formats(tool.parameters)
    has_destination = any(isinstance(role, Destination) for role in declared.values()) or any(
        path not in declared and ANY_NAME not in path and _looks_as_destination(path, found)
        for path, found in formats.items()
    )
    has_address = any("uri" in found or not ADDRESS_WORDS.isdisjoint(_words(path)) for path, found in formats.items())
    places = _PLACES[tool] = _Places(declared, formats, has_destination, has_address)
    return places


def _read_formats(parameters: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the formats of the places in a schema; one with too many parts counts as one with a web address."""
    found: dict[str, set[str]] = {}
    definitions = parameters.get("$defs", {})
    left: list[tuple[str, Any, int]] = [("", parameters, 0)]
    seen: set[tuple[str, int]] = set()  # a type may contain itself at the same place
    for _ in range(MAX_SCHEMAS):
        if not left:
            break
        path, schema, depth = left.pop()
        if not isinstance(schema, Mapping) or depth > MAX_MARKER_DEPTH or (path, id(schema)) in seen:
            continue
        seen.add((path, id(schema)))
        if path:
            found.setdefault(path, set()).add(str(schema.get("format", "")))
        if "$ref" in schema:
            left.append((path, definitions.get(str(schema["$ref"]).rpartition("/")[2]), depth))
        alternatives = (inner for key in ("anyOf", "oneOf", "allOf", "prefixItems") for inner in schema.get(key, ()))
        left += ((path, inner, depth) for inner in (schema.get("items"), *alternatives))
        any_names = (schema.get("additionalProperties"), *schema.get("patternProperties", {}).values())
        properties = (*schema.get("properties", {}).items(), *((ANY_NAME, inner) for inner in any_names))
        left += ((f"{path}.{name}".removeprefix("."), inner, depth + 1) for name, inner in properties)
    if left:
        found[""] = {"uri"}
    return found


def _read_markers(tool: JsonTool[..., Any]) -> Iterator[tuple[str, Role]]:
    if isinstance(tool.arguments, ModelSchema):
        yield from _find_field_markers("", tool.arguments.model, MAX_MARKER_DEPTH)
        return
    parameters: Mapping[str, Parameter] = {}
    with suppress(DefinitionError):  # the function of a tool with a schema of its own may have no signature
        parameters = read_signature(tool.function).parameters
    for parameter in parameters.values():
        yield from _find_markers(parameter.name, parameter.annotation, MAX_MARKER_DEPTH)


def _find_markers(path: str, annotation: Any, depth: int) -> Iterator[tuple[str, Role]]:
    """Yield the markers of an annotation and of the fields of the models in it, by their paths."""
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        yield from ((path, marker) for marker in metadata if isinstance(marker, Destination | Content | Plain))
    for inner in get_args(annotation):
        yield from _find_markers(path, inner, depth)
    if depth and isinstance(annotation, type) and is_arguments_model(annotation):
        yield from _find_field_markers(f"{path}.", annotation, depth - 1)


def _find_field_markers(prefix: str, model: type, depth: int) -> Iterator[tuple[str, Role]]:
    hints: dict[str, Any] = {}
    with suppress(NameError, TypeError):  # an annotation whose names are out of reach has no markers
        hints = get_type_hints(model, include_extras=True)
    for name, hint in hints.items():
        yield from _find_markers(f"{prefix}{name}", hint, depth)
