"""Default names of tools, and the checks of names and descriptions."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from ..core.errors import DefinitionError
from .signature import name_of, unwrap_function

TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""A tool name that every provider accepts (OpenAI and Anthropic: at most 64 characters; Gemini: no leading digit)."""
SUFFIX = re.compile(r"(?<=.)(Args|Arguments|Tool)$")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def check_name(name: str, remedy: str = "@tool(name={!r})", prefix: str = "") -> None:
    """Check that every provider accepts the tool name `prefix` + `name`.

    Raises:
        DefinitionError: A provider would refuse the name; the message suggests a valid one, in the template `remedy`.
    """
    if not TOOL_NAME.fullmatch(whole := prefix + name):
        text = re.sub(r"[^A-Za-z0-9_-]+", "_", whole).strip("_-")[:64]
        better = text if TOOL_NAME.fullmatch(text) else f"tool_{text}"[:64]
        raise DefinitionError(
            f"{whole!r} is not a valid tool name: providers take letters, digits, _ and -, not starting with a digit "
            f"or -, at most 64 characters. Choose another one: {remedy.format(better.removeprefix(prefix))}."
        )


def check_description(name: str, description: str, remedy: str = "") -> None:
    """Raise `DefinitionError` for a tool without a description, with `remedy` or with what to write."""
    if not description.strip():
        remedy = remedy or (
            f'Write a docstring under `def {name}(...)`, for example """Looks up ... and returns ...""", '
            'or give JsonTool(..., description="...").'
        )
        raise DefinitionError(f"the tool {name!r} has no description, which a model needs to choose it. {remedy}")


def to_snake_case(class_name: str) -> str:
    """Return the tool name for a class: `GetWeatherArgs` -> `get_weather`, `HTTPGetArgs` -> `http_get`."""
    return HUMP.sub("_", SUFFIX.sub("", class_name)).lower()


def name_of_callable(function: Callable[..., Any]) -> str:
    """Return the tool name for a callable: its own name or that of its class; raise `DefinitionError` for a lambda."""
    inner = unwrap_function(function)
    name = getattr(inner, "__name__", "")
    if name == "__call__":
        while isinstance(function, partial):
            function = function.func
        return to_snake_case(type(function).__name__)
    if name == "<lambda>":
        raise DefinitionError(
            f"{name_of(function)}: a lambda has no name that a model could call. "
            'Name it: JsonTool(lambda ..., name="add", description="Adds ...").'
        )
    return str(name)
