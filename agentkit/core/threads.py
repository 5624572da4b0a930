"""Daemon threads for tools: reused while they are free, abandoned when their work takes too long.

A daemon thread cannot keep the process alive, so a tool that hangs cannot either; `ThreadPoolExecutor` threads can.
Python cannot stop a thread.  Cancelled work is notified through the callbacks registered with `on_cancel`; work that
continues all the same is counted by `count_abandoned`, and its thread takes no other work before that has ended.
"""

import ast
import contextvars
import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from traceback import walk_tb
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar
from weakref import WeakSet

CancelCallback: TypeAlias = Callable[[], object]
T = TypeVar("T")

POLL_SECONDS = 1.0
"""The longest uninterrupted wait: an interrupt that arrives as a wait begins is handled only when the wait ends."""
MAX_IDLE_SECONDS = 10.0
"""How long a thread without work waits for some before it ends."""


_parsing = threading.RLock()  # not a plain lock: a finalizer in the same thread may parse, too
PARSE_ATTEMPTS = 5


def parse_python(source: str, mode: Literal["exec", "eval"] = "exec") -> Any:
    """Do `ast.parse`, from any thread.

    Before Python 3.11.8 it counts its depth for all threads together (CPython gh-106905), and raises `SystemError` when
    two of them parse at a time; the next attempt succeeds.

    Raises:
        SyntaxError: The source is no Python.
        RecursionError: It is nested too deeply; or `MemoryError`.
        ValueError: It contains a null byte.
    """
    for _ in range(PARSE_ATTEMPTS):
        with suppress(SystemError), _parsing:
            return ast.parse(source, mode=mode)
    return ast.parse(source, mode=mode)


class Cancellation:
    """A flag that is set once, from any thread, with a reason, and then calls its callbacks."""

    def __init__(self) -> None:
        self.is_set = False
        self.reason = ""
        self._callbacks: list[CancelCallback] = []

    def set(self, reason: str = "") -> None:
        """Set the flag and call the callbacks; do nothing if it is set."""
        with _lock:
            if self.is_set:
                return
            self.is_set = True
            self.reason = reason
            callbacks = [*self._callbacks]
        for callback in callbacks:
            callback()

    def add_callback(self, callback: CancelCallback) -> None:
        """Call `callback` when the flag is set; at once if it is."""
        with _lock:
            self._callbacks.append(callback)
            is_late = self.is_set
        if is_late:
            callback()

    def remove_callback(self, callback: CancelCallback) -> None:
        """Remove a callback added with `add_callback`."""
        with _lock:
            self._callbacks.remove(callback)


