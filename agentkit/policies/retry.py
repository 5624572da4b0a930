"""Asking again when a provider failed in a way that passes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ModelError
from ..flow import Effect, Emit, Event, Flow, Policy, Sleep, around, ask
from ..model import AskModel

WAITS = (0.5, 1.0, 2.0, 4.0)
LONGEST_WAIT = 10.0
"""Seconds.  A provider that asks for more than this has its error raised: the caller knows better what to do."""


@dataclass(frozen=True, slots=True)
class Retrying(Event):
    """A request failed and is made again after some seconds; what was streamed of its reply does not count."""

    error: ModelError
    seconds: float


def retry(waits: Sequence[float] = WAITS) -> Policy:
    """Ask the model again after a transient error, once for each of `waits` (seconds, spread by chance).

    A `Retry-After` of the provider is kept to, up to `LONGEST_WAIT`.
    """

    def handle(effect: Effect[Any]) -> Flow[Any]:
        for wait in waits if isinstance(effect, AskModel) else ():
            try:
                return (yield from ask(effect))
            except ModelError as caught:
                error = caught
            seconds = wait * random.uniform(0.8, 1.2) if error.retry_after is None else error.retry_after
            if not error.transient or seconds > LONGEST_WAIT:
                raise error
            yield from ask(Emit(Retrying(error, seconds)))
            yield from ask(Sleep(seconds))
        return (yield from ask(effect))

    return around(handle)
