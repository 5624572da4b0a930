"""Arguments described by a given JSON Schema, and validated against it."""

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from pydantic_core import from_json

from ..core.errors import DefinitionError
from .references import check_references
from .walk import JsonSchema
from .well_formed import is_well_formed

MAX_DEPTH = 150
"""How many lists and objects of a schema may lie inside each other; every step of a rendering is recursive."""


class RawSchema:
    """A JSON Schema of an object, and the callable that takes its properties by keyword; `name` is for errors.

    Raises:
        DefinitionError: `parameters` is not a valid schema of an object, or refers to something outside.
    """

    def __init__(self, name: str, parameters: Mapping[str, Any], call: Callable[..., Any]) -> None:
        schema = {"type": "object", "properties": {}, **parameters}
        if _is_too_deep(schema):
            raise DefinitionError(f"the tool {name!r}: parameters is nested too deeply, more than {MAX_DEPTH} levels.")
        if not is_well_formed(schema):
            _check_by_metaschema(name, schema)
        if schema["type"] != "object":
            raise DefinitionError(f"the tool {name!r}: parameters must have type 'object', got {schema['type']!r}")
        check_references(schema)
        self.parameters: JsonSchema = schema
        self.injected: Mapping[str, inspect.Parameter] = {}
        self._call = call

    @cached_property
    def _validator(self) -> Any:
        from .safe_validator import SafeValidator  # imports jsonschema

        return SafeValidator(self.parameters)

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> "partial[Any]":
        """Validate `arguments` (JSON text or a mapping) and return the call; raise `ValueError` for bad ones."""
        given = _parse_object(arguments) if isinstance(arguments, str) else dict(arguments)
        if not isinstance(given, dict):
            names = ", ".join(self.parameters["properties"]) or "none"
            raise ValueError(f"the arguments must be one JSON object with the parameters {names}")
        if findings := [f"{_format_path(error)}{error.message}" for error in self._validator.iter_errors(given)]:
            raise ValueError("; ".join(findings[:5]))
        return partial(self._call, **given, **(injected or {}))


def _check_by_metaschema(name: str, schema: JsonSchema) -> None:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise DefinitionError(
            f"the tool {name!r}: parameters is not a valid JSON Schema at {error.json_path}: {error.message}"
        ) from error


def _is_too_deep(schema: JsonSchema) -> bool:
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        nested = [value for value in level if isinstance(value, dict | list)]
        level = [inner for value in nested for inner in (value.values() if isinstance(value, dict) else value)]
        if not level:
            return False
    return True


def _format_path(error: Any) -> str:
    path = ".".join(map(str, error.absolute_path))
    return f"{path}: " if path else ""


def _parse_object(text: str) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(f"the arguments are not valid JSON ({error})") from error
