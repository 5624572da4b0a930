"""From plain JSON Schema to the dialect of one provider: one file and one pure function for each dialect.

The dialects are `anthropic`, `gemini`, `mcp` and `openai` (chat completions, its strict mode, Responses, structured
outputs); the other files hold what several of them need.  The plain form is here.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from ...core.errors import DefinitionError, suggest
from ...core.portable import copy_value
from ..walk import JsonSchema, collect_definitions, inline
from .anthropic import to_anthropic
from .declaration import ROOT, Declaration, Format, Loss, RenderedTool, tidy
from .gemini import to_gemini
from .mcp import to_mcp
from .openai import to_openai, to_openai_strict, to_response_format, to_responses

__all__ = ["FORMATS", "Declaration", "Format", "Loss", "References", "RenderedTool", "render"]

References: TypeAlias = Literal["inline", "keep"]


def to_plain(declaration: Declaration) -> RenderedTool:
    """Return the schema of the arguments itself (draft 2020-12); its `description` is the tool's."""
    schema = {**declaration.parameters}
    losses = []
    own = schema.pop("description", None)
    text = declaration.description or own
    if own and own != text:
        losses.append(Loss(ROOT, "description", own, "dropped: the tool's own description stands there"))
    head = {"description": text} if text else {}
    return RenderedTool({**head, **schema}, tuple(losses))


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
    """Return the tool in the dialect `format`, and what that dialect cannot express.

    The declaration is never changed, and the result shares no object with it.

    Args:
        declaration: The tool in plain form.
        format: A key of `FORMATS`; hyphens may replace underscores.
        references: "keep" leaves referenced types in `$defs`, under short names, in dialects that have references (all
            but gemini).  "inline" leaves only types that contain themselves there.

    Raises:
        DefinitionError: The format is unknown, or a reference leads nowhere.
    """
    losses: list[Loss] = []
    name = format.replace("-", "_")
    if name not in FORMATS:
        hint = suggest(name, FORMATS, then=f"Formats: {', '.join(FORMATS)}.")
        raise DefinitionError(f"no tool format {format!r}. {hint}")
    try:
        settled = _REFERENCES[references](declaration.parameters)
        rendering = FORMATS[name](replace(declaration, parameters=tidy(settled, losses)))
    except RecursionError as error:
        raise DefinitionError(f"the tool {declaration.name!r}: its schema is nested too deeply.") from error
    return RenderedTool(copy_value(rendering.schema), (*losses, *rendering.losses), rendering.aliases)


_REFERENCES: Mapping[str, Callable[[JsonSchema], JsonSchema]] = {"inline": inline, "keep": collect_definitions}
