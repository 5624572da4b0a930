"""Where tools run: plain functions in daemon threads, coroutines on one background event loop.

A worker thread has no event loop of its own and the caller's context variables.  It is a daemon, so a tool that hangs
cannot keep the process alive (the threads of `ThreadPoolExecutor` do).  Coroutines that are started from blocking code
share a loop for the life of the process, so that a client made by one call still works in the next.
"""

import asyncio
import contextvars
import inspect
import io
import itertools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

MOST_ITEMS = 10_000
"""How many items a model is shown of an iterator, which may have no end."""


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


def settled(value: Any, most: int | None = None) -> Any:
    """What a tool's return value comes to: an awaitable is awaited, an iterator's items are collected in a list.

    With `most`, no more items than that are taken of an iterator, which may have no end; a last text says so.
    """
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        return run_coroutine(asettled(value, most))
    return collected(value, most) if is_lazy(value) else value


async def asettled(value: Any, most: int | None = None) -> Any:
    """`settled`, on the running event loop."""
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, AsyncGenerator):
        return await _acollected(value, most)
    return collected(value, most) if is_lazy(value) else value


def is_lazy(value: Any) -> bool:
    """Whether `value` gives its items one by one, once: a generator, `map`, a cursor; but not an open file."""
    return isinstance(value, Iterator) and not isinstance(value, io.IOBase)


def collected(items: Iterable[Any], most: int | None = None) -> list[Any]:
    """The items, `most` of them at the most; a last text says so if there are more."""
    found = list(itertools.islice(items, None if most is None else most + 1))
    return _told_of_more(found, most)


async def _acollected(items: AsyncGenerator[Any, None], most: int | None) -> list[Any]:
    found = []
    async with aclosing(items):
        async for item in items:
            found.append(item)
            if most is not None and len(found) > most:
                break
    return _told_of_more(found, most)


def _told_of_more(found: list[Any], most: int | None) -> list[Any]:
    if most is None or len(found) <= most:
        return found
    return [*found[:most], f"... (only the first {most:,} items were taken)"]


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


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` gives a coroutine at once (what a decorator wraps does not count)."""
    while isinstance(function, partial):
        function = function.func
    called = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
