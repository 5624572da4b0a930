"""OpenAI's APIs, and providers that copied them: chat completions, its strict mode, Responses, structured outputs.

Sources: OpenAI API reference, chat completions (`tools`, `response_format`) and responses (`tools`); guides "Function
calling" (strict mode) and "Structured model outputs".  The rules of strict schemas are in `strict_mode.py`.
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
    """Return the function tool of chat completions, not strict: `{"type": "function", "function": {...}}`."""
    losses: list[Loss] = []
    schema = rewrite(make_object_root(declaration.parameters, losses), losses, make_portable)
    return RenderedTool(
        {"type": "function", "function": build_function_fields(declaration, schema, losses)}, tuple(losses)
    )


MAX_DESCRIPTION_CHARS = 1024
"""The longest description of a function; more is an error (getsentry/sentry-mcp#106, OpenHands#7167)."""


def build_strict_fields(declaration: Declaration) -> tuple[dict[str, Any], list[Loss]]:
    """Return the fields of a function, strict if possible, and its losses."""
    losses: list[Loss] = []
    schema, is_strict = make_strict(make_object_root(declaration.parameters, losses), losses)
    return {**build_function_fields(declaration, schema, losses), "strict": is_strict}, losses


def build_function_fields(declaration: Declaration, schema: JsonSchema, losses: list[Loss]) -> dict[str, Any]:
    """Return `name`, `description` and `parameters`; the end of a long description goes into that of the schema."""
    text, rest = _split_description(declaration.description)
    if rest:
        own = schema.pop("description", "")
        schema = {"description": f"{rest}\n\n{own}" if own else rest, **schema}
        losses.append(Loss("", "description", rest, "parameters.description"))
    described = {"description": text} if text else {}
    return {"name": declaration.name, **described, "parameters": schema}


def _split_description(text: str) -> tuple[str, str]:
    """Return `text` in two parts, the first at most 1,024 characters; split between paragraphs, sentences or words."""
    if len(text) <= MAX_DESCRIPTION_CHARS:
        return text, ""
    for border in (r"\n\s*\n", r"(?<=[.!?])\s", r"\s"):
        ends = [match.start() for match in re.finditer(border, text[: MAX_DESCRIPTION_CHARS + 1])]
        if ends and ends[-1] > MAX_DESCRIPTION_CHARS // 2:
            return text[: ends[-1]], text[ends[-1] :].strip()
    return text[:MAX_DESCRIPTION_CHARS], text[MAX_DESCRIPTION_CHARS:]


def to_openai_strict(declaration: Declaration) -> RenderedTool:
    """Return the strict function tool: a provider makes the model write arguments that fit the schema.

    A tool that cannot be strict has `strict: false`, and a loss "strict" for each reason.
    """
    fields, losses = build_strict_fields(declaration)
    return RenderedTool({"type": "function", "function": fields}, tuple(losses))


def to_response_format(declaration: Declaration) -> RenderedTool:
    """Return the structured output of chat completions whose object is `parameters`: the form of an answer, not a tool.

    A type that is not an object, or a union of objects, is wrapped: the model answers `{"answer": ...}`, and a loss of
    the keyword "type" at `parameters` reports it.  A type that cannot be strict has `strict: false`, with losses.
    """
    losses: list[Loss] = []
    schema, is_strict = make_strict(make_answer_root(declaration.parameters, losses), losses)
    text = {"description": declaration.description} if declaration.description else {}
    form = {"name": declaration.name, **text, "strict": is_strict, "schema": schema}
    return RenderedTool({"type": "json_schema", "json_schema": form}, tuple(losses))


def to_responses(declaration: Declaration) -> RenderedTool:
    """Return the function tool of the Responses API: flat, strict if possible.

    `strict` is always present: the API takes a missing one for true.  A tool that cannot be strict has losses.
    """
    fields, losses = build_strict_fields(declaration)
    return RenderedTool({"type": "function", **fields}, tuple(losses))
