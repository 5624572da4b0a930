"""From plain JSON Schema to one provider's dialect: one pure function a file, named in one table."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from ...core.errors import DefinitionError
from .. import JsonSchema, inline
from ..references import collect_definitions
from .anthropic import to_anthropic
from .declaration import Declaration, Format, Loss, RenderedTool
from .gemini import to_gemini
from .mcp import to_mcp
from .openai import to_openai, to_openai_strict, to_response_format, to_responses
from .plain import to_plain
from .rewriting import tidy

__all__ = ["FORMATS", "Declaration", "Format", "Loss", "References", "RenderedTool", "find_format", "render"]

References: TypeAlias = Literal["inline", "keep"]

FORMATS: Mapping[str, Format] = {
    "json": to_plain,
    "openai": to_openai,
    "openai_strict": to_openai_strict,
    "responses": to_responses,
    "response_format": to_response_format,
    "anthropic": to_anthropic,
    "gemini": to_gemini,
    "mcp": to_mcp,
}


def render(declaration: Declaration, format: str = "json", references: References = "inline") -> RenderedTool:
    """The tool in the dialect called `format`, and what that dialect could not hold.

    With `references="keep"` what the schema refers to stays in `$defs`, under short names, where the dialect has
    references (all but gemini); inlined, only types that contain themselves do.  The declaration is never changed, and
    the result shares nothing with it.  Raises `DefinitionError` for an unknown format or a reference to nowhere.
    """
    losses: list[Loss] = []
    settled = _REFERENCES[references](declaration.parameters)
    rendering = find_format(format)(replace(declaration, parameters=tidy(settled, losses)))
    return RenderedTool(_copy_parts(rendering.schema), (*losses, *rendering.losses), rendering.aliases)


_REFERENCES: Mapping[str, Callable[[JsonSchema], JsonSchema]] = {"inline": inline, "keep": collect_definitions}


def find_format(name: str) -> Format:
    """The format called `name` (hyphens will do); `DefinitionError` names the formats there are when there is none."""
    known = name.replace("-", "_")
    if known not in FORMATS:
        close = get_close_matches(known, FORMATS, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise DefinitionError(f"there is no tool format {name!r}: {hint}the formats are {', '.join(FORMATS)}")
    return FORMATS[known]


def _copy_parts(value: Any) -> Any:
    """A copy in which no part is the same object as another."""
    if isinstance(value, dict):
        return {key: _copy_parts(inner) for key, inner in value.items()}
    return [_copy_parts(inner) for inner in value] if isinstance(value, list) else value
