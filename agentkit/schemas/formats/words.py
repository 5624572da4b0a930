"""Keywords in few words, for a description that has to say what a dialect cannot."""

import json
from collections.abc import Callable
from typing import Any

LONGEST = 1000
"""How many characters of JSON a description may get for one keyword."""


def as_json(value: Any) -> str:
    """`value` as JSON text, readable in every script."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _listed(values: Any) -> str:
    return ", ".join(map(as_json, values)) if isinstance(values, list) else as_json(values)


_WORDS: dict[str, Callable[[Any], str]] = {
    "minimum": lambda bound: f"at least {bound}",
    "maximum": lambda bound: f"at most {bound}",
    "exclusiveMinimum": lambda bound: f"more than {bound}",
    "exclusiveMaximum": lambda bound: f"less than {bound}",
    "multipleOf": lambda step: f"a multiple of {step}",
    "minLength": lambda count: f"at least {count} characters",
    "maxLength": lambda count: f"at most {count} characters",
    "minItems": lambda count: f"at least {count} items",
    "maxItems": lambda count: f"at most {count} items",
    "minProperties": lambda count: f"at least {count} keys",
    "maxProperties": lambda count: f"at most {count} keys",
    "uniqueItems": lambda unique: "each item once" if unique else "",
    "deprecated": lambda old: "deprecated" if old else "",
    "readOnly": lambda fixed: "read-only" if fixed else "",
    "writeOnly": lambda secret: "write-only" if secret else "",
    "pattern": lambda pattern: f"pattern: {pattern}",
    "format": lambda name: f"format: {name}",
    "contentEncoding": lambda name: f"encoding: {name}",
    "contentMediaType": lambda name: f"media type: {name}",
    "enum": lambda values: f"one of: {_listed(values)}",
    "const": lambda value: f"always {as_json(value)}",
    "examples": lambda values: f"for example: {_listed(values)}",
    "prefixItems": lambda places: f"in this order: {', '.join(map(in_short, places))}",
    "additionalProperties": lambda values: f"any keys{_of(values)}",
    "patternProperties": lambda keys: "; ".join(f"keys like {key}{_of(value)}" for key, value in keys.items()),
}


def said(keyword: str, value: Any) -> str:
    """The keyword in words, "" when it says nothing: `minLength`, 3 -> "at least 3 characters"."""
    return _WORDS[keyword](value) if keyword in _WORDS else f"{keyword}: {as_json(value)}"


def in_short(schema: Any) -> str:
    """A schema in a word or two: "integer", "one of: 1, 2", or its JSON."""
    if schema is True or schema == {}:
        return "anything"
    if isinstance(schema, dict) and set(schema) == {"type"} and isinstance(schema["type"], str):
        return schema["type"]
    return as_json(schema)


def _of(values: Any) -> str:
    return "" if values is True or values == {} else f", each value: {in_short(values)}"
