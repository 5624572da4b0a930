"""A validator of JSON Schema (draft 2020-12) for schemas that may be hostile.

Patterns run in linear time, and a validation follows a limited number of references: a small schema whose definitions
refer to each other twice would otherwise take exponential time.
"""

import json
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from referencing import Registry

from .walk import JsonSchema, matches, rebuild

MAX_REFERENCES_FOLLOWED = 10_000
"""How many references one validation follows: 1.2 kB by a schema of 354 definitions (of a log collector) need 5,814."""
REGISTRY: Registry[Any] = Registry()
"""Resolves references within the given schema only: nothing is fetched."""
_followed: ContextVar[list[None]] = ContextVar("followed")


class SafeValidator:
    """Validates values by a schema of draft 2020-12.

    `unevaluatedProperties` beside `patternProperties` is not checked: jsonschema runs their patterns by itself.
    """

    def __init__(self, schema: JsonSchema) -> None:
        if "patternProperties" in json.dumps(schema):
            dropped = "unevaluatedProperties"
            schema = rebuild(schema, lambda node: {key: value for key, value in node.items() if key != dropped})
        self._validator = _Validator(schema, registry=REGISTRY)

    def iter_errors(self, value: Any) -> Iterator[ValidationError]:
        """Yield the errors of `value` as jsonschema reports them; raise `TooManyReferences` at that limit."""
        _followed.set([])
        yield from self._validator.iter_errors(value)

    def describe_errors(self, value: Any) -> Iterator[str]:
        """Yield the errors of `value` as texts, each with its path; raise `TooManyReferences` at that limit."""
        for error in self.iter_errors(value):
            path = ".".join(map(str, error.absolute_path))
            yield f"{path}: {error.message}" if path else error.message


class TooManyReferences(ValueError):
    """A validation was stopped, because it followed more references than any sensible schema needs."""


def _check_pattern(_: Any, pattern: str, value: Any, __: JsonSchema) -> Iterator[ValidationError]:
    if isinstance(value, str) and matches(pattern, value) is False:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _check_pattern_properties(
    validator: Any, patterns: Mapping[str, Any], value: Any, _: JsonSchema
) -> Iterator[ValidationError]:
    for pattern, schema in patterns.items() if isinstance(value, dict) else ():
        for key, inner in value.items():
            if matches(pattern, key):
                yield from validator.descend(inner, schema, path=key, schema_path=pattern)


def _check_additional_properties(
    validator: Any, values: Any, value: Any, schema: JsonSchema
) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    patterns = schema.get("patternProperties", {})
    declared = schema.get("properties", {})
    extra = [key for key in value if key not in declared and not any(matches(it, key) is not False for it in patterns)]
    if isinstance(values, dict):
        for key in extra:
            yield from validator.descend(value[key], values, path=key)
    elif not values and extra:
        names = ", ".join(map(repr, extra))
        yield ValidationError(f"Additional properties are not allowed ({names} unexpected)")


def _follow(validator: Any, reference: str, value: Any, schema: JsonSchema) -> Iterator[ValidationError]:
    followed = _followed.get()
    followed.append(None)
    if len(followed) > MAX_REFERENCES_FOLLOWED:
        raise TooManyReferences(f"the schema refers to itself too often: more than {MAX_REFERENCES_FOLLOWED} times")
    yield from Draft202012Validator.VALIDATORS["$ref"](validator, reference, value, schema)


_extend: Any = extend  # untyped
_Validator = _extend(
    Draft202012Validator,
    {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "$ref": _follow,
        "$dynamicRef": _follow,
    },
)
