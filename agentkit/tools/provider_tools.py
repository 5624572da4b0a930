"""Tools that the provider of a model runs itself, a search of the web for example: their names and their forms.

A form is the dict that one provider's API takes among the tools of a request.  Sources: OpenAI, "Using tools"
(Responses API); Anthropic, "Web search tool", "Web fetch tool", "Code execution tool"; Gemini, "Grounding with Google
Search", "URL context", "Code execution", and "Combine built-in tools and function calling", which needs Gemini 3.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..core.errors import DefinitionError
from ..core.hints import suggest

Form: TypeAlias = dict[str, Any]

_FORMS: dict[str, dict[str, Form]] = {
    "web_search": {
        "anthropic": {"type": "web_search_20250305", "name": "web_search"},
        "responses": {"type": "web_search"},
        "gemini": {"googleSearch": {}},
    },
    "web_fetch": {
        "anthropic": {"type": "web_fetch_20250910", "name": "web_fetch"},
        "gemini": {"urlContext": {}},
    },
    "code_execution": {
        "anthropic": {"type": "code_execution_20250825", "name": "code_execution"},
        "responses": {"type": "code_interpreter", "container": {"type": "auto"}},
        "gemini": {"codeExecution": {}},
    },
}
"""The forms of each tool, by the APIs that have it."""
_APIS = {
    "anthropic": "Anthropic's Messages API",
    "responses": "OpenAI's Responses API",
    "gemini": "Gemini's API",
}
_DATED = re.compile(r".+_20\d{6}")
"""The types of Anthropic's tools end with the date of a version."""


@dataclass(frozen=True, slots=True)
class ProviderTool:
    """A tool that the provider of the model runs: a name with options, or a `form` of one API; see `provider_tool`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    form: Mapping[str, Any] | None = None

    def render(self, api: str, model: str) -> Form:
        """Return the tool as an API takes it.

        Args:
            api: "anthropic", "responses" or "gemini"; any other name is an API without such tools.
            model: The name of the model, for the error.

        Raises:
            DefinitionError: The API does not have the tool.
        """
        forms = {self._own_api: dict(self.form)} if self.form is not None else _FORMS[self.name]
        if api not in forms:
            known = " and ".join(_APIS[one] for one in forms)
            remedy = f'{known} have it: model="anthropic/...", "openai/responses/..." or "gemini/gemini-3...".'
            raise DefinitionError(f"{model}: its API has no tool {self.name!r} that the provider runs. {remedy}")
        found = forms[api]
        if api == "gemini":
            return {key: {**value, **self.options} for key, value in found.items()}
        return {**found, **self.options}

    @property
    def _own_api(self) -> str:
        form = self.form or {}
        if "type" not in form:
            return "gemini"
        return "anthropic" if _DATED.fullmatch(str(form["type"])) else "responses"


def provider_tool(name: str, **options: Any) -> ProviderTool:
    """Return a tool that the provider of the model runs, for the tools of an agent.

    Args:
        name: "web_search", "web_fetch" or "code_execution".
        **options: Options of the provider's tool, `max_uses=3` on Anthropic for example.

    Raises:
        DefinitionError: There is no such tool.
    """
    if name not in _FORMS:
        remedy = suggest(name, _FORMS, then=f"The tools are: {', '.join(_FORMS)}.")
        raise DefinitionError(
            f"provider_tool: there is no tool {name!r}. {remedy} Any other one is given as the dict of its API."
        )
    return ProviderTool(name, options)


def read_provider_form(form: Mapping[str, Any]) -> ProviderTool:
    """Return the tool of a dict that stands among tools; raise `DefinitionError` for the schema of a function."""
    kind = form.get("type")
    if kind == "function" or "function" in form or "parameters" in form or "input_schema" in form:
        raise DefinitionError(
            f"a tool: got dict: {form!r:.80}. The schema of a function cannot be called. Pass the function itself, or "
            "JsonTool.from_schema(name=, description=, parameters=, call=)."
        )
    if not (isinstance(kind, str) or (len(form) == 1 and isinstance(next(iter(form.values())), Mapping))):
        raise DefinitionError(
            f"{form!r:.80}: expected the dict of a tool that a provider runs, "
            '{"type": "web_search"} or {"googleSearch": {}} for example.'
        )
    return ProviderTool(str(form.get("name") or kind or next(iter(form))), form=form)
