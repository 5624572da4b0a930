"""The tools of a request in the form that litellm needs for one provider, prepared once for the same tools."""

import json
from typing import Any

from ...engine.model import Request

Json = dict[str, Any]

_NON_MUTATING_PROVIDERS = {"openai", "anthropic", "groq", "ollama_chat"}
"""Routes that do not change the caller's tool dicts; litellm's Gemini route rewrites them in place."""

_STRICT_PROVIDERS = {"openai", "azure"}
"""Providers that get strict tools through litellm. It drops the mark for Anthropic and Gemini; others ignore it."""


class PreparedTools:
    """litellm's `tools` for the requests to one model; `strict` requests OpenAI's strict mode.

    `additionalProperties: false` is sent with strict tools only. Elsewhere it costs tokens without a benefit, and
    servers that validate calls refuse a whole reply for it that agentkit would repair.
    """

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._last: tuple[Any, list[Json], str] = (None, [], "")

    def parameters(self, request: Request, provider: str, model: str) -> Json:
        """Return litellm's `tools` and `tool_choice` for `request`; {} without tools."""
        schemas = request.tools.schemas(self._schema_format(provider, model))  # the same object from request to request
        if not schemas:
            return {}
        known, tools, text = self._last
        if known is not schemas:
            tools = [*map(_wrap, schemas)]
            text = "" if provider in _NON_MUTATING_PROVIDERS else json.dumps(tools)
            self._last = schemas, tools, text
        sent: Json = {"tools": json.loads(text) if text else tools}
        choice = request.tool_choice
        if choice in ("required", "none"):
            sent["tool_choice"] = choice
        elif choice != "auto":
            sent["tool_choice"] = {"type": "function", "function": {"name": choice}}
        return sent

    def _schema_format(self, provider: str, model: str) -> str:
        if provider == "anthropic":
            return "anthropic"
        if provider == "gemini" or (provider == "vertex_ai" and "gemini" in model):
            return "gemini"
        return "openai_strict" if self._strict and provider in _STRICT_PROVIDERS else "openai"


def _wrap(tool: Json) -> Json:
    """Return the tool in OpenAI's form, the only one that litellm accepts on every route."""
    function = tool.get("function", tool)
    if "input_schema" in function:
        function = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    parameters = function.get("parameters", {})
    if parameters.get("additionalProperties") is False and not function.get("strict"):
        parameters = {key: value for key, value in parameters.items() if key != "additionalProperties"}
        function = {**function, "parameters": parameters}
    return {"type": "function", "function": function}
