"""References in a JSON Schema: inlined where possible, else kept under short names.

A type that contains itself cannot be inlined, and definitions that refer to each other twice (`A` two `B`, `B` two `C`
...) double with each level: 2 kB of them would become gigabytes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

from ..core.errors import DefinitionError
from ..core.portable import find_free_name
from .walk import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS, JsonSchema, iter_children, rebuild

PREFIX = "#/$defs/"
MAX_INLINED_SCHEMAS = 5_000
"""How many schemas a schema may hold to be inlined; beyond, definitions used more than once stay in `$defs`."""
_PROPERTY_REF = "\0$ref"
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
    """Return a copy of `schema` without references, but for types that contain themselves or would make it too large.

    Keywords beside a `$ref` replace those of its target.  No two parts of the copy are the same object.

    Raises:
        DefinitionError: A reference leads nowhere, or outside the schema.
    """
    whole = collect_definitions(schema)
    if "$defs" not in whole:
        return whole
    kept = _find_cycles(whole["$defs"])
    whole = rebuild(whole, partial(_follow_aliases, definitions=whole["$defs"], kept=kept))
    definitions = whole.pop("$defs")
    if _count_inlined(whole, definitions, kept) > MAX_INLINED_SCHEMAS:
        kept |= _find_shared([whole, *definitions.values()])

    import jsonref  # imports requests: too slow for the top of the file

    def seal(node: JsonSchema) -> JsonSchema:
        stays = str(node.get("$ref")).removeprefix(PREFIX) in kept
        followed = {key for key in node if key in _PLACES or (key == "$ref" and not stays)}
        sealed = {key: value if key in followed else _Sealed(value) for key, value in node.items()}
        return _rename_keys(sealed, "$ref", _PROPERTY_REF)

    def open_(node: JsonSchema) -> JsonSchema:
        opened = {key: value.value if isinstance(value, _Sealed) else value for key, value in node.items()}
        return _rename_keys(opened, _PROPERTY_REF, "$ref")

    sealed = rebuild({**whole, "$defs": definitions}, seal)
    try:
        resolved: Any = jsonref.replace_refs(sealed, proxies=False, lazy_load=False, merge_props=True, loader=_refuse)
    except RecursionError:
        return {**whole, "$defs": definitions}
    rest = {name: schema for name, schema in resolved.pop("$defs").items() if name in kept}
    # jsonref returns equal parts as one shared object; rebuild separates them
    return rebuild({**resolved, "$defs": rest} if rest else resolved, open_)


def _refuse(uri: str) -> Any:
    raise DefinitionError(f"the schema refers to {uri!r}: only references within it (#/$defs/...) work")


def _rename_keys(node: JsonSchema, name: str, new: str) -> JsonSchema:
    """Rename the key `name` in the mappings from names to schemas of `node`, in place."""
    for key in SCHEMA_MAPS & set(node):
        if isinstance(node[key], dict) and name in node[key]:
            node[key] = {new if key == name else key: inner for key, inner in node[key].items()}
    return node


def _follow_aliases(node: JsonSchema, definitions: Mapping[str, JsonSchema], kept: set[str]) -> JsonSchema:
    """Return `node` with a reference that skips definitions which are nothing but a reference themselves."""
    name = str(node.get("$ref", "")).removeprefix(PREFIX)
    while name in definitions and name not in kept and definitions[name].keys() == {"$ref"}:
        name = definitions[name]["$ref"].removeprefix(PREFIX)
    return {**node, "$ref": PREFIX + name} if name in definitions else node


def _count_inlined(schema: JsonSchema, definitions: Mapping[str, JsonSchema], kept: set[str]) -> int:
    """Return how many schemas `schema` holds when all definitions but `kept` are inlined."""
    sizes: dict[str, int] = dict.fromkeys(kept, 1)

    def count(node: JsonSchema) -> int:
        name = str(node.get("$ref", "")).removeprefix(PREFIX)
        if "$ref" in node and name not in sizes:
            sizes[name] = count(definitions[name])
        return 1 + sizes.get(name, 0) + sum(count(inner) for _, inner in iter_children(node))

    return count(schema)


def _find_shared(schemas: Iterable[JsonSchema]) -> set[str]:
    """Return the names of the definitions that are referred to more than once."""
    found = Counter(reference.removeprefix(PREFIX) for schema in schemas for reference in _iter_references(schema))
    return {name for name, number in found.items() if number > 1}


def _without_definitions(schema: JsonSchema) -> JsonSchema:
    return {key: value for key, value in schema.items() if key not in _HOMES}


def _shorten(reference: str, taken: set[str]) -> str:
    """Return a free short name: the last part of the reference, without a module path that pydantic put before it."""
    last = unquote(reference).rsplit("/", 1)[-1].rsplit("__", 1)[-1]
    name = re.sub(r"[^A-Za-z0-9_]+", "_", last).strip("_")[:40] or "Whole"
    return find_free_name(name, taken)


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
