"""From a callable to the JSON Schema of its arguments, and from arguments to a call.

Validation and execution are two steps with a value between them.  pydantic validates a *twin*: a function that has the
parameters of the original, all of them by keyword, and merely returns what it was given.  So an error that a tool
raises is never mistaken for bad arguments, positional-only parameters and `*args` are no special case for the model,
and no parameter name is forbidden.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticSerializationError, core_schema

from ..errors import DefinitionError
from .docstrings import Documentation, read_docstring
from .signature import name_of, plain_function, read_signature
from .walk import JsonSchema, rebuild

Kind = inspect.Parameter


class FunctionSchema:
    """The arguments of a callable: their JSON Schema, and how to turn what a model wrote into a call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.signature = read_signature(function)
        text = inspect.getdoc(plain_function(function))
        self.documentation: Documentation = read_docstring(text, self.signature.parameters)
        self._adapter = _adapter(function, self.signature)
        kinds = {parameter.kind for parameter in self.signature.parameters.values()}
        self._by_position = bool(kinds & {Kind.POSITIONAL_ONLY, Kind.VAR_POSITIONAL})

    @cached_property
    def parameters(self) -> JsonSchema:
        """The plain JSON Schema (draft 2020-12) of the arguments: always an object."""
        try:
            schema = self._adapter.json_schema(schema_generator=PlainJsonSchema)
        except PydanticUserError as error:
            raise _unrepresentable(self.function, error) from error
        schema = rebuild(schema, _without_title)
        properties = schema.setdefault("properties", {})
        for name, text in (self.documentation.parameters | _annotated_texts(self.signature)).items():
            if name in properties:
                properties[name].setdefault("description", text)
        return schema

    def bind(self, arguments: str | Mapping[str, Any]) -> "partial[Any]":
        """Validate `arguments` (JSON text or a mapping) and return the call that is ready to be made.

        Raises `pydantic.ValidationError`; never calls the function.
        """
        if isinstance(arguments, str):
            given: dict[str, Any] = self._adapter.validate_json(arguments)
        else:
            given = self._adapter.validate_python(dict(arguments))
        if not self._by_position:
            return partial(self.function, **given)
        return self._bind_by_position(given)

    def _bind_by_position(self, given: dict[str, Any]) -> "partial[Any]":
        args: list[Any] = []
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is Kind.VAR_POSITIONAL:
                args.extend(given.pop(name))
            elif parameter.kind in (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD):
                args.append(given.pop(name))
        return partial(self.function, *args, **given)


class PlainJsonSchema(GenerateJsonSchema):
    """pydantic's generator without titles, and without defaults that JSON cannot hold."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own attribute

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's name
        return False

    def encode_default(self, dft: Any) -> Any:
        value = super().encode_default(dft)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise PydanticSerializationError(str(error)) from error
        return value

    def callable_schema(self, schema: core_schema.CallableSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, "a callable")


def _adapter(function: Callable[..., Any], signature: inspect.Signature) -> TypeAdapter[dict[str, Any]]:
    def twin(**arguments: Any) -> dict[str, Any]:
        return arguments

    parameters = [_by_keyword(parameter) for parameter in signature.parameters.values()]
    parameters.sort(key=lambda parameter: parameter.kind)  # `**kwargs` stays last
    twin.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    twin.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    try:
        return TypeAdapter[dict[str, Any]](cast(Any, twin))
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError) as error:
        raise _unrepresentable(function, error) from error


def _by_keyword(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.kind is Kind.VAR_KEYWORD:
        return parameter
    if parameter.kind is Kind.VAR_POSITIONAL:
        return Kind(parameter.name, Kind.KEYWORD_ONLY, default=[], annotation=list[parameter.annotation])  # type: ignore[name-defined]
    return parameter.replace(kind=Kind.KEYWORD_ONLY)


def _unrepresentable(function: Callable[..., Any], error: Exception) -> DefinitionError:
    reason = str(error).splitlines()[0]
    return DefinitionError(
        f"{name_of(function)}: a parameter's type cannot be described to a model: {reason}. "
        "Use types that pydantic can validate (numbers, strings, lists, dataclasses, pydantic models, ...)."
    )


def _annotated_texts(signature: inspect.Signature) -> dict[str, str]:
    """The texts of `Annotated[T, "text"]`; a `Field(description=...)` is pydantic's and stands above them."""
    return {
        name: text
        for name, parameter in signature.parameters.items()
        for text in getattr(parameter.annotation, "__metadata__", ())
        if isinstance(text, str)
    }


def _without_title(schema: JsonSchema) -> JsonSchema:
    if isinstance(schema.get("title"), str):
        del schema["title"]
    return schema
