"""Detect coroutines that block their event loop, which no timeout can interrupt."""

import time
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from types import coroutine
from typing import Any, TypeVar

from ...core.flow import WarningEvent
from .call import BoundCall

T = TypeVar("T")

BLOCKING_SECONDS = 1.0
"""Seconds between two awaits of a coroutine that are reported, or fewer if the timeout of the call is shorter."""


@dataclass(frozen=True, slots=True)
class ToolBlockedLoop(WarningEvent):
    """A coroutine function ran for `seconds` without awaiting: nothing else on its event loop ran meanwhile.

    The timeout of the call could not take effect either.
    """

    call: BoundCall
    seconds: float

    @property
    def notice(self) -> str:
        return (
            f"{self.call.call.name} blocked the event loop for {self.seconds:.1f} seconds, so its timeout had no "
            "effect: make it a plain function, which runs in a thread, or await asyncio.to_thread(...) for slow parts"
        )


@coroutine
def watch_steps(work: Coroutine[Any, Any, T], report: Callable[[float], object]) -> Generator[Any, Any, T]:
    """Await `work`, and report the seconds of its longest step between two awaits when it ends."""
    value, error, longest = None, None, 0.0
    try:
        while True:
            start = time.perf_counter()
            try:
                wanted = work.send(value) if error is None else work.throw(error)
            except StopIteration as stop:
                result: T = stop.value
                return result
            finally:
                longest = max(longest, time.perf_counter() - start)
            value, error = None, None
            try:
                value = yield wanted
            except GeneratorExit:
                work.close()
                raise
            except BaseException as raised:
                error = raised
    finally:
        report(longest)
