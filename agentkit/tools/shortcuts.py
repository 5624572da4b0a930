"""Functions for a single task: the schema of a callable or a type, or one call."""

from collections.abc import Callable
from typing import Any, NewType, TypeVar, get_origin

from typing_extensions import TypeAliasType

from ..schemas import (
    ModelSchema,
    build_arguments,
    build_type_schema,
    derive_description,
    derive_name,
    is_arguments_model,
    name_of_model,
    texts_of,
)
from ..schemas.formats import Declaration, References, render
from .json_tool import JsonTool

R = TypeVar("R")


def schema(of: Any, *, format: str = "json", references: References = "inline") -> dict[str, Any]:
    """Return the schema of a callable, a tool or a type, in a provider's dialect.

    Args:
        of: A callable (a docstring is not required here), a tool, or any type that pydantic can validate.  A class with
            fields is described by them.  Any other type is under `answer`, except in plain JSON Schema.
        format: json, openai, openai_strict, responses, response_format, anthropic, gemini or mcp.
        references: "inline", or "keep" for `$defs` where the dialect supports them.

    Raises:
        DefinitionError: the callable or the type cannot be described.
    """
    return render(_declare(of, format), format, references).schema


def function_to_json(function: Callable[..., Any]) -> dict[str, Any]:
    """Return OpenAI's tool dict: `{"type": "function", "function": {"name", "description", "parameters"}}`."""
    return schema(function, format="openai")


def call_function(function: Callable[..., R], call: Any) -> R:
    """Call `function` with the arguments of `call`: a mapping, JSON text, or a call as any provider writes it.

    Raises:
        ValueError: the arguments are invalid.
        Exception: anything that the function raises.
    """
    tool: JsonTool[..., R] = function if isinstance(function, JsonTool) else _make_bare_tool(function)
    return tool.call(call)


def _make_bare_tool(function: Callable[..., R]) -> "JsonTool[..., R]":
    name = getattr(function, "__name__", "function")
    return JsonTool(function, name="function" if name == "<lambda>" else None, description=name)


def _declare(of: Any, format: str) -> Declaration:
    if is_arguments_model(of):
        model = ModelSchema(of, of)
        is_type = format in ("json", "response_format")
        name = texts_of(of).name or of.__name__ if is_type else name_of_model(of)
        return Declaration(name, texts_of(of).description, model.parameters)
    if isinstance(of, JsonTool):
        return Declaration(of.name, of.description, of.parameters)
    if _is_type(of):
        plain = build_type_schema(of)
        if format != "json":
            definitions = {"$defs": plain.pop("$defs")} if "$defs" in plain else {}
            plain = {"type": "object", "properties": {"answer": plain}, "required": ["answer"], **definitions}
        return Declaration(getattr(of, "__name__", "answer"), "", plain)
    arguments = build_arguments(of)
    return Declaration(derive_name(of, arguments), derive_description(of, arguments), arguments.parameters)


def _is_type(of: Any) -> bool:
    is_special = of is None or of is Any or isinstance(of, NewType | TypeAliasType)
    return is_special or isinstance(of, type) or get_origin(of) is not None
