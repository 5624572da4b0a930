"""The plain form: the JSON Schema of the arguments (draft 2020-12), with the tool's name and description."""

from typing import Any

from ..schemas import JsonSchema, inline


def plain(name: str, description: str, parameters: JsonSchema) -> dict[str, Any]:
    """The schema itself, references inlined, `title` the tool's name."""
    return {"title": name, "description": description, **inline(parameters)}
