"""From plain JSON Schema to one provider's dialect: one pure function a file, named in one table."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias

from ..errors import DefinitionError
from ..schemas import JsonSchema
from .anthropic import anthropic
from .gemini import gemini
from .openai import openai
from .plain import plain

Format: TypeAlias = Callable[[str, str, JsonSchema], dict[str, Any]]
"""A tool's name, its description and the plain schema of its arguments -> the tool as a provider wants it."""

FORMATS: Mapping[str, Format] = {
    "json": plain,
    "openai": openai,
    "anthropic": anthropic,
    "gemini": gemini,
}


def format_named(name: str) -> Format:
    """The format called `name`; `DefinitionError` names the formats there are when there is none."""
    if name not in FORMATS:
        close = get_close_matches(name, FORMATS, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise DefinitionError(f"there is no tool format {name!r}: {hint}the formats are {', '.join(FORMATS)}")
    return FORMATS[name]
