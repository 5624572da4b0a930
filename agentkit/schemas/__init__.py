"""From a callable or a type to plain JSON Schema (draft 2020-12), and from arguments to a call."""

from .annotations import Duplicates, FieldText, annotate, texts_of, unknown_name
from .callables import CallableSchema, arguments_of, own_name, own_text
from .functions import FunctionSchema, type_schema
from .models import ModelSchema, is_arguments_model
from .naming import check_description, check_name, snake_case
from .overloads import Choice
from .references import inline
from .signature import docstring_of, name_of, plain_function
from .walk import JsonSchema, children, rebuild

__all__ = [
    "CallableSchema",
    "Choice",
    "Duplicates",
    "FieldText",
    "FunctionSchema",
    "JsonSchema",
    "ModelSchema",
    "annotate",
    "arguments_of",
    "check_description",
    "check_name",
    "children",
    "docstring_of",
    "inline",
    "is_arguments_model",
    "name_of",
    "own_name",
    "own_text",
    "plain_function",
    "rebuild",
    "snake_case",
    "texts_of",
    "type_schema",
    "unknown_name",
]
