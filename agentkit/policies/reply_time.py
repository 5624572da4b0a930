"""How long a reply may take, for models that are given as objects: each request to them says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.flow import Flow, Policy, around, ask
from ..engine.model import AskModel
from .limits import timed


def reply_time(seconds: float) -> Policy:
    """Give each request `seconds` as its timeout, or what it has if that is less; further out than what asks again.

    A model of litellm's keeps its own, which for a streamed reply counts between the pieces.
    """

    def handle(effect: AskModel) -> Flow[Any]:
        if not getattr(effect.model, "keeps_time", False):
            effect = replace(effect, request=timed(effect.request, seconds))
        return (yield from ask(effect))

    return around(handle, AskModel)
