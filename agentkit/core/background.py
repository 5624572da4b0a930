"""Run tools beside the caller: plain functions in daemon threads, coroutines on a background event loop.

A worker thread has no event loop of its own and a copy of the caller's context variables.  Coroutines started from
blocking code share one loop for the life of the process, so a client made by one call still works in the next.  A loop
that a cancelled coroutine blocks is replaced by a new one.
"""

import asyncio
import atexit
import contextvars
import inspect
import io
import itertools
import os
import selectors
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from .errors import RunError
from .flow import Done, Event
from .threads import POLL_SECONDS, Work, capture, on_cancel
from .values import frozen

T = TypeVar("T")

MAX_ITEMS = 10_000
"""The most items that a model is shown of an iterator, which may have no end."""
CANCEL_GRACE_SECONDS = 0.1
"""How long the background loop may take to process a cancellation before it counts as blocked and is replaced."""
_RESOLVED_TYPES = frozenset({str, int, float, bool, dict, list, tuple, type(None)})
"""Types of most results, which `resolve` returns at once."""


def check_event_loop(blocking: str) -> None:
    """Raise `RunError` unless an asyncio event loop runs in this thread; `blocking` is the method to call instead."""
    try:
        asyncio.get_running_loop()
    except RuntimeError as error:
        raise RunError(
            "no asyncio event loop is running here, and the async methods need one. Under trio, call the blocking "
            f"method in a thread: await trio.to_thread.run_sync({blocking})"
        ) from error


async def run_in_thread(function: Callable[[], T]) -> T:
    """Run `function` in a daemon thread and return its value; if the caller is cancelled, cancel the work."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Callable[[], T]] = loop.create_future()

    def work() -> None:
        outcome = capture(function)
        with suppress(RuntimeError):  # the loop is closed, so no task awaits the outcome
            loop.call_soon_threadsafe(_set_result, ended, outcome)

    thread = Work(work)
    try:
        outcome = await ended
    except BaseException:
        thread.cancel()
        raise
    return outcome()


def run_coroutine(
    coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop | None = None, poll_seconds: float = POLL_SECONDS
) -> T:
    """Run a coroutine from blocking code, on `loop` or on a background loop, and return its value."""
    ended: Future[T] = Future()
    try:
        cancel = start_coroutine(_forward_outcome(ended, coroutine), loop)
    except RuntimeError:  # the loop is closed, or no thread can be started
        coroutine.close()
        raise
    with on_cancel(cancel):
        try:
            while not ended.done():
                wait([ended], poll_seconds)
        except BaseException:  # a signal handler raised it
            cancel()
            raise
        return ended.result()


def iterate_blocking(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield the items of an async generator from blocking code; all of it runs on one background event loop.

    Closing the iteration closes the generator and waits for that.  What a signal handler raises during the wait for an
    item cancels the generator.
    """
    context = contextvars.copy_context()
    end = object()
    loop = _background_loop(_depth.get())
    context.run(_depth.set, _depth.get() + 1)

    async def advance() -> Any:
        return await anext(items, end)

    while (item := context.run(run_coroutine, advance(), loop)) is not end:
        try:
            yield item
        except BaseException:
            context.run(run_coroutine, items.aclose(), loop)
            raise


_left: WeakSet[Generator[Any, None, Any]] = WeakSet()


def close_at_exit(events: Generator[T, None, None]) -> Generator[T, None, None]:
    """Return `events`, which are closed at the exit of the interpreter if they were left half-way.

    Later its threads stand still, and a generator that is closed then would wait for them without end.
    """
    if not _left:
        atexit.unregister(_close_left)  # the last one to register is called first, before what closes the journals
        atexit.register(_close_left)
    _left.add(events)
    return events


def _close_left() -> None:
    for events in [*_left]:
        with suppress(ValueError):  # a daemon thread is running it
            events.close()


def start_coroutine(
    coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop | None = None
) -> Callable[[], None]:
    """Start a coroutine in the background and return a function that cancels it, callable from any thread.

    The coroutine must not raise.  It runs in a copy of the caller's context, on `loop` or a background loop; a
    cancellation takes effect after its first step at the earliest.  Blocking code on a background loop that starts
    another coroutine (an agent inside a tool of an agent) uses a second loop, one level deeper: on the same loop it
    would wait for itself.

    Raises:
        RuntimeError: The loop is closed, or no thread can be started.
    """
    context = contextvars.copy_context()
    if loop is None:
        depth = _depth.get()
        context.run(_depth.set, depth + 1)
        try:
            loop = _background_loop(depth)
        except RuntimeError:
            coroutine.close()
            raise
    task: asyncio.Task[None] | None = None

    def begin() -> None:
        nonlocal task
        task = loop.create_task(coroutine)

    def cancel_task() -> None:
        if task is not None:
            loop.call_soon(task.cancel)

    def cancel() -> None:
        if not loop.is_closed():
            confirmed = _unconfirmed[loop] = threading.Event()
            loop.call_soon_threadsafe(cancel_task)
            loop.call_soon_threadsafe(confirmed.set)

    try:
        loop.call_soon_threadsafe(begin, context=context)
    except RuntimeError:
        coroutine.close()
        raise
    return cancel


def resolve(value: Any, max_items: int | None = None, loop: asyncio.AbstractEventLoop | None = None) -> Any:
    """Resolve a tool's return value, blocking: await an awaitable, collect an iterator's items in a list.

    Of an iterator at most `max_items` are taken; a final text notes the truncation.  `loop` is the running loop, of
    another thread, that an awaitable belongs to; default: a background loop.
    """
    if type(value) in _RESOLVED_TYPES:
        return value
    if inspect.isawaitable(value) or isinstance(value, AsyncGenerator):
        return run_coroutine(aresolve(value, max_items), loop)
    return collect_items(value, max_items) if is_lazy(value) else value


