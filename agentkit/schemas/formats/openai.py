"""OpenAI chat completions, and everyone who copied them: `{"type": "function", "function": {...}}`.

Source: OpenAI API reference, chat completions, `tools`.
"""

from .common_subset import portable
from .declaration import Declaration, Loss, Rendering
from .function_fields import function_fields
from .rewriting import rewritten
from .structure import object_root


def openai(declaration: Declaration) -> Rendering:
    """The function tool of chat completions, not strict."""
    losses: list[Loss] = []
    schema = rewritten(object_root(declaration.parameters, losses), losses, portable)
    return Rendering({"type": "function", "function": function_fields(declaration, schema, losses)}, tuple(losses))
