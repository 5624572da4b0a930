"""From a callable to the JSON Schema of its arguments, and from arguments to a call.

Validation and execution are two steps with a value between them.  pydantic validates a *twin*: a function with the
original's parameters, all by keyword, that returns its arguments.  So an error that a tool raises is never mistaken
for bad arguments, positional-only parameters and `*args` need no special case, and every parameter name works.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Literal, cast

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError

from ..core.context import is_injected
from ..core.errors import DefinitionError
from .annotations import Duplicates, FieldText, read_field_text, read_metadata_text, unknown_name_error
from .docstrings import Documentation, read_docstring
from .extra_keys import choose_extra_keys
from .generator import PlainJsonSchema
from .pydantic_types import adapt_annotation
from .signature import MISSING, Kind, docstring_of, name_of, read_signature
from .walk import JsonSchema, rebuild

UNUSABLE_TYPE_ERRORS = (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError)


class FunctionSchema:
    """The arguments of a callable: their JSON Schema, and the binding of a model's arguments to a call.

    Args:
        function: Any callable with a signature.
        texts: Descriptions of parameters, which replace those of the function: a string, or a mapping with
            `description` and `enum`.
        duplicates: Whether repeated enum values are dropped ("dedupe") or refused ("error").
        signature: The signature to use instead of the function's own, of an overload for example.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        texts: Mapping[str, FieldText] | None = None,
        *,
        duplicates: Duplicates = "dedupe",
        signature: inspect.Signature | None = None,
    ) -> None:
        self.function = function
        signature = signature or read_signature(function)
        self.injected: Mapping[str, Any] = {
            parameter.name: parameter.annotation
            for parameter in signature.parameters.values()
            if is_injected(parameter.annotation)
        }
        shown = [parameter for parameter in signature.parameters.values() if parameter.name not in self.injected]
        self.documentation: Documentation = read_docstring(docstring_of(function), [entry.name for entry in shown])
        self._texts = _read_texts(function, texts or {}, shown, duplicates)
        shown = [_restrict_to_enum(parameter, self._texts.get(parameter.name, {})) for parameter in shown]
        self._shown, self._adapter, self._raw = _build_usable(function, shown)
        self._extra = choose_extra_keys({**self._raw, "additionalProperties": False})
        validate_json = self._adapter.validator.validate_json  # without its wrapper, because every call uses it
        self._validate_json = partial(validate_json, extra=self._extra) if "$defs" in self._raw else validate_json
        self._order = list(signature.parameters.values())
        kinds = {parameter.kind for parameter in self._order}
        self._by_position = bool(kinds & {Kind.POSITIONAL_ONLY, Kind.VAR_POSITIONAL})
        self._leaves_out = any(parameter.default is MISSING for parameter in self._shown)
        self._is_plain = not self._by_position and not self._leaves_out

    @cached_property
    def parameters(self) -> JsonSchema:
        """The plain JSON Schema (draft 2020-12) of the arguments: always an object."""
        schema = rebuild(self._raw, drop_title)
        properties = schema.setdefault("properties", {})
        annotated = {parameter.name: read_metadata_text(parameter.annotation) for parameter in self._shown}
        for name, place in properties.items():
            if text := annotated.get(name) or self.documentation.parameters.get(name):
                place.setdefault("description", text)
            place |= self._texts.get(name, {})
        return schema

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> "partial[Any]":
        """Validate `arguments` and return the call without making it.

        Args:
            arguments: JSON text or a mapping.
            injected: The values of the parameters that the model does not see.

        Raises:
            pydantic.ValidationError: The arguments do not fit the signature.
        """
        if isinstance(arguments, str):
            given: dict[str, Any] = self._validate_json(arguments)
            if self._is_plain and not injected:
                return partial(self.function, **given)
        else:
            given = self._adapter.validate_python(dict(arguments), extra=self._extra)
        if self._leaves_out:
            given = {name: value for name, value in given.items() if value is not MISSING}
        if injected:
            given |= injected
        if not self._by_position:
            return partial(self.function, **given)
        return self._bind_by_position(given)

    def _bind_by_position(self, given: dict[str, Any]) -> "partial[Any]":
        args: list[Any] = []
        for parameter in self._order:
            if parameter.kind is Kind.VAR_POSITIONAL:
                args.extend(given.pop(parameter.name))
            elif parameter.kind in (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD) and parameter.name in given:
                args.append(given.pop(parameter.name))
        return partial(self.function, *args, **given)


