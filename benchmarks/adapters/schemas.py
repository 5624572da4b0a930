"""The schema of `add`, as one writes it by hand."""

from typing import Any


def schema_of(tool: Any) -> dict[str, Any]:
    """What one writes by hand for `add`, with the texts of its docstring."""
    texts = [line.strip().partition(": ")[2] for line in tool.__doc__.splitlines() if line.strip()[:2] in ("a:", "b:")]
    properties = {name: {"type": "integer", "description": text} for name, text in zip("ab", texts, strict=True)}
    parameters = {"type": "object", "properties": properties, "required": ["a", "b"]}
    description = tool.__doc__.partition("\n")[0]
    return {
        "type": "function",
        "function": {"name": tool.__name__, "description": description, "parameters": parameters},
    }
