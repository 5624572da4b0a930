"""OpenAI chat completions, and everyone who copied them: `{"type": "function", "function": {...}}`.

Source: OpenAI API reference, chat completions, `tools`.
"""

from typing import Any

from ..schemas import JsonSchema, inline


def openai(name: str, description: str, parameters: JsonSchema) -> dict[str, Any]:
    """The function tool of chat completions, not strict."""
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": inline(parameters)},
    }
