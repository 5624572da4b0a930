"""OpenAI's structured outputs: the form of an answer, not of a tool.

Source: OpenAI API reference, chat completions, `response_format` of type `json_schema`.
"""

from .declaration import Declaration, Loss, Rendering
from .strict_mode import strict_or_loose
from .structure import answer_root


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
