"""OpenAI chat completions, and everyone who copied them: `{"type": "function", "function": {...}}`.

Source: OpenAI API reference, chat completions, `tools`.
"""

import re
from typing import Any

from .. import JsonSchema
from .common_subset import portable
from .declaration import Declaration, Loss, Rendering
from .rewriting import rewritten
from .strict_mode import strict_or_loose
from .structure import answer_root, object_root


def openai(declaration: Declaration) -> Rendering:
    """The function tool of chat completions, not strict."""
    losses: list[Loss] = []
    schema = rewritten(object_root(declaration.parameters, losses), losses, portable)
    return Rendering({"type": "function", "function": function_fields(declaration, schema, losses)}, tuple(losses))


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


def openai_strict(declaration: Declaration) -> Rendering:
    """The strict function tool; one that cannot be strict has `strict: false`, and a loss "strict" for each reason."""
    fields, losses = strict_fields(declaration)
    return Rendering({"type": "function", "function": fields}, tuple(losses))


def response_format(declaration: Declaration) -> Rendering:
    """The response format whose object is `parameters`.

    A type that is no object, or is several, is wrapped: the model answers `{"answer": ...}`, and a loss of the keyword
    "type" at `parameters` says so.  A type that cannot be strict has `strict: false`, the losses say why.
    """
    losses: list[Loss] = []
    schema, is_strict = strict_or_loose(answer_root(declaration.parameters, losses), losses)
    text = {"description": declaration.description} if declaration.description else {}
    form = {"name": declaration.name, **text, "strict": is_strict, "schema": schema}
    return Rendering({"type": "json_schema", "json_schema": form}, tuple(losses))


def responses(declaration: Declaration) -> Rendering:
    """The function tool of the Responses API; one that cannot be strict has `strict: false`, the losses say why."""
    fields, losses = strict_fields(declaration)
    return Rendering({"type": "function", **fields}, tuple(losses))
