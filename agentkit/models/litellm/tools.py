"""The tools of a request as one provider takes them through litellm, prepared once for as long as they are the same."""

import json
from typing import Any

from ...engine.model import Request

Json = dict[str, Any]

_NON_MUTATING_PROVIDERS = {"openai", "anthropic", "groq", "ollama_chat"}
"""Routes that are known to leave the caller's tool dicts alone; litellm's Gemini route rewrites them in place."""

_STRICT_PROVIDERS = {"openai", "azure"}
"""Who takes strict tools through litellm; for Anthropic and Gemini it drops the mark, the others ignore it."""


class PreparedTools:
    """litellm's `tools` for the requests to one model; `strict` asks OpenAI for arguments that are sure to fit.

    `additionalProperties: false` goes out with strict tools alone.  Else it tells a model nothing that counts, is paid
    for in every request, and servers that check calls refuse for it a whole reply that would be put right here.
    """

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._last: tuple[Any, list[Json], str] = (None, [], "")

    def parameters(self, request: Request, provider: str, model: str) -> Json:
        """litellm's `tools` and `tool_choice` for `request`; nothing where there are no tools."""
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
    """A tool in OpenAI's wrapping, the only one that litellm takes on every route."""
    function = tool.get("function", tool)
    if "input_schema" in function:
        function = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    parameters = function.get("parameters", {})
    if parameters.get("additionalProperties") is False and not function.get("strict"):
        parameters = {key: value for key, value in parameters.items() if key != "additionalProperties"}
        function = {**function, "parameters": parameters}
    return {"type": "function", "function": function}
