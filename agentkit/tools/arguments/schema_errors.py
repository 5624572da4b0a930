"""What is wrong with arguments by the letter of their JSON Schema; for tools that have nothing but one."""

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry

from ...schemas import JsonSchema
from .problem import Finding

REGISTRY: Registry[Any] = Registry()
"""Knows no schema but the given one: nothing is ever fetched."""


def mismatches(given: Any, parameters: JsonSchema) -> list[Finding]:
    """Each mistake in `given`; of alternatives that all fail, the mistakes in each."""
    errors = Draft202012Validator(parameters, registry=REGISTRY).iter_errors(given)
    return list(dict.fromkeys(finding for error in errors for finding in _findings(error)))


def _findings(error: ValidationError) -> Iterator[Finding]:
    path = tuple(error.absolute_path)
    given: Any = error.instance
    wanted: Any = error.validator_value
    if error.context:
        yield from (finding for inner in error.context for finding in _findings(inner))
    elif error.validator == "required" and isinstance(given, dict):
        yield from (Finding((*path, key), "missing") for key in wanted if key not in given)
    elif error.validator == "additionalProperties" and isinstance(given, dict) and wanted is False:
        declared = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        yield from (Finding((*path, key), "unknown") for key in given if key not in declared)
    else:
        yield Finding(path, "value", _message(error))


def _message(error: ValidationError) -> str:
    """jsonschema's message without the value, which it repeats at any length."""
    shown = repr(error.instance)
    return error.message.removeprefix(shown).strip() or error.message
