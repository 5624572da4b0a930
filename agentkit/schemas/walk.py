"""A JSON Schema as a tree: walked, checked to be well formed, its regular expressions matched, its references inlined.

Only places that hold a schema are visited, not data or properties that share a name.  The check is 100 times as fast as
that by the metaschema of draft 2020-12.

A regular expression may be hostile, so it runs in an engine of linear time: that of Rust's regex crate, which pydantic
contains.  It has no look-around and no back-references; a pattern with these, or one that is too large, cannot be
checked.

References are inlined where possible, else kept under short names.  A type that contains itself cannot be inlined, and
definitions that refer to each other twice (`A` two `B`, `B` two `C` ...) double with each level: 2 kB of them would
become gigabytes.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from ..core.errors import DefinitionError
from ..core.portable import copy_value, find_free_name

JsonSchema: TypeAlias = dict[str, Any]

SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
SCHEMAS = frozenset(
    {"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", "unevaluatedProperties"}
)


def iter_children(schema: JsonSchema) -> Iterator[tuple[tuple[str | int, ...], JsonSchema]]:
    """Yield the schemas directly inside `schema`, each with its path."""
    for key, value in schema.items():
        if isinstance(value, dict):
            if key in SCHEMA_MAPS:
                yield from (((key, name), inner) for name, inner in value.items() if isinstance(inner, dict))
            elif key in SCHEMAS:
                yield (key,), value
        elif isinstance(value, list) and key in SCHEMA_LISTS:
            yield from (((key, place), inner) for place, inner in enumerate(value) if isinstance(inner, dict))


def iter_schemas(schema: JsonSchema) -> Iterator[JsonSchema]:
    """Yield `schema` and all schemas in it, each before those inside it."""
    yield schema
    for _, inner in iter_children(schema):
        yield from iter_schemas(inner)


def rebuild(schema: JsonSchema, change: Callable[[JsonSchema], JsonSchema]) -> JsonSchema:
    """Return a deep copy of `schema` with `change` applied to every schema, innermost first."""

    def inner(value: Any) -> Any:
        return rebuild(value, change) if isinstance(value, dict) else value

    copy: JsonSchema = {}
    for key, value in schema.items():
        if isinstance(value, str):
            copy[key] = value
        elif key in SCHEMA_MAPS and isinstance(value, dict):
            copy[key] = {name: inner(item) for name, item in value.items()}
        elif key in SCHEMA_LISTS and isinstance(value, list):
            copy[key] = [inner(item) for item in value]
        elif key in SCHEMAS:
            copy[key] = inner(value)
        else:
            copy[key] = copy_value(value)
    return change(copy)


def modernize(schema: JsonSchema) -> JsonSchema:
    """Return a copy of a schema of draft 4, 6 or 7 with the keywords of draft 2020-12.

    A list of `items`, `additionalItems`, `dependencies`, exclusive bounds that are flags, and one example are replaced.
    A base address (`$id`) inside the schema is left out: references are read from its root.

    Source: https://json-schema.org/draft/2020-12/json-schema-core, appendix G.
    """
    return {**rebuild(schema, _modernize), **{key: schema[key] for key in ("$id",) if key in schema}}


def _modernize(node: JsonSchema) -> JsonSchema:
    node.pop("$id", None)
    rest = node.pop("additionalItems", None)
    if isinstance(places := node.get("items"), list):
        del node["items"]
        if places:
            node["prefixItems"] = [rebuild(place, _modernize) if isinstance(place, dict) else place for place in places]
        if rest is not None:
            node["items"] = rebuild(rest, _modernize) if isinstance(rest, dict) else rest
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(node.get(exclusive), bool) and node.pop(exclusive) and bound in node:
            node[exclusive] = node.pop(bound)
    if isinstance(needed := node.get("dependencies"), dict):
        del node["dependencies"]
        names = {name: value for name, value in needed.items() if isinstance(value, list)}
        schemas = {name: rebuild(value, _modernize) for name, value in needed.items() if isinstance(value, dict)}
        node |= {"dependentRequired": names} if names else {}
        node |= {"dependentSchemas": schemas} if schemas else {}
    if "examples" in node and not isinstance(node["examples"], list):
        node["examples"] = [node["examples"]]
    return node


Nodes = list[JsonSchema]
"""Schemas of one place: the schema itself, its references, and its alternatives (anyOf, oneOf, allOf)."""


def expand_schemas(schemas: Iterable[Any], root: JsonSchema) -> Nodes:
    """Return the schemas with the schemas behind their references and alternatives, each once."""
    found: dict[int, JsonSchema] = {}
    waiting = list(schemas)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, dict) and id(node) not in found:
            found[id(node)] = node
            if isinstance(reference := node.get("$ref"), str):
                waiting.append(follow_reference(reference, root))
            waiting.extend(option for key in ("anyOf", "oneOf", "allOf") for option in node.get(key, ()))
    return list(found.values())


def iter_child_schemas(node: JsonSchema, step: int | str) -> Iterator[Any]:
    """Yield the schemas of a key or of an array index in one node."""
    if isinstance(step, int):
        first = node.get("prefixItems", ())
        yield first[step] if step < len(first) else node.get("items")
    elif step in node.get("properties", {}):
        yield node["properties"][step]
    else:
        patterns = node.get("patternProperties", {})
        matching = [inner for pattern, inner in patterns.items() if matches(pattern, step)]
        yield from matching or [node.get("additionalProperties")]


def follow_reference(reference: str, root: JsonSchema) -> Any:
    """Return the target of a local reference (`#/$defs/Name`), or None."""
    node: Any = root
    for step in reference.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and name.isdigit():
            node = dict(enumerate(node)).get(int(name))
        else:
            node = node.get(name) if isinstance(node, dict) else None
    return node


def dereference_root(schema: JsonSchema) -> JsonSchema:
    """Return a shallow copy without a reference at the root: the target's keywords, then those beside it."""
    definitions = schema.get("$defs", {})
    seen: set[str] = set()
    while isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**definitions[reference.removeprefix(PREFIX)], **beside}
    return dict(schema)


