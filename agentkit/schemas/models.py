"""Arguments as one class or by a given JSON Schema, and the choice of the schema that a callable's arguments have.

The class is a pydantic model, a dataclass, a TypedDict or a NamedTuple.  Arguments of a given JSON Schema are validated
against it.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import from_json
from typing_extensions import is_typeddict

from ..core.context import is_injected
from ..core.errors import DefinitionError
from .annotations import Documentation, FieldText, read_docstring, texts_of
from .functions import (
    UNUSABLE_TYPE_ERRORS,
    Choice,
    FunctionSchema,
    OverloadSchema,
    choose_extra_keys,
    choose_signature,
    describe_type_error,
    drop_titles,
    explain_undefined,
    name_values,
    signature_of,
    signatures_of,
    text_validator,
    undefined_name,
)
from .generator import PlainJsonSchema, adapt_annotation, take_names
from .signature import docstring_of, name_of, name_of_callable, read_signature, to_snake_case
from .walk import JsonSchema, check_references, dereference_root, is_well_formed, modernize


class ModelSchema:
    """The fields of a class as the arguments, flat; `handler` is called with one instance of the class.

    Raises:
        DefinitionError: `model` is no such class, or a field has a type without a schema.
    """

    def __init__(self, model: type, handler: Callable[..., Any]) -> None:
        if not is_arguments_model(model):
            raise DefinitionError(
                f"{getattr(model, '__name__', model)!s} cannot describe a tool's arguments: it must be a pydantic "
                "model, a dataclass, a TypedDict or a NamedTuple"
            )
        self.function = handler
        self.model = model
        self.documentation = Documentation(texts_of(model).description)
        parameters = list(read_signature(handler).parameters.values())
        self.injected: Mapping[str, inspect.Parameter] = {
            entry.name: entry for entry in parameters if is_injected(entry.annotation)
        }
        self._fields = FunctionSchema(model) if issubclass(model, tuple) else None
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(adapt_annotation(model))
            self._raw, self._read_names = take_names(self._adapter.json_schema(schema_generator=PlainJsonSchema))
            self._validate_json = text_validator(self._adapter, self._read_names)
            self._extra = choose_extra_keys(self._raw, model)
        except UNUSABLE_TYPE_ERRORS as error:
            if name := undefined_name(model):
                raise DefinitionError(explain_undefined(model.__name__, name)) from error
            raise DefinitionError(
                f"{model.__name__}: a field has a type that a model cannot write ({describe_type_error(error)})."
            ) from error

    @cached_property
    def parameters(self) -> JsonSchema:
        """The plain JSON Schema of the class's fields: an object; the class's own description is the tool's."""
        if self._fields is not None:
            return self._fields.parameters
        schema = dereference_root(drop_titles(self._raw))  # a class that contains itself is one of its definitions
        schema.pop("description", None)
        schema.setdefault("properties", {})
        return schema

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> "partial[Any]":
        """Validate `arguments` and return the call of the handler; raise `pydantic.ValidationError` on bad ones."""
        if self._fields is not None:
            instance = self._fields.bind(arguments)()
        elif isinstance(arguments, str):
            instance = self._validate_json(arguments, extra=self._extra)
        else:
            instance = self._adapter.validate_python(name_values(dict(arguments), self._read_names), extra=self._extra)
        return partial(self.function, instance, **(injected or {}))


def is_arguments_model(annotation: Any) -> bool:
    """Return whether a class can hold a tool's arguments."""
    if not inspect.isclass(annotation):
        return False
    is_named_tuple = issubclass(annotation, tuple) and hasattr(annotation, "_fields")
    is_model = issubclass(annotation, BaseModel) and annotation is not BaseModel
    return is_model or dataclasses.is_dataclass(annotation) or is_typeddict(annotation) or is_named_tuple


