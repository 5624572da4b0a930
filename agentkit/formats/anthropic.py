"""Anthropic's messages API: flat, the schema under `input_schema`.

Source: Anthropic API reference, messages, `tools` (`input_schema` is draft 2020-12 with `type: object` at its root).
"""

from typing import Any

from ..schemas import JsonSchema, inline


def anthropic(name: str, description: str, parameters: JsonSchema) -> dict[str, Any]:
    """The client tool of the messages API."""
    return {"name": name, "description": description, "input_schema": inline(parameters)}
