"""Where tools run: plain functions in daemon threads, coroutines on one background event loop.

A worker thread has no event loop of its own and the caller's context variables.  It is a daemon, so a tool that hangs
cannot keep the process alive (the threads of `ThreadPoolExecutor` do).  Coroutines that are started from blocking code
share a loop for the life of the process, so that a client made by one call still works in the next.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start_thread(work: Callable[[], object]) -> None:
    """Run `work` in a new daemon thread, in a copy of the caller's context; it must not raise."""
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name="agentkit-worker").start()


async def in_thread(function: Callable[[], T]) -> T:
    """Run `function` in a daemon thread and await its value; when cancelled, the thread goes on and is forgotten."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = function()
        except BaseException as caught:
            error = caught
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    start_thread(work)
    return await future


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from blocking code and wait for its value.

    A coroutine that blocks its loop by calling such code again (an agent inside a tool of an agent) finds another loop
    one level deeper: it would else wait for itself.
    """
    depth = _depth.get()
    context = contextvars.copy_context()
    context.run(_depth.set, depth + 1)
    return asyncio.run_coroutine_threadsafe(_in_context(coroutine, context), _background_loop(depth)).result()


def settled(value: Any) -> Any:
    """What a tool's return value comes to: an awaitable is awaited, a generator's items are collected in a list."""
    if inspect.isgenerator(value):
        return list(value)
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        return run_coroutine(asettled(value))
    return value


async def asettled(value: Any) -> Any:
    """`settled`, on the running event loop."""
    if inspect.isawaitable(value):
        value = await value
    if inspect.isasyncgen(value):
        return [item async for item in value]
    return list(value) if inspect.isgenerator(value) else value


async def _in_context(coroutine: Coroutine[Any, Any, T], context: contextvars.Context) -> T:
    return await asyncio.get_running_loop().create_task(coroutine, context=context)


_depth: contextvars.ContextVar[int] = contextvars.ContextVar("depth", default=0)
_starting = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def _background_loop(depth: int) -> asyncio.AbstractEventLoop:
    with _starting:
        if depth not in _loops:
            loop = _loops[depth] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, daemon=True, name=f"agentkit-loop-{depth}").start()
        return _loops[depth]
