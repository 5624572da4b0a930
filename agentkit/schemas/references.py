"""References in a JSON Schema: inlined where possible, kept under short names where a type contains itself."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Any
from urllib.parse import unquote

from ..core.errors import DefinitionError
from .walk import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS, JsonSchema, iter_children, rebuild

PREFIX = "#/$defs/"
_REF = "\0$ref"
"""The name that a property named `$ref` has while jsonref runs, which would take its schema for a reference."""
_HOMES = ("$defs", "definitions")
_PLACES = SCHEMA_MAPS | SCHEMA_LISTS | SCHEMAS


@dataclass(frozen=True)
class _Sealed:
    """A value that jsonref must not look into: data that resembles a reference, and references that stay."""

    value: Any


def check_references(schema: JsonSchema) -> None:
    """Raise `DefinitionError` for a reference to nowhere or outside the schema: nothing is fetched."""
    for reference in _iter_references(schema):
        _find_target(schema, reference)


def collect_definitions(schema: JsonSchema) -> JsonSchema:
    """Return a copy of `schema` with the referenced definitions, and no others, in `$defs` under short names.

    The names are unique letters, digits and underscores; every reference reads `#/$defs/<name>`.

    Raises:
        DefinitionError: A reference leads nowhere, or outside the schema.
    """
    names: dict[str, str] = {}

    def settle(node: JsonSchema) -> JsonSchema:
        for home in _HOMES:
            node.pop(home, None)
        if isinstance(reference := node.get("$ref"), str):
            if reference not in names:
                names[reference] = _shorten(reference, set(names.values()))
            node["$ref"] = PREFIX + names[reference]
        return node

    settled = rebuild(_without_definitions(schema), settle)
    definitions: dict[str, JsonSchema] = {}
    while waiting := [reference for reference in names if names[reference] not in definitions]:
        for reference in waiting:
            target = _find_target(schema, reference)
            definitions[names[reference]] = rebuild(_without_definitions(target), settle)
    return {**settled, "$defs": definitions} if definitions else settled


def inline(schema: JsonSchema) -> JsonSchema:
    """Return a copy of `schema` without references.  Types that contain themselves stay in `$defs`, under short names.

    Keywords beside a `$ref` replace those of its target.  No two parts of the copy are the same object.

    Raises:
        DefinitionError: A reference leads nowhere, or outside the schema.
    """
    whole = collect_definitions(schema)
    if "$defs" not in whole:
        return whole
    kept = _find_cycles(whole["$defs"])
    import jsonref  # imports requests: too slow for the top of the file

    def seal(node: JsonSchema) -> JsonSchema:
        stays = str(node.get("$ref")).removeprefix(PREFIX) in kept
        followed = {key for key in node if key in _PLACES or (key == "$ref" and not stays)}
        return _rename_keys(
            {key: value if key in followed else _Sealed(value) for key, value in node.items()}, "$ref", _REF
        )

    def opened(node: JsonSchema) -> JsonSchema:
        unsealed = {key: value.value if isinstance(value, _Sealed) else value for key, value in node.items()}
        return _rename_keys(unsealed, _REF, "$ref")

    sealed = rebuild(whole, seal)
    resolved: Any = jsonref.replace_refs(sealed, proxies=False, lazy_load=False, merge_props=True, loader=_refuse)
    definitions = {name: resolved["$defs"][name] for name in resolved["$defs"] if name in kept}
    del resolved["$defs"]
    # jsonref gives equal parts as one shared object; rebuild makes them separate.
    return rebuild({**resolved, "$defs": definitions} if definitions else resolved, opened)


def _refuse(uri: str) -> Any:
    raise DefinitionError(f"the schema refers to {uri!r}: only references within it (#/$defs/...) work")


def _rename_keys(node: JsonSchema, name: str, new: str) -> JsonSchema:
    """Rename the key `name` in the mappings from names to schemas of `node`, in place."""
    for key in SCHEMA_MAPS & set(node):
        if isinstance(node[key], dict) and name in node[key]:
            node[key] = {new if key == name else key: inner for key, inner in node[key].items()}
    return node


def _without_definitions(schema: JsonSchema) -> JsonSchema:
    return {key: value for key, value in schema.items() if key not in _HOMES}


def _shorten(reference: str, taken: set[str]) -> str:
    """Return a free short name: the last part of the reference, without a module path that pydantic put before it."""
    last = unquote(reference).rsplit("/", 1)[-1].rsplit("__", 1)[-1]
    name = re.sub(r"[^A-Za-z0-9_]+", "_", last).strip("_")[:40] or "Whole"
    return next(free for free in chain([name], (f"{name}_{number}" for number in count(2))) if free not in taken)


def _iter_references(schema: JsonSchema) -> Iterator[str]:
    if isinstance(reference := schema.get("$ref"), str):
        yield reference
    for _, inner in iter_children(schema):
        yield from _iter_references(inner)


def _find_target(schema: JsonSchema, reference: str) -> JsonSchema:
    node: Any = schema
    first, *keys = reference.split("/")
    for key in keys:
        name = unquote(key).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and name.isdigit():
            node = dict(enumerate(node)).get(int(name))
        else:
            node = node.get(name) if isinstance(node, dict) else None
    if first != "#" or not isinstance(node, dict | bool):
        raise DefinitionError(f"the schema refers to {reference!r}: only references within it (#/$defs/...) work")
    return node if isinstance(node, dict) else ({} if node else {"not": {}})


def _find_cycles(definitions: Mapping[str, JsonSchema]) -> set[str]:
    """Return the names of the definitions that lead back to themselves."""
    reached = {
        name: {reference.removeprefix(PREFIX) for reference in _iter_references(definition)}
        for name, definition in definitions.items()
    }

    def leads_to(goal: str, name: str, seen: set[str]) -> bool:
        seen.add(name)
        return goal in reached[name] or any(leads_to(goal, next_, seen) for next_ in reached[name] - seen)

    return {name for name in definitions if leads_to(name, name, set())}
