"""Asking again when a provider failed in a way that passes.

Only the request to the model is made again: the conversation is what it was, and no tool runs a second time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import ModelError
from ..core.flow import Emit, Flow, Policy, Sleep, WarningEvent, around, ask
from ..engine.model import AskModel

WAITS = (0.5, 1.0, 2.0, 4.0)
MAX_WAIT_SECONDS = 10.0
"""Seconds.  A provider that asks for more than this has its error raised: the caller knows better what to do."""
MAX_RETRY_SECONDS = 180.0
"""Seconds from the first try on; after that, no further one begins."""


@dataclass(frozen=True, slots=True)
class Retrying(WarningEvent):
    """A request failed and is made again after some seconds.

    What was streamed of its reply (the deltas since the last `ModelAsked`) is withdrawn: take it back where shown.
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
    waits: Sequence[float] = WAITS, *, max_wait: float = MAX_WAIT_SECONDS, max_seconds: float = MAX_RETRY_SECONDS
) -> Policy:
    """Ask the model again after a transient error, once for each of `waits` (seconds, spread by chance).

    A `Retry-After` of the provider is kept to.  One above `max_wait`, or a wait that would go beyond `max_seconds`
    (seconds since the first try) or the request's own `timeout` (which holds for all its tries together), has the error
    raised instead.
    """

    def handle(effect: AskModel) -> Flow[Any]:
        begun, timeout = time.monotonic(), effect.request.timeout
        end = None if timeout is None else begun + timeout
        latest = begun + (max_seconds if timeout is None else min(max_seconds, timeout))
        for tries, wait in enumerate(waits, 1):
            try:
                return (yield from ask(_cap_request(effect, end)))
            except ModelError as caught:
                error = caught
            seconds = wait * random.uniform(0.8, 1.2) if error.retry_after is None else error.retry_after
            if not error.transient or seconds > max_wait or time.monotonic() + seconds >= latest:
                if seconds > max_wait:
                    error.add_note(f"The provider asks to wait {seconds:g} seconds, and {max_wait:g} is the most.")
                raise _note_tries(error, tries)
            yield from ask(Emit(Retrying(error, seconds)))
            yield from ask(Sleep(seconds))
        try:
            return (yield from ask(_cap_request(effect, end)))
        except ModelError as caught:
            error = caught
        raise _note_tries(error, len(waits) + 1)

    return around(handle, AskModel)


def _cap_request(effect: AskModel, end: float | None) -> AskModel:
    """The effect with what is left of its time."""
    if end is None:
        return effect
    return replace(effect, request=replace(effect.request, timeout=max(0.0, end - time.monotonic())))


def _note_tries(error: ModelError, tries: int) -> ModelError:
    if tries > 1:
        error.add_note(f"The request was made {tries} times.")
    return error
