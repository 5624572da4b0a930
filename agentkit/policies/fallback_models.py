"""Other models to go on with when one cannot be had."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from ..core.errors import ModelError, ModelErrorKind
from ..core.flow import Emit, Flow, Policy, WarningEvent, ask, interpret
from ..engine.model import AskModel, Model

FALLBACK_KINDS: frozenset[ModelErrorKind] = frozenset(get_args(ModelErrorKind)) - {"refused"}
"""Whatever may be the model's, its provider's or the account's fault: another one may know the model name, accept the
request or have a larger window.  A refusal stays one: to ask around until somebody complies is for the caller to want.
"""


@dataclass(frozen=True, slots=True)
class FallenBack(WarningEvent):
    """A model could not be had; the run goes on with another one, under its name.

    What was streamed of the failed reply (the deltas since the last `ModelAsked`) is withdrawn.
    """

    error: ModelError
    model: str

    @property
    def ends_request(self) -> object:
        return self.error

    @property
    def notice(self) -> str:
        return f"{self.error}; going on with {self.model}"


def fallback(models: Sequence[Model], *, kinds: Collection[ModelErrorKind] = FALLBACK_KINDS) -> Policy:
    """Ask the next of `models` on the same conversation when one fails with an error of one of `kinds`.

    The run stays with the model that worked; when that one fails later, the others are asked again in turn, the run's
    own model included, each once.  When all fail, the last error is raised, with the others in its notes.
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
                    raise _add_notes(last, failed[:-1])
                place = (place + 1) % len(known)
                yield from ask(Emit(FallenBack(last, known[place].name)))

        return interpret(flow, handle, AskModel)

    return policy


def _add_notes(error: ModelError, before: Sequence[ModelError]) -> ModelError:
    for earlier in before:
        error.add_note(f"Asked before: {earlier}")
    return error
