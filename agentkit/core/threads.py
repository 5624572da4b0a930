"""Daemon threads for tools: used again when they are free, given up when they take too long.

A daemon cannot keep the process alive, so a tool that hangs cannot either (the threads of `ThreadPoolExecutor` can).
Python cannot stop a thread.  Work that is *given up* is told so, if it left word how (`stopped_by`); what goes on in
spite of that is counted by `abandoned`, and its thread is never given other work before it has ended.
"""

import contextvars
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TypeAlias

Stop: TypeAlias = Callable[[], object]

LOOK_UP = 1.0
"""Seconds that are waited at a stretch: an interrupt that comes as a wait begins is not heard before its end."""
IDLE = 10.0
"""Seconds that a thread without work waits for some before it ends."""


class Work:
    """Work that goes on in a thread, in a copy of the context of whoever gave it; `function` must not raise."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.given_up = False
        self._over = False
        self._stops: list[Stop] = []
        _free_thread().put((contextvars.copy_context(), self, function))

    def give_up(self) -> None:
        """Wait for it no longer; may be called from any thread, at any time."""
        with _lock:
            if self._over or self.given_up:
                return
            self.given_up = True
            _abandoned.add(self)
            stops = [*self._stops]
        for stop in stops:
            stop()

    def _run(self, function: Callable[[], object]) -> None:
        _current.set(self)
        try:
            function()
        finally:
            with _lock:
                self._over = True
                _abandoned.discard(self)

    def _left_word(self, stop: Stop) -> None:
        with _lock:
            self._stops.append(stop)
            too_late = self.given_up
        if too_late:
            stop()

    def _took_back(self, stop: Stop) -> None:
        with _lock:
            self._stops.remove(stop)


@contextmanager
def stopped_by(stop: Stop) -> Iterator[None]:
    """While the body runs, giving up the work that it is part of calls `stop` (at once, if that has happened)."""
    work = _current.get()
    if work is None:
        yield
        return
    work._left_word(stop)
    try:
        yield
    finally:
        work._took_back(stop)


def is_given_up() -> bool:
    """Whether nobody waits any longer for the work that this code is part of."""
    work = _current.get()
    return work is not None and work.given_up


def abandoned() -> int:
    """How many threads still run what was given up: calls that took too long, or whose run was stopped."""
    with _lock:
        return len(_abandoned)


class Turnstile:
    """Lets one in at a time, in the order in which they came, whatever thread or event loop they are on."""

    def __init__(self) -> None:
        self.moved = time.perf_counter()
        """When somebody last got in."""
        self._line: deque[Callable[[], object]] = deque()
        self._lock = threading.Lock()

    def enter(self, admitted: Callable[[], object]) -> None:
        """Stand in line; `admitted` is called once, by whichever thread, when all who came before have left."""
        with self._lock:
            self._line.append(admitted)
            is_first = len(self._line) == 1
        if is_first:
            self._admit(admitted)

    def leave(self, admitted: Callable[[], object]) -> None:
        """Make way, or give up waiting; whoever is not in line leaves nothing."""
        with self._lock:
            if admitted not in self._line:
                return
            was_first = self._line[0] is admitted
            self._line.remove(admitted)
            following = self._line[0] if was_first and self._line else None
        if following:
            self._admit(following)

    def _admit(self, admitted: Callable[[], object]) -> None:
        self.moved = time.perf_counter()
        admitted()


_Inbox: TypeAlias = SimpleQueue[tuple[contextvars.Context, Work, Callable[[], object]]]
_current: contextvars.ContextVar[Work | None] = contextvars.ContextVar("work", default=None)
_lock = threading.Lock()
_abandoned: set[Work] = set()
_idle: deque[_Inbox] = deque()


def _free_thread() -> _Inbox:
    """Where to put work for a thread that has none; a new one, if there is no such thread."""
    with _lock:
        if _idle:
            return _idle.pop()
    inbox: _Inbox = SimpleQueue()
    threading.Thread(target=_serve, args=(inbox,), daemon=True, name="agentkit-worker").start()
    return inbox


def _serve(inbox: _Inbox) -> None:
    while True:
        try:
            context, work, function = inbox.get(timeout=IDLE)
        except Empty:
            with _lock:
                if inbox in _idle:  # else somebody has just taken it, to put work in
                    _idle.remove(inbox)
                    return
            continue
        context.run(work._run, function)
        del context, work, function  # what they hold is not kept until the next work comes
        with _lock:
            _idle.append(inbox)


def _forget_threads() -> None:
    global _lock
    _lock = threading.Lock()
    _idle.clear()
    _abandoned.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)  # a forked process has none of its parent's threads
