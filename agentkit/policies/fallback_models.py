"""Fallback to other models when one fails."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from ..core.errors import ModelError, ModelErrorKind
from ..core.flow import Emit, Flow, Policy, WarningEvent, ask, interpret
from ..engine.model import AskModel, Model

FALLBACK_KINDS: frozenset[ModelErrorKind] = frozenset(get_args(ModelErrorKind)) - {"refused"}
"""The errors for which another model may work: it may exist, accept the request or have a larger window.

Refusals are left out: asking other models until one complies is the caller's decision.
"""


@dataclass(frozen=True, slots=True)
class FallenBack(WarningEvent):
    """A model failed, and its deltas since the last `ModelAsked` are void; the run continues with `model`."""

    error: ModelError
    model: str

    @property
    def ends_request(self) -> object:
        return self.error

    @property
    def notice(self) -> str:
        return f"{self.error}; continuing with {self.model}"


def fallback(models: Sequence[Model], *, kinds: Collection[ModelErrorKind] = FALLBACK_KINDS) -> Policy:
    """Ask the next of `models` with the same conversation when one fails.

    The run stays with the model that worked.  When that one fails later, the others are asked again in turn, the run's
    own model included, each once.

    Args:
        models: The models to fall back to, in this order.
        kinds: The kinds of `ModelError` that lead to the next model.

    Raises:
        ModelError: All models failed; the last error, with the others in its notes.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        place = 0

        def handle(effect: AskModel) -> Flow[Any]:
            nonlocal place
            known = (effect.model, *models)
            failed: list[ModelError] = []
            while True:
                try:
                    return (yield from ask(effect if place == 0 else replace(effect, model=known[place])))
                except ModelError as error:
                    failed.append(error)
                last = failed[-1]
                if last.kind not in kinds or len(failed) == len(known):
                    for earlier in failed[:-1]:
                        last.add_note(f"Asked before: {earlier}")
                    raise last
                place = (place + 1) % len(known)
                yield from ask(Emit(FallenBack(last, known[place].name)))

        return interpret(flow, handle, AskModel)

    return policy
