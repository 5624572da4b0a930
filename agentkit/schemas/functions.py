"""From a callable to the JSON Schema of its arguments, and from arguments to a call.

Validation and execution are two steps with a value between them.  pydantic validates a *twin*: a function with the
original's parameters, all by keyword, that returns its arguments.  So an error that a tool raises is never mistaken
for bad arguments, positional-only parameters and `*args` need no special case, and every parameter name works.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Literal

from pydantic import TypeAdapter

from ..core.context import is_injected, is_injected_inside
from ..core.errors import DefinitionError
from .annotations import Duplicates, FieldText, read_field_text, read_metadata_text, unknown_name_error
from .docstrings import Documentation, read_docstring
from .enum_values import add_keywords, restrict
from .generator import PlainJsonSchema
from .pydantic_types import adapt_annotation
from .signature import MISSING, Kind, docstring_of, name_of, read_signature
from .twin import UNUSABLE_TYPE_ERRORS, build_twin, choose_extra_keys, describe_error, describe_type
from .walk import JsonSchema, iter_children


class FunctionSchema:
    """The arguments of a callable: their JSON Schema, and the binding of a model's arguments to a call.

    Args:
        function: Any callable with a signature.
        texts: Descriptions of parameters, which replace those of the function: a string, or a mapping with
            `description` and `enum`.
        duplicates: Whether repeated enum values are dropped ("dedupe") or refused ("error").
        signature: The signature to use instead of the function's own, of an overload for example.

    Attributes:
        injected: The parameters that the agent fills.
        omitted: The types without a schema, by parameter: an alternative, or the whole parameter with its default.
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
        self.injected: Mapping[str, inspect.Parameter] = {
            name: parameter for name, parameter in signature.parameters.items() if is_injected(parameter.annotation)
        }
        shown = [parameter for parameter in signature.parameters.values() if parameter.name not in self.injected]
        _refuse_inner_marks(function, shown)
        self.documentation: Documentation = read_docstring(docstring_of(function), [entry.name for entry in shown])
        self._texts = _read_texts(function, texts or {}, shown, duplicates)
        shown = [_restrict_to_enum(parameter, self._texts.get(parameter.name, {})) for parameter in shown]
        twin = build_twin(function, shown)
        self._shown, self._adapter, self._raw = twin.parameters, twin.adapter, twin.schema
        self.omitted: Mapping[str, str] = twin.omitted
        self._extra = choose_extra_keys({**self._raw, "additionalProperties": False})
        validate_json = self._adapter.validator.validate_json  # without its wrapper, because every call uses it
        self._validate_json = partial(validate_json, extra=self._extra) if "$defs" in self._raw else validate_json
        self._order = list(signature.parameters.values())
        kinds = {parameter.kind for parameter in self._order}
        self._by_position = bool(kinds & {Kind.POSITIONAL_ONLY, Kind.VAR_POSITIONAL})
        self._leaves_out = any(parameter.default is MISSING for parameter in (*self._shown, *self.injected.values()))
        self._is_plain = not self._by_position and not self._leaves_out

    @cached_property
    def parameters(self) -> JsonSchema:
        """The plain JSON Schema (draft 2020-12) of the arguments: always an object."""
        schema = drop_titles(self._raw)
        properties = schema.setdefault("properties", {})
        annotated = {parameter.name: read_metadata_text(parameter.annotation) for parameter in self._shown}
        for name, place in properties.items():
            if text := annotated.get(name) or self.documentation.parameters.get(name):
                place.setdefault("description", text)
            add_keywords(place, self._texts.get(name, {}))
        self._describe_extra_keys(schema)
        return schema

    def _describe_extra_keys(self, schema: JsonSchema) -> None:
        """Put the text of `**kwargs` into the schema of the keys that are not declared."""
        extra = next((entry for entry in self._shown if entry.kind is Kind.VAR_KEYWORD), None)
        if extra is None:
            return
        given = self._texts.get(extra.name, {}).get("description") or read_metadata_text(extra.annotation)
        if text := given or self.documentation.parameters.get(extra.name):
            values = schema.get("additionalProperties")
            schema["additionalProperties"] = {**(values if isinstance(values, dict) else {}), "description": text}

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> "partial[Any]":
        """Validate `arguments` (JSON text or a mapping) and return the call; raise `pydantic.ValidationError`."""
        if isinstance(arguments, str):
            given: dict[str, Any] = self._validate_json(arguments)
            if self._is_plain and not injected:
                return partial(self.function, **given)
        else:
            given = self._adapter.validate_python(dict(arguments), extra=self._extra)
        if injected:
            given |= injected
        if self._leaves_out:
            given = {name: value for name, value in given.items() if value is not MISSING}
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


def _refuse_inner_marks(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    for parameter in parameters:
        if is_injected_inside(parameter.annotation):
            raise DefinitionError(
                f"{name_of(function)}: the parameter {parameter.name!r} has Injected inside another type, where it has "
                "no effect. Mark the whole parameter: Injected[...]."
            )


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
    """Return the parameter with the given enum values in its type, where that is possible."""
    if "enum" not in text:
        return parameter
    return parameter.replace(annotation=restrict(parameter.annotation, text["enum"], parameter.name))


def build_type_schema(type_: Any, mode: Literal["validation", "serialization"] = "validation") -> JsonSchema:
    """Return the plain JSON Schema of a type, as it is read or written; raise `DefinitionError` if it has none."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(adapt_annotation(type_))
        return drop_titles(adapter.json_schema(schema_generator=PlainJsonSchema, mode=mode))
    except UNUSABLE_TYPE_ERRORS as error:
        raise DefinitionError(f"{describe_type(type_)} has no JSON Schema: {describe_error(error)}.") from error


def drop_titles(schema: JsonSchema) -> JsonSchema:
    """Remove the titles of a schema and of those in it, in place, and return it; a property called title stays."""
    if isinstance(schema.get("title"), str):
        del schema["title"]
    for _, inner in iter_children(schema):
        drop_titles(inner)
    return schema
