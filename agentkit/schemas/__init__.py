"""From a callable or a type to plain JSON Schema (draft 2020-12), and from arguments to a call.

Rendering a schema for one provider is in `formats/`.  Tools, the loop and models do not belong here.
"""

from .annotations import Duplicates, FieldText, annotate, texts_of, unknown_name_error
from .functions import Choice, FunctionSchema, build_type_schema
from .models import (
    CallableSchema,
    ModelSchema,
    build_arguments,
    derive_description,
    derive_name,
    is_arguments_model,
    name_of_model,
)
from .signature import (
    check_description,
    check_name,
    docstring_of,
    iter_wrapped,
    name_of,
    to_snake_case,
    unwrap_function,
)
from .walk import JsonSchema, inline, iter_children, rebuild

__all__ = [
    "CallableSchema",
    "Choice",
    "Duplicates",
    "FieldText",
    "FunctionSchema",
    "JsonSchema",
    "ModelSchema",
    "annotate",
    "build_arguments",
    "build_type_schema",
    "check_description",
    "check_name",
    "derive_description",
    "derive_name",
    "docstring_of",
    "inline",
    "is_arguments_model",
    "iter_children",
    "iter_wrapped",
    "name_of",
    "name_of_model",
    "rebuild",
    "texts_of",
    "to_snake_case",
    "unknown_name_error",
    "unwrap_function",
]
