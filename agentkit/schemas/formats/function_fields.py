"""What both of OpenAI's APIs say of a function: name, description, parameters, and whether it is strict.

Sources: OpenAI API reference, chat completions and responses, `tools`; the description of a function may have 1024
characters, more is an error (getsentry/sentry-mcp#106, OpenHands#7167).
"""

import re
from typing import Any

from .. import JsonSchema
from .declaration import Declaration, Loss
from .strict_mode import strict_or_loose
from .structure import object_root

DESCRIPTION = 1024


def strict_fields(declaration: Declaration) -> tuple[dict[str, Any], list[Loss]]:
    """The fields of a function that is strict if it can be, and its losses."""
    losses: list[Loss] = []
    schema, is_strict = strict_or_loose(object_root(declaration.parameters, losses), losses)
    return {**function_fields(declaration, schema, losses), "strict": is_strict}, losses


def function_fields(declaration: Declaration, schema: JsonSchema, losses: list[Loss]) -> dict[str, Any]:
    """`name`, `description` and `parameters`; the end of a too long description goes into the schema's own."""
    text, rest = _cut(declaration.description)
    if rest:
        own = schema.pop("description", "")
        schema = {"description": f"{rest}\n\n{own}" if own else rest, **schema}
        losses.append(Loss("", "description", rest, "parameters.description"))
    described = {"description": text} if text else {}
    return {"name": declaration.name, **described, "parameters": schema}


def _cut(text: str) -> tuple[str, str]:
    """`text` in two, the first at most 1024 characters: between paragraphs, sentences or words where there are any."""
    if len(text) <= DESCRIPTION:
        return text, ""
    for border in (r"\n\s*\n", r"(?<=[.!?])\s", r"\s"):
        ends = [match.start() for match in re.finditer(border, text[: DESCRIPTION + 1])]
        if ends and ends[-1] > DESCRIPTION // 2:
            return text[: ends[-1]], text[ends[-1] :].strip()
    return text[:DESCRIPTION], text[DESCRIPTION:]
