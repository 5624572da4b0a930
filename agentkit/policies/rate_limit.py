"""Limits on the requests to a model at a time and per minute; requests beyond them wait in line.

There is one gate for a model's name in the process, and the requests of all agents pass it.  Where two agents set
different limits for one model, the smaller one holds from then on.
"""

from __future__ import annotations

import asyncio
import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeAlias

from ..core.errors import DefinitionError, ModelError, RunError
from ..core.flow import Done, Emit, Event, Flow, Hooks, Policy, around, ask
from ..core.threads import on_cancel, take
from ..core.values import frozen
from ..engine.model import AskModel, Reply

Ticket: TypeAlias = "Future[None]"


_SETTLING_SECONDS = 1.0
"""For which an awaited request waits for a stream that its own task has begun: a dropped one is still being closed."""
_READ_THEM = "Read them to their end, close them, or raise max_concurrency."


def _find_owner() -> asyncio.AbstractEventLoop | threading.Thread | None:
    """Return what a blocking wait stops: the loop of the running task, or the main thread; None in another thread.

    A stream that is begun in a thread of a pool may continue in another one.  Without a task, a loop that runs may be
    that of another greenlet of gevent.
    """
    if (task := _find_task()) is not None:
        return task.get_loop()
    thread = threading.current_thread()
    return thread if thread is threading.main_thread() else None


