"""Values that a schema takes, compared keyword by keyword: types, enums, bounds."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from .. import JsonSchema
from .changes import Difference, Kind

TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
LOWER = ("minLength", "minItems", "minProperties", "minContains")
UPPER = ("maxLength", "maxItems", "maxProperties", "maxContains")
At = tuple[str, ...]
SHOWN = 60
"""How many characters of a value a message shows."""


def types_of(schema: JsonSchema) -> frozenset[str]:
    """The types of the values that a schema may take; a number may be an integer."""
    kinds = schema.get("type")
    if kinds is None:
        values = values_of(schema)
        return TYPES if values is None else frozenset(_type_of(json.loads(value)) for value in values)
    named = frozenset([kinds] if isinstance(kinds, str) else kinds)
    return named | {"integer"} if "number" in named else named


def values_of(schema: JsonSchema) -> list[str] | None:
    """The only values that a schema takes, as JSON texts; None if it does not list them."""
    if "const" in schema:
        return [_json(schema["const"])]
    return [_json(value) for value in schema["enum"]] if isinstance(schema.get("enum"), list) else None


def value_changes(old: JsonSchema, new: JsonSchema, at: At) -> Iterator[Difference]:
    """What changed in the values of two schemas of the same or similar type."""
    yield from _types(old, new, at)
    yield from _enums(old, new, at)
    yield from _bound(_lowest(old), _lowest(new), "minimum", at, lambda before, after: after > before)
    yield from _bound(_highest(old), _highest(new), "maximum", at, lambda before, after: after < before)
    for keyword in LOWER:
        yield from _bound(old.get(keyword) or None, new.get(keyword) or None, keyword, at, lambda a, b: b > a)
    for keyword in UPPER:
        yield from _bound(old.get(keyword), new.get(keyword), keyword, at, lambda before, after: after < before)
    yield from _bound(old.get("multipleOf"), new.get("multipleOf"), "multipleOf", at, lambda a, b: a % b != 0)
    if bool(old.get("uniqueItems")) != bool(new.get("uniqueItems")):
        message = "items must now differ" if new.get("uniqueItems") else "items may now be equal"
        yield Difference(at, "breaking" if new.get("uniqueItems") else "compatible", message)


def type_words(schema: JsonSchema) -> str:
    """The type of a schema in a word or two, for a message."""
    values = values_of(schema)
    if values is not None and len(values) <= 3:
        return " or ".join(values)
    named = types_of(schema)
    return "anything" if named == TYPES else " or ".join(sorted(named - ({"integer"} if "number" in named else set())))


def _types(old: JsonSchema, new: JsonSchema, at: At) -> Iterator[Difference]:
    before, after = types_of(old), types_of(new)
    if before != after and values_of(old) is None:
        kind: Kind = "compatible" if before <= after else "breaking"
        yield Difference(at, kind, f"type {type_words(old)} -> {type_words(new)}")


def _enums(old: JsonSchema, new: JsonSchema, at: At) -> Iterator[Difference]:
    before, after = values_of(old), values_of(new)
    if before is None and after is not None:
        yield Difference(at, "breaking", f"takes only {', '.join(after)} now")
    elif before is not None and after is None:
        fits = {_type_of(json.loads(value)) for value in before} <= types_of(new)
        yield Difference(at, "compatible" if fits else "breaking", f"takes any {type_words(new)} now")
    elif before is not None and after is not None:
        if removed := [value for value in before if value not in after]:
            yield Difference(at, "breaking", f"no longer takes {', '.join(removed)}")
        if added := [value for value in after if value not in before]:
            yield Difference(at, "compatible", f"now also takes {', '.join(added)}")


def _bound(before: Any, after: Any, name: str, at: At, is_narrower: Callable[[Any, Any], bool]) -> Iterator[Difference]:
    if before == after:
        return
    narrower = after is not None and (before is None or is_narrower(before, after))
    yield Difference(at, "breaking" if narrower else "compatible", f"{name} {_shown(before)} -> {_shown(after)}")


def _lowest(schema: JsonSchema) -> tuple[float, int] | None:
    """The lower bound, the larger of two: (value, 1 if the value itself is excluded)."""
    bounds = [(schema[key], excluded) for key, excluded in _LOWEST if isinstance(schema.get(key), int | float)]
    if bounds and schema.get("type") == "integer":
        bounds = [(value + excluded, 0) for value, excluded in bounds]
    return max(bounds, default=None)


def _highest(schema: JsonSchema) -> tuple[float, int] | None:
    """The upper bound, the smaller of two: (value, -1 if the value itself is excluded)."""
    bounds = [(schema[key], excluded) for key, excluded in _HIGHEST if isinstance(schema.get(key), int | float)]
    if bounds and schema.get("type") == "integer":
        bounds = [(value + excluded, 0) for value, excluded in bounds]
    return min(bounds, default=None)


_LOWEST = (("minimum", 0), ("exclusiveMinimum", 1))
_HIGHEST = (("maximum", 0), ("exclusiveMaximum", -1))


def _shown(bound: Any) -> str:
    if isinstance(bound, tuple):
        value, excluded = bound
        return f"{value} (excluded)" if excluded else str(value)
    return "none" if bound is None else str(bound)


def _type_of(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def in_short(value: Any) -> str:
    """A value as JSON, cut where it is long."""
    text = _json(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