def _read_texts(
    function: Callable[..., Any],
    texts: Mapping[str, FieldText],
    parameters: list[inspect.Parameter],
    duplicates: Duplicates,
) -> dict[str, JsonSchema]:
    names = [parameter.name for parameter in parameters]
    for name in texts:
        if name not in names:
            raise unknown_name_error(name_of(function), "parameter", name, names)
    return {name: read_field_text(f"{name_of(function)}: {name}", text, duplicates) for name, text in texts.items()}


def _restrict_to_enum(parameter: inspect.Parameter, text: JsonSchema) -> inspect.Parameter:
    """Return a string parameter with the given enum values as its type."""
    if "enum" not in text or parameter.annotation is not str:
        return parameter
    return parameter.replace(annotation=Literal[tuple(text["enum"])])


def _build_usable(
    function: Callable[..., Any], parameters: list[inspect.Parameter]
) -> tuple[list[inspect.Parameter], "TypeAdapter[dict[str, Any]]", JsonSchema]:
    """Return the parameters that can be shown to a model, their validator and their schema.

    A parameter that cannot be shown keeps its default; without one, `DefinitionError` is raised.
    """
    parameters = [parameter.replace(annotation=adapt_annotation(parameter.annotation)) for parameter in parameters]
    try:
        adapter = _build_adapter(parameters)
        return parameters, adapter, adapter.json_schema(schema_generator=PlainJsonSchema)
    except UNUSABLE_TYPE_ERRORS:
        parameters = [parameter for parameter in parameters if _is_usable(function, parameter)]
        adapter = _build_adapter(parameters)
        return parameters, adapter, adapter.json_schema(schema_generator=PlainJsonSchema)


def _is_usable(function: Callable[..., Any], parameter: inspect.Parameter) -> bool:
    try:
        _build_adapter([parameter]).json_schema(schema_generator=PlainJsonSchema)
    except UNUSABLE_TYPE_ERRORS as error:
        if parameter.default is not Kind.empty:
            return False
        type_name = getattr(parameter.annotation, "__name__", str(parameter.annotation))
        reason = str(error).splitlines()[0].partition(". ")[0].rstrip(".")
        raise DefinitionError(
            f"{name_of(function)}: the parameter {parameter.name!r} has the type {type_name}, which a model cannot "
            f"write ({reason}). Use a type that pydantic can validate from JSON (numbers, strings, lists, dataclasses, "
            f"models), give it a default, or hide it from the model: {parameter.name}: Injected[{type_name}]."
        ) from error
    return True


def _build_adapter(parameters: list[inspect.Parameter]) -> TypeAdapter[dict[str, Any]]:
    def twin(**arguments: Any) -> dict[str, Any]:
        return arguments

    by_keyword = sorted(
        (_make_keyword_only(parameter) for parameter in parameters), key=lambda parameter: parameter.kind
    )
    twin.__signature__ = inspect.Signature(by_keyword)  # type: ignore[attr-defined]
    twin.__annotations__ = {parameter.name: parameter.annotation for parameter in by_keyword}
    return TypeAdapter[dict[str, Any]](cast(Any, twin))


def _make_keyword_only(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.kind is Kind.VAR_KEYWORD:
        return parameter
    if parameter.kind is Kind.VAR_POSITIONAL:
        return Kind(parameter.name, Kind.KEYWORD_ONLY, default=[], annotation=list[parameter.annotation])  # type: ignore[name-defined]
    return parameter.replace(kind=Kind.KEYWORD_ONLY)


def build_type_schema(type_: Any) -> JsonSchema:
    """Return the plain JSON Schema of a type; raise `DefinitionError` if it has none."""
    try:
        return rebuild(TypeAdapter(adapt_annotation(type_)).json_schema(schema_generator=PlainJsonSchema), drop_title)
    except UNUSABLE_TYPE_ERRORS as error:
        raise DefinitionError(f"{type_!r} has no JSON Schema: {str(error).splitlines()[0]}") from error


def drop_title(schema: JsonSchema) -> JsonSchema:
    """Remove the title of one schema, and return it; a property called title stays."""
    if isinstance(schema.get("title"), str):
        del schema["title"]
    return schema
