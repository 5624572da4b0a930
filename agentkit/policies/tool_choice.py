"""Models that refuse a forced tool call: the request is repeated with `tool_choice="auto"`.

Some servers accept no other `tool_choice`, and some models do not while they think.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.errors import ModelError
from ..core.flow import Emit, Flow, Policy, around, ask
from ..engine.model import AskModel
from .retries import Retrying


def retry_unforced() -> Policy:
    """Repeat a request that forces a call once, with `tool_choice="auto"`, when it is refused."""

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
    """Return whether the forced call may be the cause; OpenRouter: 404 "No endpoints found that support [...]"."""
    return tool_choice not in ("auto", "none") and (error.kind == "bad_request" or "tool_choice" in str(error))
