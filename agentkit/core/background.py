"""Where tools run: plain functions in daemon threads, coroutines on one background event loop.

A worker thread has no event loop of its own and the caller's context variables.  Coroutines that are started from
blocking code share a loop for the life of the process, so that a client made by one call still works in the next; only
a loop that is blocked by a coroutine that was given up has its place taken by another one.
"""

import asyncio
import contextvars
import inspect
import io
import itertools
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary

from .threads import LOOK_UP, Work, stopped_by

T = TypeVar("T")

MOST_ITEMS = 10_000
"""How many items a model is shown of an iterator, which may have no end."""
PATIENCE = 0.1
"""Seconds that the background loop is given to hear of a coroutine that is given up, before another takes its place."""
_SETTLED = frozenset({str, int, float, bool, dict, list, tuple, type(None)})
"""Types of most results, which are what they come to."""


def start_thread(function: Callable[[], object]) -> Work:
    """Run `function` in a daemon thread, in a copy of the caller's context; it must not raise."""
    return Work(function)


async def in_thread(function: Callable[[], T]) -> T:
    """Run `function` in a daemon thread and await its value; when cancelled, the thread is given up."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Callable[[], T]] = loop.create_future()

    def work() -> None:
        outcome = _outcome(function)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any longer
            loop.call_soon_threadsafe(_settle, ended, outcome)

    thread = Work(work)
    try:
        outcome = await ended
    except BaseException:
        thread.give_up()
        raise
    return outcome()


def run_coroutine(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop | None = None) -> T:
    """Run a coroutine from blocking code, on `loop` or in the background, and wait for its value."""
    ended: Future[T] = Future()
    try:
        give_up = start_coroutine(_into(ended, coroutine), loop)
    except RuntimeError:  # the loop is closed
        coroutine.close()
        raise
    with stopped_by(give_up):
        try:
            while not ended.done():
                with suppress(TimeoutError):  # the coroutine's own is raised below
                    ended.result(LOOK_UP)
            return ended.result()
        except KeyboardInterrupt:
            give_up()
            raise


def start_coroutine(
    coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop | None = None
) -> Callable[[], None]:
    """Start a coroutine, which must not raise, on `loop` or in the background; gives what cancels it, from any thread.

    It runs in a copy of the caller's context, and its beginning is never cancelled.  A coroutine that blocks the
    background loop by calling such code again (an agent inside a tool of an agent) finds another loop one level deeper:
    it would else wait for itself.
    """
    context = contextvars.copy_context()
    if loop is None:
        depth = _depth.get()
        context.run(_depth.set, depth + 1)
        loop = _background_loop(depth)
    task: asyncio.Task[None] | None = None

    def begin() -> None:
        nonlocal task
        task = loop.create_task(coroutine)

    def cancel() -> None:
        if task is not None:
            loop.call_soon(task.cancel)

    def give_up() -> None:
        if not loop.is_closed():
            heard = _unheard[loop] = threading.Event()
            loop.call_soon_threadsafe(cancel)
            loop.call_soon_threadsafe(heard.set)

    try:
        loop.call_soon_threadsafe(begin, context=context)
    except RuntimeError:
        coroutine.close()
        raise
    return give_up


def settled(value: Any, most: int | None = None, loop: asyncio.AbstractEventLoop | None = None) -> Any:
    """What a tool's return value comes to: an awaitable is awaited, an iterator's items are collected in a list.

    With `most`, no more items than that are taken of an iterator, which may have no end; a last text says so.  `loop`
    is the running loop (of another thread) that an awaitable belongs to; without it, one in the background is used.
    """
    if type(value) in _SETTLED:
        return value
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        return run_coroutine(asettled(value, most), loop)
    return collected(value, most) if is_lazy(value) else value


async def asettled(value: Any, most: int | None = None) -> Any:
    """`settled`, on the running event loop."""
    if inspect.iscoroutine(value) or inspect.isawaitable(value):
        value = await value
    if type(value) in _SETTLED:
        return value
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


def _outcome(function: Callable[[], T]) -> Callable[[], T]:
    """Call `function`; gives what returns its value or raises its exception, somewhere else."""
    try:
        value = function()
    except BaseException as error:
        return partial(_raise, error)
    return lambda: value


def _raise(error: BaseException) -> NoReturn:
    raise error


def _settle(future: "asyncio.Future[T]", value: T) -> None:
    if not future.done():
        future.set_result(value)


async def _into(future: "Future[T]", coroutine: Coroutine[Any, Any, T]) -> None:
    try:
        future.set_result(await coroutine)
    except BaseException as error:
        future.set_exception(error)


_depth: contextvars.ContextVar[int] = contextvars.ContextVar("depth", default=0)
_starting = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_loops.clear)  # a forked process has none of its parent's threads
_unheard: WeakKeyDictionary[asyncio.AbstractEventLoop, threading.Event] = WeakKeyDictionary()
"""For each loop, set as soon as it has heard of the last coroutine that was given up."""


def _background_loop(depth: int) -> asyncio.AbstractEventLoop:
    with _starting:
        if depth not in _loops or _is_blocked(_loops[depth]):
            loop = _loops[depth] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, daemon=True, name=f"agentkit-loop-{depth}").start()
        return _loops[depth]


def _is_blocked(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a coroutine that was given up still blocks its loop: it waits without awaiting."""
    heard = _unheard.pop(loop, None)
    return heard is not None and not heard.wait(PATIENCE)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` gives a coroutine at once (what a decorator wraps does not count)."""
    while isinstance(function, partial):
        function = function.func
    called = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
