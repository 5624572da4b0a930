"""OpenAI's Responses API: flat, `parameters` and `strict` mandatory, and strict where the tool can be.

Source: OpenAI API reference, responses, `tools` (function); a missing `strict` would be taken for true.
"""

from .declaration import Declaration, Rendering
from .function_fields import strict_fields


def responses(declaration: Declaration) -> Rendering:
    """The function tool of the Responses API; one that cannot be strict has `strict: false`, the losses say why."""
    fields, losses = strict_fields(declaration)
    return Rendering({"type": "function", **fields}, tuple(losses))
