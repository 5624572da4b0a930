"""Models that do not let themselves be forced to call a tool: they are asked again, with the same tools and a choice.

Some servers know no `tool_choice` but "auto", and of some models the thinking ones do not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.errors import ModelError
from ..core.flow import Emit, Flow, Policy, around, ask
from ..engine.model import AskModel
from .retries import Retrying


def retry_unforced() -> Policy:
    """Ask once more, with `tool_choice="auto"`, when a request that forces a call is refused as it stands."""

    def handle(effect: AskModel) -> Flow[Any]:
        try:
            return (yield from ask(effect))
        except ModelError as caught:
            error = caught
        if not _refuses_forcing(effect.request.tool_choice, error):
            raise error
        yield from ask(Emit(Retrying(error, 0.0)))
        return (yield from ask(replace(effect, request=replace(effect.request, tool_choice="auto"))))

    return around(handle, AskModel)


def _refuses_forcing(tool_choice: str, error: ModelError) -> bool:
    """Whether that may be what is refused; OpenRouter says 404 to it, "No endpoints found that support [...]"."""
    return tool_choice not in ("auto", "none") and (error.kind == "bad_request" or "tool_choice" in str(error))