def find_arguments_model(signature: inspect.Signature) -> type | None:
    """Return the class that holds all arguments of a function: its only parameter's type if it is named `...Args`."""
    shown = [entry for entry in signature.parameters.values() if not is_injected(entry.annotation)]
    if (
        len(shown) != 1
        or not is_arguments_model(shown[0].annotation)
        or shown[0].default is not inspect.Parameter.empty
    ):
        return None
    model: type = shown[0].annotation
    return model if model.__name__.endswith(("Args", "Arguments")) else None


MAX_SCHEMA_DEPTH = 150
"""How many lists and objects of a schema may lie inside each other; every step of a rendering is recursive."""


class RawSchema:
    """A JSON Schema of an object, and the callable that takes its properties by keyword; `name` is for errors.

    Raises:
        DefinitionError: `parameters` is not a valid schema of an object, or refers to something outside.
    """

    def __init__(self, name: str, parameters: Mapping[str, Any], call: Callable[..., Any]) -> None:
        schema = {"type": "object", "properties": {}, **parameters}
        if _is_too_deep(schema):
            raise DefinitionError(
                f"the tool {name!r}: parameters is nested too deeply, more than {MAX_SCHEMA_DEPTH} levels."
            )
        if not is_well_formed({key: value for key, value in schema.items() if key != "$id" or type(value) is not str}):
            schema = modernize(schema)
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
        if problems := [*self._validator.describe_errors(given)]:
            raise ValueError("; ".join(problems[:5]))
        return partial(self._call, **given, **(injected or {}))


def _check_by_metaschema(name: str, schema: JsonSchema) -> None:
    from jsonschema import Draft202012Validator, FormatChecker, SchemaError

    try:
        Draft202012Validator.check_schema(schema, FormatChecker(()))  # patterns are not of Python's dialect
    except SchemaError as error:
        raise DefinitionError(
            f"the tool {name!r}: parameters is not a valid JSON Schema at {error.json_path}: {error.message}"
        ) from error


def _is_too_deep(schema: JsonSchema) -> bool:
    level: list[Any] = [schema]
    for _ in range(MAX_SCHEMA_DEPTH):
        nested = [value for value in level if isinstance(value, dict | list)]
        level = [inner for value in nested for inner in (value.values() if isinstance(value, dict) else value)]
        if not level:
            return False
    return True


def _parse_object(text: str) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(f"the arguments are not valid JSON ({error})") from error


CallableSchema = FunctionSchema | ModelSchema | OverloadSchema


def build_arguments(
    function: Callable[..., Any],
    texts: Mapping[str, FieldText] | None = None,
    overload: Choice | None = None,
) -> CallableSchema:
    """Return the schema of a callable's arguments: of its parameters, its class of arguments, or its overloads."""
    signatures = signatures_of(function)
    if overload is not None:
        return FunctionSchema(function, texts, choose_signature(function, signatures, overload))
    if signatures and texts:
        raise DefinitionError(f"{name_of(function)}: the texts need one of its signatures. Choose it with overload=...")
    if len(signatures) > 1:
        return OverloadSchema(function, signatures)
    signature = signature_of(function)
    if not texts and (model := find_arguments_model(signature)) is not None:
        return ModelSchema(model, function)
    if not texts and inspect.isclass(function) and issubclass(function, BaseModel):  # its constructor has no types
        return ModelSchema(function, keep_instance)
    return FunctionSchema(function, texts, signature)


def keep_instance(instance: Any) -> Any:
    """Return an instance of a class of arguments: the handler of a tool that only makes it."""
    return instance


def name_of_model(model: type) -> str:
    """Return the default name of a tool with these arguments: that of `annotate`, else the class's in snake case."""
    return texts_of(model).name or to_snake_case(model.__name__)


def derive_name(function: Callable[..., Any], schema: CallableSchema) -> str:
    """Return the default name of a tool: that of its class of arguments, else that of the function."""
    return name_of_model(schema.model) if isinstance(schema, ModelSchema) else name_of_callable(function)


def derive_description(function: Callable[..., Any], schema: CallableSchema) -> str:
    """Return the default description of a tool: the docstring of its class of arguments, else the function's."""
    return schema.documentation.description or read_docstring(docstring_of(function), ()).description
