"""References in a JSON Schema: inlined where possible, else kept under short names.

A type that contains itself cannot be inlined, and definitions that refer to each other twice (`A` two `B`, `B` two `C`
...) double with each level: 2 kB of them would become gigabytes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count
from typing import Any
from urllib.parse import unquote

from ..core.errors import DefinitionError
from .walk import JsonSchema, iter_children, rebuild

PREFIX = "#/$defs/"
MAX_INLINED_SCHEMAS = 5_000
"""How many schemas a schema may hold to be inlined; beyond, definitions used more than once stay in `$defs`."""
_HOMES = ("$defs", "definitions")


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
    definitions = whole.pop("$defs")
    kept = _find_cycles(definitions)
    if _count_inlined(whole, definitions, kept) > MAX_INLINED_SCHEMAS:
        kept |= _find_shared([whole, *definitions.values()])

    def expand(node: JsonSchema) -> JsonSchema:
        name = str(node.get("$ref", "")).removeprefix(PREFIX)
        if "$ref" not in node or name in kept:
            return node
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return {**rebuild(definitions[name], expand), **beside}

    inlined = rebuild(whole, expand)
    rest = {name: rebuild(definitions[name], expand) for name in definitions if name in kept}
    return {**inlined, "$defs": rest} if rest else inlined


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
