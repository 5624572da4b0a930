"""The roles of parameters, declared or known by type, name and effect; and which calls are consequential."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from inspect import Parameter
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from ..core.errors import DefinitionError
from ..core.roles import Content, Destination, Plain, Role
from ..schemas.models import ModelSchema, is_arguments_model
from ..schemas.signature import read_signature
from .json_tool import JsonTool
from .settings import ORDERED_EFFECTS

_DESTINATION = """
    account address attendees bcc bucket cc channel chat command contact database dest destination directory dir domain
    email emails endpoint file filename folder host iban invitees link members owner participants path paths phone
    receiver recipient recipients repo repository room server table target to uri url urls user username users
    wallet webhook website
"""
DESTINATION_WORDS = frozenset(_DESTINATION.split())
"""Words of parameter names for recipients, addresses, paths and accounts."""
ADDRESS_WORDS = frozenset(["uri", "uris", "url", "urls", "webhook", "website"])
"""Words of parameter names for web addresses: a tool with such a parameter can send to any server."""
_CONTENT = "body caption comment content description message note notes subject summary text title"
CONTENT_WORDS = frozenset(_CONTENT.split())
"""Parameter names for content."""
DESTINATION_FORMATS = frozenset(
    ["uri", "uri-reference", "email", "idn-email", "hostname", "path", "file-path", "directory-path", "phone", "ipv4"]
)
"""JSON Schema formats of destinations."""
RUNS_AGENT = "__agentkit_agent__"
"""Attribute of the functions of agents as tools."""
MAX_DEPTH = 4
"""Levels of nested models that are searched for markers."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_INDEX = re.compile(r"\[\d+\]")


class Roles:
    """The roles of the parameters of tools, read once per tool."""

    def __init__(self) -> None:
        self._declared: dict[int, tuple[JsonTool[..., Any], dict[str, Role]]] = {}

    def find(self, tool: JsonTool[..., Any], where: str) -> Role:
        """Return the role of a place in a tool's arguments, such as `mail.to[0]`.

        A marker holds for all that is inside of its parameter.  Without one the type decides, then the name: a web or
        mail address, a path and a name such as `recipient_id` are destinations.  All other parameters of a tool with a
        destination, and of one that only reads, are content; of other tools those named as such, and the rest is plain.
        """
        path = _INDEX.sub("", where.removeprefix("a name in "))
        if id(tool) not in self._declared:
            self._declared[id(tool)] = tool, dict(_read_markers(tool))
        declared = self._declared[id(tool)][1]
        outer = path
        while outer:
            if outer in declared:
                return declared[outer]
            outer = outer.rpartition(".")[0]
        properties = tool.parameters.get("properties", {})
        if _is_destination(path, properties.get(path, {})):
            return Destination()
        is_named = path.rpartition(".")[2].lower() in CONTENT_WORDS
        return Content() if is_named or tool.effect == "read" or self._has_destination(tool, declared) else Plain()

    def _has_destination(self, tool: JsonTool[..., Any], declared: Mapping[str, Role]) -> bool:
        properties = tool.parameters.get("properties", {})
        return any(isinstance(role, Destination) for role in declared.values()) or any(
            name not in declared and _is_destination(name, schema) for name, schema in properties.items()
        )


def sends_outside(tool: JsonTool[..., Any]) -> bool:
    """Return whether a tool sends data outside: as declared (`egress=`), else if it takes web addresses."""
    if tool.egress is not None:
        return tool.egress
    properties = tool.parameters.get("properties", {})
    return any(
        "uri" in _formats(schema) or not ADDRESS_WORDS.isdisjoint(_words(name)) for name, schema in properties.items()
    )


def is_consequential(tool: JsonTool[..., Any]) -> bool:
    """Return whether a call of the tool changes something, or sends data outside."""
    return tool.effect in ORDERED_EFFECTS or sends_outside(tool)


def may_have_effect(tool: JsonTool[..., Any]) -> bool:
    """Return whether a call of the tool is consequential, or may be, because its effect is not declared.

    An agent as a tool has no effect itself: the calls in its run are decided about there.
    """
    return is_consequential(tool) or (tool.effect is None and not getattr(tool.function, RUNS_AGENT, False))


def list_roles(tool: JsonTool[..., Any]) -> dict[str, str]:
    """Return the roles of a tool's parameters, by their names: "destination", "content" or "plain"."""
    roles = Roles()
    return {name: type(roles.find(tool, name)).__name__.lower() for name in tool.parameters.get("properties", {})}


def _is_destination(path: str, schema: Mapping[str, Any]) -> bool:
    return not DESTINATION_FORMATS.isdisjoint(_formats(schema)) or names_destination(path)


def names_destination(path: str) -> bool:
    """Return whether the last name of a path, such as `mail.to` or `recipientEmail`, is one of a destination."""
    return not DESTINATION_WORDS.isdisjoint(_words(path.rpartition(".")[2]))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _formats(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the formats of a parameter, of its alternatives and of its items."""
    yield schema.get("format", "")
    for inner in (*schema.get("anyOf", ()), *filter(None, [schema.get("items")])):
        yield from _formats(inner)


def _read_markers(tool: JsonTool[..., Any]) -> Iterator[tuple[str, Role]]:
    if isinstance(tool.arguments, ModelSchema):
        yield from _find_field_markers("", tool.arguments.model, MAX_DEPTH)
        return
    parameters: Mapping[str, Parameter] = {}
    with suppress(DefinitionError):  # the function of a tool with a schema of its own may have no signature
        parameters = read_signature(tool.function).parameters
    for parameter in parameters.values():
        yield from _find_markers(parameter.name, parameter.annotation, MAX_DEPTH)


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
