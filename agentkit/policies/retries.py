"""Retries of requests after transient errors, and the fallback to other models when one fails.

Only the request to the model is repeated: the conversation is unchanged, and no tool runs a second time.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from ..core.errors import ModelError, ModelErrorKind
from ..core.flow import Emit, Flow, Policy, Sleep, WarningEvent, around, ask, interpret
from ..engine.model import AskModel, Model
from .limits import cap_timeout

WAITS = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each retry."""
MAX_WAIT_SECONDS = 10.0
"""The error is raised when the provider asks for a longer wait: the caller decides then."""
MAX_RETRY_SECONDS = 180.0
"""Seconds after the first attempt in which another one may begin."""


@dataclass(frozen=True, slots=True)
class Retrying(WarningEvent):
    """A request failed and is repeated after `seconds`.

    The deltas since the last `ModelAsked` belong to the failed reply: remove them where they were displayed.
    """

    error: ModelError
    seconds: float

    @property
    def ends_request(self) -> object:
        return self.error

    @property
    def waits_for(self) -> str:
        return "to ask again"

    @property
    def notice(self) -> str:
        return f"{self.error}; asking again in {self.seconds:.1f} s"


def retry(
    waits: Sequence[float] = WAITS,
    *,
    max_wait: float = MAX_WAIT_SECONDS,
    max_seconds: float = MAX_RETRY_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Policy:
    """Repeat a request after a transient error, once for each of `waits`.

    The provider's `Retry-After` replaces the wait.  The request's own `timeout` holds for all attempts together.

    Args:
        waits: Seconds before each retry, varied randomly by 20 %.
        max_wait: The longest `Retry-After`, in seconds; beyond it the error is raised.
        max_seconds: Seconds after the first attempt in which another one may begin.
        clock: Returns the time in seconds.
    """

    def handle(effect: AskModel) -> Flow[Any]:
        begun = clock()
        timeout = effect.request.timeout
        end = begun + (math.inf if timeout is None else timeout)
        latest = min(begun + max_seconds, end)
        for tries, wait in enumerate((*waits, None), 1):
            try:
                request = cap_timeout(effect.request, end - clock())
                return (yield from ask(effect if timeout is None else AskModel(effect.model, request)))
            except ModelError as caught:
                error = caught
            if wait is None:
                raise _note_tries(error, tries)
            seconds = wait * random.uniform(0.8, 1.2) if error.retry_after is None else error.retry_after
            if not error.transient or seconds > max_wait or clock() + seconds >= latest:
                if seconds > max_wait:
                    error.add_note(
                        f"The provider asks to wait {seconds:g} seconds, more than the maximum of {max_wait:g}."
                    )
                raise _note_tries(error, tries)
            yield from ask(Emit(Retrying(error, seconds)))
            yield from ask(Sleep(seconds))

    return around(handle, AskModel)


def _note_tries(error: ModelError, tries: int) -> ModelError:
    if tries > 1:
        error.add_note(f"The request was made {tries} times.")
    return error


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