MAX_PATTERNS_CACHED = 512


def matches(pattern: str, text: str) -> bool | None:
    """Return whether `pattern` occurs in `text`, in time linear in `text`; None if the pattern cannot be checked."""
    if (validator := _compile(pattern)) is None:
        return None
    try:
        validator.validate_python(text)
    except ValidationError:
        return False
    return True


def is_checkable(pattern: str) -> bool:
    """Return whether the linear engine supports `pattern`."""
    return _compile(pattern) is not None


@lru_cache(MAX_PATTERNS_CACHED)
def _compile(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        return None


_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
JSON_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


def json_type(value: Any) -> str:
    """Return JSON Schema's name for the type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_type(value: Any) -> bool:
    return (
        value in JSON_TYPES
        if isinstance(value, str)
        else bool(value) and _are_names(value) and JSON_TYPES.issuperset(value)
    )


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("description", "title", "format", "pattern", "$ref", "$schema", "$comment"), _is_text),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(_COUNTS, lambda value: type(value) is int and value >= 0),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), lambda value: isinstance(value, bool)),
    **dict.fromkeys(("enum", "examples"), lambda value: isinstance(value, list)),
    **dict.fromkeys(("default", "const", "discriminator"), lambda _: True),
    **dict.fromkeys(SCHEMA_MAPS, lambda value: isinstance(value, dict) and all(map(is_well_formed, value.values()))),
    **dict.fromkeys(
        SCHEMA_LISTS, lambda value: isinstance(value, list) and bool(value) and all(map(is_well_formed, value))
    ),
    **dict.fromkeys(SCHEMAS, lambda value: is_well_formed(value)),
    "type": _is_type,
    "required": _are_names,
    "multipleOf": lambda value: _is_number(value) and value > 0,
}


_UNCHECKED = frozenset({
    "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary",
    "additionalItems", "dependencies", "dependentRequired", "minContains", "maxContains", "unevaluatedItems",
    "contentSchema",
})  # fmt: skip
"""The other keywords that a metaschema describes. It allows any value for an unknown one, `x-order` say."""


def is_well_formed(schema: Any) -> bool:
    """Return whether `schema` is certainly well formed; False also stands for keywords that are not checked here."""
    if not isinstance(schema, dict):
        return isinstance(schema, bool)
    return all(
        check(value) if (check := _CHECKS.get(key)) is not None else key not in _UNCHECKED
        for key, value in schema.items()
    )


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
    definitions = whole.pop("$defs", None)
    if definitions is None:
        return whole
    targets = {name: _list_targets(inner) for name, inner in definitions.items()}
    kept = _find_cycles(targets)
    if _count_inlined(whole, definitions, kept) > MAX_INLINED_SCHEMAS:
        kept |= _find_shared([whole, *definitions.values()])

    import jsonref  # imports requests: too slow for the top of the file

    references = {name: _refer_to(found - kept) for name, found in targets.items()}
    document = {"$defs": references, **_refer_to(_list_targets(whole) - kept)}
    try:
        resolved: Any = jsonref.replace_refs(document, proxies=False, lazy_load=False, loader=_refuse)
        inlined = _inline_targets(whole, resolved, definitions)
        rest = {
            name: _inline_targets(inner, resolved["$defs"][name], definitions)
            for name, inner in definitions.items()
            if name in kept
        }
    except RecursionError:
        return {**whole, "$defs": definitions}
    return {**inlined, "$defs": rest} if rest else inlined


def _refuse(uri: str) -> Any:
    raise DefinitionError(f"the schema refers to {uri!r}: only references within it (#/$defs/...) work")


def _list_targets(schema: JsonSchema) -> set[str]:
    """Return the names of the definitions that a schema with collected definitions refers to."""
    return {reference.removeprefix(PREFIX) for reference in _iter_references(schema)}


def _refer_to(names: Iterable[str]) -> dict[str, JsonSchema]:
    return {name: {"$ref": PREFIX + name} for name in names}


def _inline_targets(
    schema: JsonSchema, resolved: Mapping[str, Any], definitions: Mapping[str, JsonSchema]
) -> JsonSchema:
    """Return a copy of `schema` with definitions in place of the references that jsonref resolved, by their names."""

    def follow(node: JsonSchema) -> JsonSchema:
        if (name := _name_target(node)) is None or name not in resolved:
            return node
        del node["$ref"]
        return {**_inline_targets(definitions[name], resolved[name], definitions), **node}

    return rebuild(schema, follow)


def _name_target(node: JsonSchema) -> str | None:
    """Return the name of the definition that a node of a schema with collected definitions refers to."""
    reference = node.get("$ref")
    return None if reference is None else reference.removeprefix(PREFIX)


def _count_inlined(schema: JsonSchema, definitions: Mapping[str, JsonSchema], kept: set[str]) -> int:
    """Return how many schemas `schema` holds when all definitions but `kept` are inlined."""
    sizes: dict[str, int] = dict.fromkeys(kept, 1)

    def count(node: JsonSchema) -> int:
        size = 1
        if (name := _name_target(node)) is not None:
            if name not in sizes:
                sizes[name] = count(definitions[name])
            size += sizes[name]
        for _, inner in iter_children(node):
            size += count(inner)
        return size

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
    return (reference for node in iter_schemas(schema) if isinstance(reference := node.get("$ref"), str))


def _find_target(schema: JsonSchema, reference: str) -> JsonSchema:
    node = follow_reference(reference, schema)
    if reference.partition("/")[0] != "#" or not isinstance(node, dict | bool):
        raise DefinitionError(f"the schema refers to {reference!r}: only references within it (#/$defs/...) work")
    return node if isinstance(node, dict) else ({} if node else {"not": {}})


def _find_cycles(targets: Mapping[str, set[str]]) -> set[str]:
    """Return the names of the definitions that lead back to themselves, given those that each refers to."""

    def leads_to(goal: str, name: str, seen: set[str]) -> bool:
        seen.add(name)
        return goal in targets[name] or any(leads_to(goal, next_, seen) for next_ in targets[name] - seen)

    return {name for name in targets if leads_to(name, name, set())}
