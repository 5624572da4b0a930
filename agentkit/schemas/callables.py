"""Which kind of schema the arguments of a callable have."""

from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import DefinitionError
from .annotations import Duplicates, FieldText
from .docstrings import read_docstring
from .functions import FunctionSchema
from .models import ModelSchema, find_arguments_model
from .naming import name_of_callable, to_snake_case
from .overloads import Choice, OverloadSchema, choose_signature, signatures_of
from .signature import docstring_of, name_of

CallableSchema = FunctionSchema | ModelSchema | OverloadSchema


def build_arguments(
    function: Callable[..., Any],
    texts: Mapping[str, FieldText] | None = None,
    duplicates: Duplicates = "dedupe",
    overload: Choice | None = None,
) -> CallableSchema:
    """The schema of a callable's arguments: of its parameters, of the class that holds them, or of its overloads.

    `texts`, `duplicates` and `overload` as `JsonTool` takes them.  Raises `DefinitionError`.
    """
    signatures = signatures_of(function)
    if overload is not None:
        return FunctionSchema(
            function, texts, duplicates=duplicates, signature=choose_signature(function, signatures, overload)
        )
    if signatures and texts:
        raise DefinitionError(f"{name_of(function)}: say with overload=... of which signature the texts are")
    if len(signatures) > 1:
        return OverloadSchema(function, signatures)
    if not texts and (model := find_arguments_model(function)) is not None:
        return ModelSchema(model, function)
    return FunctionSchema(function, texts, duplicates=duplicates)


def derive_name(function: Callable[..., Any], schema: CallableSchema) -> str:
    """What the tool is called if nobody says: as its class of arguments, else as the function."""
    return to_snake_case(schema.model.__name__) if isinstance(schema, ModelSchema) else name_of_callable(function)


def derive_description(function: Callable[..., Any], schema: CallableSchema) -> str:
    """What the tool is described by if nobody says: the docstring of its class of arguments, else the function's."""
    return schema.documentation.description or read_docstring(docstring_of(function), ()).description
