"""From a callable or a type to plain JSON Schema (draft 2020-12), and from arguments to a call."""

from .function import FunctionSchema
from .references import inline, is_recursive
from .signature import name_of, plain_function
from .walk import JsonSchema, children, rebuild

__all__ = ["FunctionSchema", "JsonSchema", "children", "inline", "is_recursive", "name_of", "plain_function", "rebuild"]
