"""Walk a JSON Schema: only places that hold a schema are visited, not data or properties that share a name."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, TypeAlias

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
