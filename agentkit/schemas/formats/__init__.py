"""From plain JSON Schema to one provider's dialect: one pure function a file, named in one table."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from ...core.errors import DefinitionError
from .. import JsonSchema, inline
from ..references import collected
from .anthropic import anthropic
from .declaration import Declaration, Format, Loss, Rendering
from .gemini import gemini
from .mcp import mcp
from .openai import openai, openai_strict, response_format, responses
from .plain import plain
from .rewriting import tidied

__all__ = ["FORMATS", "Declaration", "Format", "Loss", "References", "Rendering", "format_named", "render"]

References: TypeAlias = Literal["inline", "keep"]

FORMATS: Mapping[str, Format] = {
    "json": plain,
    "openai": openai,
    "openai_strict": openai_strict,
    "responses": responses,
    "response_format": response_format,
    "anthropic": anthropic,
    "gemini": gemini,
    "mcp": mcp,
}


def render(declaration: Declaration, format: str = "json", references: References = "inline") -> Rendering:
    """The tool in the dialect called `format`, and what that dialect could not hold.

    With `references="keep"` what the schema refers to stays in `$defs`, under short names, where the dialect has
    references (all but gemini); inlined, only types that contain themselves do.  The declaration is never changed, and
    the result shares nothing with it.  Raises `DefinitionError` for an unknown format or a reference to nowhere.
    """
    losses: list[Loss] = []
    settled = _SETTLED[references](declaration.parameters)
    rendering = format_named(format)(replace(declaration, parameters=tidied(settled, losses)))
    return Rendering(_separate(rendering.schema), (*losses, *rendering.losses), rendering.aliases)


_SETTLED: Mapping[str, Callable[[JsonSchema], JsonSchema]] = {"inline": inline, "keep": collected}


def format_named(name: str) -> Format:
    """The format called `name` (hyphens will do); `DefinitionError` names the formats there are when there is none."""
    known = name.replace("-", "_")
    if known not in FORMATS:
        close = get_close_matches(known, FORMATS, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise DefinitionError(f"there is no tool format {name!r}: {hint}the formats are {', '.join(FORMATS)}")
    return FORMATS[known]


def _separate(value: Any) -> Any:
    """A copy in which no part is the same object as another."""
    if isinstance(value, dict):
        return {key: _separate(inner) for key, inner in value.items()}
    return [_separate(inner) for inner in value] if isinstance(value, list) else value