def _find_task() -> asyncio.Task[Any] | None:
    """Return what an awaiting wait stops: the running task."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


@frozen
class Throttled(Event):
    """A request waits in line: the limit on concurrent requests, or on requests per minute, is reached."""

    model: str

    @property
    def waits_for(self) -> str:
        return f"until {self.model} may be asked"

    @property
    def notice(self) -> str:
        return f"waiting until {self.model} may be asked"


class Gate:
    """Admits requests in order of arrival, from any thread and any event loop.

    `max_concurrency` of them may be in progress at a time, and `requests_per_minute` may begin in any `window` of 60
    seconds; None is no limit.
    """

    def __init__(
        self,
        *,
        window: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
    ) -> None:
        self.max_concurrency: int | None = None
        self.requests_per_minute: int | None = None
        self._window = window
        self._clock = clock
        self._start_timer = timer
        # reentrant: a flow that is garbage collected while its thread is in here calls `leave`
        self._lock = threading.RLock()
        self._line: deque[Ticket] = deque()
        self._under_way: set[Ticket] = set()
        self._owners: dict[Ticket, tuple[object, object]] = {}
        self._begun: deque[float] = deque()
        self._timer: threading.Timer | None = None

    def narrow(self, max_concurrency: int | None, requests_per_minute: int | None) -> None:
        """Set each limit to the smaller of its value and this one."""
        with self._lock:
            self.max_concurrency = _take_smaller(self.max_concurrency, max_concurrency)
            self.requests_per_minute = _take_smaller(self.requests_per_minute, requests_per_minute)

    def enter(self) -> Ticket:
        """Queue a request; the returned ticket is done when it may be sent.  Every ticket must be passed to `leave`."""
        ticket: Ticket = Future()
        with self._lock:
            self._owners[ticket] = _find_owner(), _find_task()
            self._line.append(ticket)
            self._admit()
        return ticket

    def is_blocked_by(self, stopped: object, ticket: Ticket) -> bool:
        """Return whether a wait would never end: requests of what it stops, `stopped`, take all places."""
        if stopped is None or self.max_concurrency is None:
            return False
        with self._lock:
            own = sum(stopped in owners for one, owners in self._owners.items() if one is not ticket)
        return own >= self.max_concurrency

    def leave(self, ticket: Ticket) -> None:
        """Remove a ticket: its request has ended, or is no longer wanted."""
        ticket.cancel()
        with self._lock:
            self._under_way.discard(ticket)
            self._owners.pop(ticket, None)
            self._admit()

    def _admit(self) -> None:
        """Admit the requests that may be sent now; where only time is missing, start a timer for the next."""
        while self._line and (self.max_concurrency is None or len(self._under_way) < self.max_concurrency):
            ticket = self._line.popleft()
            now = self._clock()
            if not ticket.cancelled() and (seconds := self._wait(now)) > 0:
                self._line.appendleft(ticket)
                self._admit_later(seconds)
                return
            if ticket.set_running_or_notify_cancel():
                self._under_way.add(ticket)
                self._begun.append(now)
                ticket.set_result(None)

    def _wait(self, now: float) -> float:
        """Return the seconds until one more request may begin."""
        while self._begun and self._begun[0] <= now - self._window:
            self._begun.popleft()
        most = self.requests_per_minute
        return 0.0 if most is None or len(self._begun) < most else self._begun[-most] + self._window - now

    def _admit_later(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._start_timer(seconds, self._on_timer)
            self._timer.daemon = True
            self._timer.start()

    def _on_timer(self) -> None:
        with self._lock:
            self._timer = None
            self._admit()


class GateRegistry:
    """The gates of a process, by the names of the models; `make_gate` returns a new one."""

    def __init__(self, make_gate: Callable[[], Gate] = Gate) -> None:
        self._make_gate = make_gate
        self._gates: dict[str, Gate] = {}
        self._lock = threading.Lock()

    def find(self, model: str) -> Gate | None:
        """Return the gate of a model, or None if no limit was ever set for it."""
        return self._gates.get(model)

    def open(self, model: str, max_concurrency: int | None = None, requests_per_minute: int | None = None) -> Gate:
        """Return the gate of a model, narrowed to these limits; raise `DefinitionError` for a limit below 1."""
        _check(max_concurrency, requests_per_minute)
        with self._lock:
            gate = self._gates.setdefault(model, self._make_gate())
        gate.narrow(max_concurrency, requests_per_minute)
        return gate

    def forget_requests(self) -> None:
        """Replace the gates by empty ones with the same limits."""
        self._lock = threading.Lock()
        for model, old in self._gates.items():
            self._gates[model] = self._make_gate()
            self._gates[model].narrow(old.max_concurrency, old.requests_per_minute)


PROCESS_GATES = GateRegistry()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS_GATES.forget_requests)  # a forked process has no requests under way


@frozen(slots=False)  # for `copy_with`
class WaitForTicket:
    """The effect that waits for a ticket; raises `ModelError` of the kind "timeout" after `timeout` seconds."""

    ticket: Ticket
    model: str
    timeout: float | None = None
    gate: Gate | None = None

    def perform(self) -> Generator[Event, None, None]:
        owner = _find_owner()
        if self.gate is not None and self.gate.is_blocked_by(owner, self.ticket):
            if isinstance(owner, asyncio.AbstractEventLoop):
                raise RunError(
                    f"{self.model}: the rate limit cannot admit the request while a blocking call stops the event loop "
                    "of an earlier one. Await the run: await agent.arun(query)."
                )
            if self.timeout is None:
                raise RunError(
                    f"{self.model}: the rate limit cannot admit the request while streams that the main thread began "
                    f"hold all places. {_READ_THEM}"
                )
        ended: queue.SimpleQueue[Ticket] = queue.SimpleQueue()
        self.ticket.add_done_callback(ended.put)
        try:
            with on_cancel(self.ticket.cancel):
                take(ended, math.inf if self.timeout is None else self.timeout).result()
        except queue.Empty:
            raise self._late() from None
        yield from ()

    async def aperform(self) -> AsyncGenerator[Event | Done[None], None]:
        admitted = asyncio.wrap_future(self.ticket)
        task = _find_task()
        if self.gate is not None and self.timeout is None and self.gate.is_blocked_by(task, self.ticket):
            await asyncio.wait([admitted], timeout=_SETTLING_SECONDS)
            if not admitted.done() and self.gate.is_blocked_by(task, self.ticket):
                admitted.cancel()
                raise RunError(
                    f"{self.model}: the rate limit cannot admit the request while streams that this task began hold "
                    f"all places. {_READ_THEM}"
                )
        try:
            async with asyncio.timeout(self.timeout):
                await admitted
        except TimeoutError:
            raise self._late() from None
        yield Done(None)

    def _late(self) -> ModelError:
        text = f"{self.model}: the request was not sent: it waited {self.timeout:g} s for the rate limit"
        return ModelError(text, kind="timeout", transient=True)


def throttle(
    max_concurrency: int | None = None, requests_per_minute: int | None = None, *, gates: GateRegistry = PROCESS_GATES
) -> Policy:
    """Hold each request until the gate of its model admits it.

    The limits hold for each model of the run, by its name, in the whole process.  Without limits, requests still pass
    the gates that other agents opened.  The wait counts towards the request's own `timeout`.

    Args:
        max_concurrency: Requests in progress at a time.
        requests_per_minute: Requests that may begin in any 60 seconds.
        gates: The registry of the gates.

    Raises:
        DefinitionError: A limit is below 1.
    """
    limits = (max_concurrency, requests_per_minute)
    _check(*limits)

    def check(effect: AskModel) -> AskModel | Flow[Reply]:
        name = effect.model.name
        gate = gates.find(name) if limits == (None, None) else gates.open(name, *limits)
        return effect if gate is None else pass_gate(effect, gate)

    def pass_gate(effect: AskModel, gate: Gate) -> Flow[Reply]:
        name = effect.model.name
        start = time.monotonic()
        ticket = gate.enter()
        try:
            if not ticket.done():
                timeout = effect.request.timeout
                yield from ask(Emit(Throttled(name)))
                yield from ask(WaitForTicket(ticket, name, timeout, gate))
                if timeout is not None:
                    left = max(0.0, timeout - (time.monotonic() - start))
                    effect = replace(effect, request=replace(effect.request, timeout=left))
            return (yield from ask(effect))
        finally:
            gate.leave(ticket)

    return around(Hooks(check), AskModel)


def _check(max_concurrency: int | None, requests_per_minute: int | None) -> None:
    for name, limit in (("max_concurrency", max_concurrency), ("requests_per_minute", requests_per_minute)):
        if limit is not None and limit < 1:
            raise DefinitionError(f"{name} must be an integer >= 1, got {limit}")


def _take_smaller(old: int | None, new: int | None) -> int | None:
    return new if old is None else old if new is None else min(old, new)