class Work:
    """A function that runs in a daemon thread, in a copy of the caller's context; the function must not raise."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.cancellation = Cancellation()
        self._is_over = False
        _free_thread().put((contextvars.copy_context(), self, function))

    def cancel(self) -> None:
        """Stop waiting for the work and call its cancel callbacks; from any thread, at any time."""
        with _lock:
            if self._is_over or self.cancellation.is_set:
                return
            _abandoned.add(self)
        self.cancellation.set()

    def _run(self, function: Callable[[], object]) -> None:
        _current.set(self.cancellation)
        try:
            function()
        finally:
            with _lock:
                self._is_over = True
                _abandoned.discard(self)


def take(items: "queue.SimpleQueue[T]", seconds: float) -> T:
    """Return the next item of a queue; raise `queue.Empty` if none arrives within `seconds`.

    What another thread raises in this one takes effect between two waits, of `POLL_SECONDS` at most.
    """
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > POLL_SECONDS:
        with suppress(queue.Empty):
            return items.get(timeout=POLL_SECONDS)
    return items.get(timeout=max(0.0, left))


def run_within(seconds: float, function: Callable[[], T]) -> T:
    """Run a function that cannot be interrupted, and return or raise its outcome.

    Args:
        seconds: The time limit.  At its end the thread of the function is abandoned; without time there is no call.
        function: A callable without arguments; it runs in a copy of the caller's context.

    Raises:
        TimeoutError: The function did not finish in time.
    """
    if seconds <= 0:
        raise TimeoutError
    ended: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
    work = Work(lambda: ended.put(capture(function)))
    try:
        outcome = take(ended, seconds)
    except BaseException as error:  # the time is over, or something outside raised it here
        work.cancel()
        if isinstance(error, queue.Empty):
            raise TimeoutError from None
        raise
    return outcome()


def capture(function: Callable[[], T]) -> Callable[[], T]:
    """Call `function` and return a callable that replays its result or exception in another thread."""
    try:
        value = function()
    except BaseException as error:
        return partial(_raise, error)
    return lambda: value


def _raise(error: BaseException) -> NoReturn:
    raise error


def raise_outside_error(error: BaseException | None) -> None:
    """Raise the error again, or that which caused it, if it came from outside, so is no failure of the code at work.

    A handler of a signal raised it, as the time limits of Celery and RQ do, or another thread did while the code waited
    in `take`, as those of Dramatiq do.
    """
    outside: set[Any] = {take.__code__}
    if threading.current_thread() is threading.main_thread():  # where the handlers run
        outside |= {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    while error is not None:
        frames = walk_tb(error.__traceback__)
        if not isinstance(error, queue.Empty) and any(frame.f_code in outside for frame, _ in frames):
            raise error
        error = error.__cause__


class on_cancel:  # noqa: N801 - a context manager, faster than a generator with `contextmanager`
    """While the body runs, call `callback` when the work or the run that it is part of is cancelled, or was before."""

    __slots__ = ("_callback", "_sources")

    def __init__(self, callback: CancelCallback) -> None:
        self._callback = callback
        self._sources = [source for source in (_current.get(), RUN_CANCELLATION.get()) if source is not None]

    def __enter__(self) -> None:
        for source in self._sources:
            source.add_callback(self._callback)

    def __exit__(self, *_: object) -> None:
        for source in self._sources:
            source.remove_callback(self._callback)


def is_cancelled() -> bool:
    """Whether the work or the run that this code is part of was cancelled."""
    return any(source is not None and source.is_set for source in (_current.get(), RUN_CANCELLATION.get()))


def count_abandoned() -> int:
    """Return how many threads still run cancelled work: calls that timed out, or whose run was stopped."""
    with _lock:
        return len(_abandoned)


class FifoLock:
    """A lock that is granted in the order of the requests, across threads and event loops, through callbacks."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.granted_at = clock()
        """When the lock was last granted."""
        self._waiting: deque[Callable[[], object]] = deque()
        self._lock = threading.RLock()  # see `_lock`
        _fifo_locks.add(self)

    def forget_requests(self) -> None:
        """Release the lock, and withdraw all requests."""
        self._lock = threading.RLock()
        self._waiting.clear()

    def acquire(self, granted: Callable[[], object]) -> None:
        """Request the lock; `granted` is called once, in any thread, when all earlier requests have released it."""
        with self._lock:
            self._waiting.append(granted)
            is_first = len(self._waiting) == 1
        if is_first:
            self._grant(granted)

    def release(self, granted: Callable[[], object]) -> None:
        """Release the lock or withdraw the request; do nothing for a callback that made no request."""
        with self._lock:
            if granted not in self._waiting:
                return
            was_first = self._waiting[0] is granted
            self._waiting.remove(granted)
            following = self._waiting[0] if was_first and self._waiting else None
        if following:
            self._grant(following)

    def _grant(self, granted: Callable[[], object]) -> None:
        self.granted_at = self._clock()
        granted()


_Inbox: TypeAlias = "queue.SimpleQueue[tuple[contextvars.Context, Work, Callable[[], object]]]"
_current: contextvars.ContextVar[Cancellation | None] = contextvars.ContextVar("work", default=None)
RUN_CANCELLATION: contextvars.ContextVar[Cancellation | None] = contextvars.ContextVar("run_cancellation", default=None)
"""The cancellation of the run that the current code is part of."""
_lock = threading.RLock()  # not a plain lock: a signal handler or a finalizer in the same thread may need it, too
_abandoned: set[Work] = set()
_idle: deque[_Inbox] = deque()
_fifo_locks: WeakSet[FifoLock] = WeakSet()


def _free_thread() -> _Inbox:
    """Return the inbox of an idle thread, or of a new one if all threads are busy."""
    with _lock:
        if _idle:
            return _idle.pop()
    inbox: _Inbox = queue.SimpleQueue()
    threading.Thread(target=_run_worker, args=(inbox,), daemon=True, name="agentkit-worker").start()
    return inbox


def _run_worker(inbox: _Inbox) -> None:
    while True:
        try:
            context, work, function = inbox.get(timeout=MAX_IDLE_SECONDS)
        except queue.Empty:
            with _lock:
                if inbox in _idle:  # otherwise another thread has just taken it to put work in
                    _idle.remove(inbox)
                    return
            continue
        context.run(work._run, function)
        del context, work, function  # or their objects would live until the next work arrives
        with _lock:
            _idle.append(inbox)


def _forget_threads() -> None:
    global _lock, _parsing
    _lock = threading.RLock()
    _parsing = threading.RLock()
    _idle.clear()
    _abandoned.clear()
    for lock in _fifo_locks:
        lock.forget_requests()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)  # a forked process has none of its parent's threads
