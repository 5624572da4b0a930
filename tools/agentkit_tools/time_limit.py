"""A time limit for work that cannot be interrupted."""

from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


def run_within(seconds: float, work: Callable[[], T]) -> T:
    """Run `work` in a daemon thread, and return or raise its outcome.

    Args:
        seconds: The time limit. When it is over, the thread is abandoned.
        work: A callable without arguments; it runs in a copy of the caller's context.

    Raises:
        TimeoutError: `work` did not finish in time.
    """
    outcome: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
    context = copy_context()

    def run() -> None:
        try:
            outcome.put((True, context.run(work)))
        except BaseException as error:
            outcome.put((False, error))

    Thread(target=run, name="agentkit-tool", daemon=True).start()
    try:
        is_done, value = outcome.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if not is_done:
        raise value
    done: T = value
    return done
