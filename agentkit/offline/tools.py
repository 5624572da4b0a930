"""Tools as the planner sees them: their words, and their parameters as a flat list."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .words import ROLES, concepts, is_generic

_TYPES = {
    "integer": "integer int long short byte bigint",
    "number": "number float double decimal",
    "boolean": "boolean bool",
    "array": "array list tuple set arraylist",
    "object": "object dict dictionary map hashmap",
    "string": "string str char text date datetime",
}
_TYPE_OF = {loose: strict for strict, names in _TYPES.items() for loose in names.split()}
_DEEPEST = 4  # a schema may contain itself
_LISTED = re.compile(r"(?:e\.g\.|such as|for example|for instance)[,:]?\s*([^.()\"']+)")
_EXAMPLE = re.compile(r"(?<!\w)'([^']{2,40})'|\"([^\"]{2,40})\"|`([^`]{2,40})`")


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """A parameter that takes one value: where it belongs, its resolved schema, and the words that announce it."""

    path: tuple[str, ...]
    type: str
    schema: Mapping[str, Any]
    required: bool
    names: frozenset[str]
    label: frozenset[str]
    hints: frozenset[str]
    options: tuple[Any, ...]
    examples: tuple[str, ...]

    @property
    def description(self) -> str:
        return str(self.schema.get("description", ""))


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool on offer: its name, its parameters, and the concepts of its name, its description and its parameters."""

    name: str
    params: tuple[Param, ...]
    name_words: tuple[str, ...]
    words: frozenset[str]
    param_words: frozenset[str]
    vocabulary: frozenset[str]


def read_tool(definition: Mapping[str, Any]) -> Tool:
    """The tool that an OpenAI tool dict (or its bare `function`) declares."""
    function = definition.get("function", definition)
    schema = function.get("parameters") or {}
    params = tuple(_leaves(schema, (), True, schema.get("$defs") or schema.get("definitions") or {}))
    name_words = concepts(function["name"])
    words = frozenset(concepts(function.get("description") or ""))
    param_words = frozenset(c for p in params for c in (*p.names, *p.hints, *concepts(json.dumps(p.options))))
    return Tool(function["name"], params, name_words, words, param_words, words | param_words | set(name_words))


def resolve(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without references, unions and loose type names; of a union the first member that is not null."""
    if not isinstance(schema, Mapping):
        return {"type": "any"}
    if "$ref" in schema:
        target = definitions.get(str(schema["$ref"]).rsplit("/", 1)[-1], {})
        return {**resolve(target, definitions), **{k: v for k, v in schema.items() if k != "$ref"}}
    for union in ("anyOf", "oneOf", "allOf"):
        if members := [m for m in schema.get(union, ()) if m.get("type") != "null"]:
            rest = {k: v for k, v in schema.items() if k != union}
            return {**resolve(members[0], definitions), **rest}
    kind = schema.get("type", "object" if "properties" in schema else "any")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), "any")
    return {**schema, "type": _TYPE_OF.get(str(kind).lower().split(",")[0].split("[")[0].strip(), "any")}


def _leaves(
    schema: Mapping[str, Any], path: tuple[str, ...], required: bool, definitions: Mapping[str, Any]
) -> Iterator[Param]:
    wanted = schema.get("required") or ()
    wanted = wanted if isinstance(wanted, list | tuple) else ()
    for name, raw in (schema.get("properties") or {}).items():
        part = resolve(raw, definitions)
        needed = required and name in wanted
        if part["type"] == "object" and part.get("properties") and len(path) < _DEEPEST:
            yield from _leaves(part, (*path, name), needed, definitions)
            continue
        if part["type"] == "array":
            part["items"] = resolve(part.get("items"), definitions)
        text = part.get("description") or ""
        names = frozenset(concepts(name))
        yield Param(
            path=(*path, name),
            type=part["type"],
            schema=part,
            required=needed,
            names=frozenset(c for c in names if c in ROLES or not is_generic(c)) or names,
            label=names,
            hints=frozenset(c for c in concepts(text) if not is_generic(c)) - names,
            options=tuple(part.get("enum") or (part.get("items") or {}).get("enum") or ()),
            examples=_examples(text),
        )


def _examples(description: str) -> tuple[str, ...]:
    """The values that a description names: quoted ones, and those after "e.g." or "such as"."""
    quoted = [next(group for group in match.groups() if group) for match in _EXAMPLE.finditer(description)]
    listed = [
        part for match in _LISTED.finditer(description) for part in re.split(r",\s*(?:or |and )?|\sor\s", match[1])
    ]
    return tuple(dict.fromkeys(part.strip() for part in quoted + listed if 2 < len(part.strip()) < 40))
