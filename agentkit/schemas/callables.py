"""Choose the kind of schema that the arguments of a callable have."""

from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import DefinitionError
from .annotations import Duplicates, FieldText, check_duplicates
from .docstrings import read_docstring
from .functions import Choice, FunctionSchema, OverloadSchema, choose_signature, signature_of, signatures_of
from .models import ModelSchema, find_arguments_model
from .signature import docstring_of, name_of, name_of_callable, to_snake_case

CallableSchema = FunctionSchema | ModelSchema | OverloadSchema


def build_arguments(
    function: Callable[..., Any],
    texts: Mapping[str, FieldText] | None = None,
    duplicates: Duplicates = "dedupe",
    overload: Choice | None = None,
) -> CallableSchema:
    """Return the schema of a callable's arguments: of its parameters, its class of arguments, or its overloads."""
    check_duplicates(name_of(function), duplicates)
    signatures = signatures_of(function)
    if overload is not None:
        return FunctionSchema(
            function, texts, duplicates=duplicates, signature=choose_signature(function, signatures, overload)
        )
    if signatures and texts:
        raise DefinitionError(f"{name_of(function)}: the texts need one of its signatures. Choose it with overload=...")
    if len(signatures) > 1:
        return OverloadSchema(function, signatures)
    signature = signature_of(function)
    if not texts and (model := find_arguments_model(signature)) is not None:
        return ModelSchema(model, function)
    return FunctionSchema(function, texts, duplicates=duplicates, signature=signature)


def derive_name(function: Callable[..., Any], schema: CallableSchema) -> str:
    """Return the default name of a tool: that of its class of arguments, else that of the function."""
    return to_snake_case(schema.model.__name__) if isinstance(schema, ModelSchema) else name_of_callable(function)


def derive_description(function: Callable[..., Any], schema: CallableSchema) -> str:
    """Return the default description of a tool: the docstring of its class of arguments, else the function's."""
    return schema.documentation.description or read_docstring(docstring_of(function), ()).description
