"""OpenAI chat completions, and everyone who copied them: `{"type": "function", "function": {...}}`.

Source: OpenAI API reference, chat completions, `tools`.
"""

import re
from typing import Any

from .. import JsonSchema
from .common_subset import make_portable
from .declaration import Declaration, Loss, RenderedTool
from .rewriting import rewrite
from .strict_mode import make_strict
from .structure import make_answer_root, make_object_root


def to_openai(declaration: Declaration) -> RenderedTool:
    """The function tool of chat completions, not strict."""
    losses: list[Loss] = []
    schema = rewrite(make_object_root(declaration.parameters, losses), losses, make_portable)
    return RenderedTool(
        {"type": "function", "function": build_function_fields(declaration, schema, losses)}, tuple(losses)
    )


MAX_DESCRIPTION_CHARS = 1024


def build_strict_fields(declaration: Declaration) -> tuple[dict[str, Any], list[Loss]]:
    """The fields of a function that is strict if it can be, and its losses."""
    losses: list[Loss] = []
    schema, is_strict = make_strict(make_object_root(declaration.parameters, losses), losses)
    return {**build_function_fields(declaration, schema, losses), "strict": is_strict}, losses


def build_function_fields(declaration: Declaration, schema: JsonSchema, losses: list[Loss]) -> dict[str, Any]:
    """`name`, `description` and `parameters`; the end of a too long description goes into the schema's own."""
    text, rest = _split_description(declaration.description)
    if rest:
        own = schema.pop("description", "")
        schema = {"description": f"{rest}\n\n{own}" if own else rest, **schema}
        losses.append(Loss("", "description", rest, "parameters.description"))
    described = {"description": text} if text else {}
    return {"name": declaration.name, **described, "parameters": schema}


def _split_description(text: str) -> tuple[str, str]:
    """`text` in two, the first at most 1024 characters: between paragraphs, sentences or words where there are any."""
    if len(text) <= MAX_DESCRIPTION_CHARS:
        return text, ""
    for border in (r"\n\s*\n", r"(?<=[.!?])\s", r"\s"):
        ends = [match.start() for match in re.finditer(border, text[: MAX_DESCRIPTION_CHARS + 1])]
        if ends and ends[-1] > MAX_DESCRIPTION_CHARS // 2:
            return text[: ends[-1]], text[ends[-1] :].strip()
    return text[:MAX_DESCRIPTION_CHARS], text[MAX_DESCRIPTION_CHARS:]


def to_openai_strict(declaration: Declaration) -> RenderedTool:
    """The strict function tool; one that cannot be strict has `strict: false`, and a loss "strict" for each reason."""
    fields, losses = build_strict_fields(declaration)
    return RenderedTool({"type": "function", "function": fields}, tuple(losses))


def to_response_format(declaration: Declaration) -> RenderedTool:
    """The response format whose object is `parameters`.

    A type that is no object, or is several, is wrapped: the model answers `{"answer": ...}`, and a loss of the keyword
    "type" at `parameters` says so.  A type that cannot be strict has `strict: false`, the losses say why.
    """
    losses: list[Loss] = []
    schema, is_strict = make_strict(make_answer_root(declaration.parameters, losses), losses)
    text = {"description": declaration.description} if declaration.description else {}
    form = {"name": declaration.name, **text, "strict": is_strict, "schema": schema}
    return RenderedTool({"type": "json_schema", "json_schema": form}, tuple(losses))


def to_responses(declaration: Declaration) -> RenderedTool:
    """The function tool of the Responses API; one that cannot be strict has `strict: false`, the losses say why."""
    fields, losses = build_strict_fields(declaration)
    return RenderedTool({"type": "function", **fields}, tuple(losses))
