"""What a tool is called and how it is described, where nobody says so."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from ..core.errors import DefinitionError
from .signature import name_of, unwrap_function

TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What every provider takes as a tool's name (OpenAI and Anthropic: 64 characters; Gemini: no digit first)."""
SUFFIX = re.compile(r"(?<=.)(Args|Arguments|Tool)$")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def check_name(name: str, remedy: str = "@tool(name={!r})", prefix: str = "") -> None:
    """Raise `DefinitionError` for a name that a provider would refuse, after `prefix`, with one that none would."""
    if not TOOL_NAME.fullmatch(whole := prefix + name):
        text = re.sub(r"[^A-Za-z0-9_-]+", "_", whole).strip("_-")[:64]
        better = text if TOOL_NAME.fullmatch(text) else f"tool_{text}"[:64]
        raise DefinitionError(
            f"{whole!r} cannot be a tool's name: providers take letters, digits, _ and -, not starting with a digit "
            f"or -, at most 64 characters. Give another one: {remedy.format(better.removeprefix(prefix))}."
        )


def check_description(name: str, description: str, remedy: str = "") -> None:
    """Raise `DefinitionError` for a tool that says nothing of itself, with what to write."""
    if not description.strip():
        remedy = remedy or (
            f'Write a docstring under `def {name}(...)`, for example """Looks up ... and returns ...""", '
            'or give JsonTool(..., description="...").'
        )
        raise DefinitionError(f"the tool {name!r} has no description, and a model must know what it is for. {remedy}")


def to_snake_case(class_name: str) -> str:
    """The name of the tool that a class makes: `GetWeatherArgs` -> `get_weather`, `HTTPGetArgs` -> `http_get`."""
    return HUMP.sub("_", SUFFIX.sub("", class_name)).lower()


def name_of_callable(function: Callable[..., Any]) -> str:
    """The own name of a callable; an object that can be called has its class's; a lambda has none to offer."""
    inner = unwrap_function(function)
    name = getattr(inner, "__name__", "")
    if name == "__call__":
        while isinstance(function, partial):
            function = function.func
        return to_snake_case(type(function).__name__)
    if name == "<lambda>":
        raise DefinitionError(
            f"{name_of(function)}: a lambda has no name a model could call. "
            'Give one: JsonTool(lambda ..., name="add", description="Adds ...").'
        )
    return str(name)
