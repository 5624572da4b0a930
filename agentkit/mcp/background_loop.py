"""The event loop that owns the connections: one daemon thread, which lives while a server is open.

A connection must be entered and left by the same task, and it outlives the loops of the runs that use it.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from ..core.background import start_coroutine

T = TypeVar("T")


class BackgroundLoop:
    """An event loop in a daemon thread, which starts with the first user and stops with the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def acquire(self) -> asyncio.AbstractEventLoop:
        """Return the running loop; each call is matched by one of `release`."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._loop,), daemon=True, name="agentkit-mcp").start()
            self._users += 1
            return self._loop

    def release(self) -> None:
        """Stop the loop if this was its last user."""
        with self._lock:
            self._users -= 1
            if self._users or self._loop is None:
                return
            loop = self._loop
            self._loop = None
        loop.call_soon_threadsafe(loop.stop)

    def forget(self) -> None:
        """Start anew in a forked process, which has no thread of its parent."""
        self._lock = threading.Lock()
        self._users = 0
        self._loop = None


LOOP = BackgroundLoop()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LOOP.forget)


async def run_on(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that runs on another loop; cancelling the caller cancels it there, after its first step.

    It runs in a copy of the caller's context, so a trace continues in it.
    """
    own = asyncio.get_running_loop()
    ended: asyncio.Future[T] = own.create_future()

    def finish(value: Any, error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(value)
        elif isinstance(error, asyncio.CancelledError):
            ended.cancel()
        else:
            ended.set_exception(error)

    async def work() -> None:
        value = None
        error = None
        try:
            value = await coroutine
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the caller's loop is closed
            own.call_soon_threadsafe(finish, value, error)

    cancel = start_coroutine(work(), loop)
    try:
        return await ended
    except asyncio.CancelledError:
        cancel()
        raise


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
