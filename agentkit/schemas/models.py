"""Arguments in one class: a pydantic model, a dataclass, a TypedDict or a NamedTuple."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from pydantic import BaseModel, TypeAdapter
from typing_extensions import is_typeddict

from ..core.context import is_injected
from ..core.errors import DefinitionError
from .annotations import texts_of
from .docstrings import Documentation
from .functions import FunctionSchema, drop_titles
from .generator import PlainJsonSchema
from .pydantic_types import adapt_annotation
from .signature import read_signature
from .twin import UNUSABLE_TYPE_ERRORS, choose_extra_keys, describe_error, explain_undefined, undefined_name
from .walk import JsonSchema


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
            self._raw = self._adapter.json_schema(schema_generator=PlainJsonSchema)
            self._extra = choose_extra_keys(self._raw, model)
        except UNUSABLE_TYPE_ERRORS as error:
            if name := undefined_name(model):
                raise DefinitionError(explain_undefined(model.__name__, name)) from error
            raise DefinitionError(
                f"{model.__name__}: a field has a type that a model cannot write ({describe_error(error)})."
            ) from error

    @cached_property
    def parameters(self) -> JsonSchema:
        """The plain JSON Schema of the class's fields: an object; the class's own description is the tool's."""
        if self._fields is not None:
            return self._fields.parameters
        schema = drop_titles(self._raw)
        if "$ref" in schema:  # a class that contains itself: the root is taken out of its definitions
            name = schema.pop("$ref").removeprefix("#/$defs/")
            schema = {**schema["$defs"][name], "properties": {**schema["$defs"][name]["properties"]}, **schema}
        schema.pop("description", None)
        schema.setdefault("properties", {})
        return schema

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> "partial[Any]":
        """Validate `arguments` and return the call of the handler; raise `pydantic.ValidationError` on bad ones."""
        if self._fields is not None:
            instance = self._fields.bind(arguments)()
        elif isinstance(arguments, str):
            instance = self._adapter.validate_json(arguments, extra=self._extra)
        else:
            instance = self._adapter.validate_python(dict(arguments), extra=self._extra)
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
