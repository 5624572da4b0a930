"""What a callable returns: the JSON Schema of its return type, with the text of the docstring's `Returns:`."""

import inspect
import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from typing import Any, get_args, get_origin

from ..core.errors import DefinitionError
from .docstrings import read_returns
from .functions import build_type_schema
from .signature import docstring_of, read_signature
from .walk import JsonSchema

ITERATORS = (Iterator, Iterable, Generator, AsyncIterator, AsyncIterable, AsyncGenerator)
"""What is collected into a list when a tool returns it."""
SCALAR_SCHEMAS = ({"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"})
UNKNOWN_RETURNS = (Any, None, type(None), inspect.Signature.empty)


def build_output_schema(function: Callable[..., Any]) -> JsonSchema | None:
    """Return the plain JSON Schema of what `function` returns; None if neither its type nor a text is known.

    Iterators are lists, and awaitables are what they result in.  A type without a schema leaves the text alone.  A
    schema in the function's attribute `__output_schema__` takes precedence.
    """
    if declared := getattr(function, "__output_schema__", None):
        return dict(declared)
    text = read_returns(docstring_of(function))
    try:
        annotation = _unwrap(read_signature(function).return_annotation)
        schema = {} if annotation in UNKNOWN_RETURNS else build_type_schema(annotation, "serialization")
    except DefinitionError:
        schema = {}
    if text:
        schema["description"] = text
    return schema or None


def describe_returns(schema: JsonSchema | None) -> str:
    """Return an output schema in words for a tool's description: its text, and its JSON where the type is no scalar."""
    if schema is None:
        return ""
    kind = {key: value for key, value in schema.items() if key != "description"}
    written = json.dumps(kind, ensure_ascii=False, separators=(",", ":"))
    parts = [schema.get("description", ""), "" if not kind or kind in SCALAR_SCHEMAS else f"JSON Schema: {written}"]
    if kind in SCALAR_SCHEMAS and not parts[0]:
        parts = [f"{'an' if kind['type'] == 'integer' else 'a'} {kind['type']}"]
    return f"Returns: {' '.join(filter(None, parts))}"


def _unwrap(annotation: Any) -> Any:
    origin = get_origin(annotation)
    inside = get_args(annotation)
    if origin in ITERATORS and inside:
        return list[_unwrap(inside[0])]  # type: ignore[misc]
    if origin is Awaitable or origin is Coroutine:
        return _unwrap(inside[-1])
    return annotation
