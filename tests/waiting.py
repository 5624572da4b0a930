"""How tests wait: for an event or a condition, never for a moment, so that they also hold on a slow or busy machine."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HANGS = 600.0
"""Seconds that a tool, a server or a wait lasts that a test abandons: pytest ends a test that waits for it."""


class TimeLimit(TimeoutError):
    """What a queue of jobs raises where an agent waits, as Celery, RQ and Dramatiq do."""


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for a condition that no event reports; pytest ends a test in which it never holds, and shows its line."""
    while not condition():
        time.sleep(0.005)


@contextmanager
def noting(describe: Callable[[], object]) -> Iterator[None]:
    """Add a description to the error of a block, that of a wait which pytest ends included."""
    try:
        yield
    except BaseException as error:
        error.add_note(str(describe()))
        raise


@contextmanager
def without_collector() -> Iterator[None]:
    """Run a block in which nothing is closed because the garbage collector found it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