async def aresolve(value: Any, max_items: int | None = None) -> Any:
    """Resolve a tool's return value on the running event loop, see `resolve`."""
    if inspect.iscoroutine(value) or inspect.isawaitable(value):
        value = await value
    if type(value) in _RESOLVED_TYPES:
        return value
    if isinstance(value, AsyncGenerator):
        return await _acollect_items(value, max_items)
    return collect_items(value, max_items) if is_lazy(value) else value


def is_lazy(value: Any) -> bool:
    """Whether `value` yields its items once, one by one: a generator, `map`, a cursor; but not an open file."""
    return isinstance(value, Iterator) and not isinstance(value, io.IOBase)


def collect_items(items: Iterable[Any], max_items: int | None = None) -> list[Any]:
    """Return the first `max_items` items (default: all); a final text notes the truncation."""
    found = list(itertools.islice(items, None if max_items is None else max_items + 1))
    return _note_truncation(found, max_items)


async def _acollect_items(items: AsyncGenerator[Any, None], max_items: int | None) -> list[Any]:
    found = []
    async with aclosing(items):
        async for item in items:
            found.append(item)
            if max_items is not None and len(found) > max_items:
                break
    return _note_truncation(found, max_items)


def _note_truncation(found: list[Any], max_items: int | None) -> list[Any]:
    if max_items is None or len(found) <= max_items:
        return found
    return [*found[:max_items], f"... (only the first {max_items:,} items were taken)"]


def _set_result(future: "asyncio.Future[T]", value: T) -> None:
    if not future.done():
        future.set_result(value)


async def _forward_outcome(future: "Future[T]", coroutine: Coroutine[Any, Any, T]) -> None:
    try:
        future.set_result(await coroutine)
    except BaseException as error:
        future.set_exception(error)


_depth: contextvars.ContextVar[int] = contextvars.ContextVar("depth", default=0)
_starting = threading.Lock()
_loops: dict[int, Future[asyncio.AbstractEventLoop]] = {}


def _forget_loops() -> None:
    global _starting
    _starting = threading.Lock()
    _loops.clear()
    _left.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loops)  # a forked process has none of its parent's threads
_unconfirmed: WeakKeyDictionary[asyncio.AbstractEventLoop, threading.Event] = WeakKeyDictionary()
"""The last cancellation of each loop; the event is set as soon as the loop has processed it."""


def _background_loop(depth: int) -> asyncio.AbstractEventLoop:
    running = _loops.get(depth)
    if running is None or (running.done() and (running.exception() or _is_blocked(running.result()))):
        with _starting:  # nothing in here waits: with gevent, what waits lets other threads run
            is_replaced = _loops.get(depth) is running
            if is_replaced:
                _loops[depth] = Future()
            running = _loops[depth]
        if is_replaced:
            thread = threading.Thread(target=_run_always, args=[running], daemon=True, name=f"agentkit-loop-{depth}")
            try:
                thread.start()
            except RuntimeError as error:  # the process has as many threads as it may have
                running.set_exception(error)
    return running.result()


def _run_always(running: "Future[asyncio.AbstractEventLoop]") -> None:
    """Run a new loop until it is closed, also after a tool stopped it or a task that a tool started exits.

    `running` has the loop as soon as it runs.
    """
    loop = make_event_loop()
    loop.call_soon(running.set_result, loop)
    while not loop.is_closed():
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


def make_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop for a daemon thread, which is a greenlet where gevent or eventlet replaced threads."""
    gevent = sys.modules.get("gevent.monkey")
    eventlet = sys.modules.get("eventlet.patcher")
    is_patched = (gevent is not None and gevent.is_module_patched("threading")) or (
        eventlet is not None and eventlet.is_monkey_patched("thread")
    )
    return _GreenletLoop() if is_patched else asyncio.new_event_loop()


class _GreenletLoop(asyncio.SelectorEventLoop):
    """An event loop in a greenlet.

    asyncio knows the running loop of a thread, and all greenlets are one thread.  Other greenlets run while this loop
    waits, and find the loop then that they would find without it: none, or their own.
    """

    def __init__(self) -> None:
        selector = selectors.DefaultSelector()
        super().__init__(selector)
        self._select = selector.select
        self._outer: asyncio.AbstractEventLoop | None = None
        selector.select = self._wait  # type: ignore[method-assign]

    def run_forever(self) -> None:
        self._outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            super().run_forever()
        finally:
            asyncio._set_running_loop(self._outer)

    def _wait(self, timeout: float | None = None) -> Any:
        asyncio._set_running_loop(self._outer)
        try:
            return self._select(timeout)
        finally:
            self._outer = asyncio._get_running_loop()
            asyncio._set_running_loop(self)


def _is_blocked(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a cancelled coroutine still blocks `loop`: it waits without awaiting."""
    confirmed = _unconfirmed.get(loop)
    return confirmed is not None and not confirmed.wait(CANCEL_GRACE_SECONDS)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling `function` returns a coroutine or an async generator; what a decorator wraps is ignored."""
    while isinstance(function, partial):
        function = function.func
    called = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)


@frozen
class InThread(Generic[T]):
    """The effect that calls a function, on an event loop in a thread; its outcome is what the function returns."""

    function: Callable[[], T]

    def perform(self) -> Generator[Event, None, T]:
        yield from ()
        return self.function()

    async def aperform(self) -> AsyncGenerator[Event | Done[T], None]:
        yield Done(await run_in_thread(self.function))
