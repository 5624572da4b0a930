"""OpenAI chat completions with `strict`: the arguments always fit the schema.

Source: OpenAI guide "Function calling", strict mode; the rules of the schema are in `strict.py`.
"""

from .declaration import Declaration, Rendering
from .function_fields import strict_fields


def openai_strict(declaration: Declaration) -> Rendering:
    """The strict function tool; one that cannot be strict has `strict: false`, and a loss "strict" for each reason."""
    fields, losses = strict_fields(declaration)
    return Rendering({"type": "function", "function": fields}, tuple(losses))
