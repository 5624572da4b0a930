"""Not more requests to a model at a time, or in a minute, than it takes: whoever asks it waits in line.

There is one gate for a model's name in the process, and all agents pass it, whether they named a limit or not.  Where
two name different limits for one model, the smaller one holds, from then on.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..core.errors import DefinitionError, ModelError
from ..core.flow import Done, Emit, Event, Flow, Policy, around, ask
from ..engine.model import AskModel

WINDOW_SECONDS = 60.0
Ticket: TypeAlias = "Future[None]"


@dataclass(frozen=True, slots=True)
class Throttled(Event):
    """A request waits in line: as many as allowed are under way, or were made in the last minute."""

    model: str

    @property
    def waits_for(self) -> str:
        return f"until {self.model} may be asked"

    @property
    def notice(self) -> str:
        return f"waiting until {self.model} may be asked"


class Gate:
    """Admits requests in the order in which they came, from any thread and any event loop.

    `max_concurrency` of them may be under way at a time, `requests_per_minute` may begin in any 60 seconds; None is no
    limit.
    """

    def __init__(self) -> None:
        self.max_concurrency: int | None = None
        self.requests_per_minute: int | None = None
        self._lock = threading.RLock()  # for a flow that is collected while its thread is in here, and leaves
        self._line: deque[Ticket] = deque()
        self._under_way: set[Ticket] = set()
        self._begun: deque[float] = deque()
        self._timer: threading.Timer | None = None

    def narrow(self, max_concurrency: int | None, requests_per_minute: int | None) -> None:
        """Take the smaller of the limits so far and these."""
        with self._lock:
            self.max_concurrency = _take_smaller(self.max_concurrency, max_concurrency)
            self.requests_per_minute = _take_smaller(self.requests_per_minute, requests_per_minute)

    def enter(self) -> Ticket:
        """Stand in line; the ticket is done when the request may go out.  `leave` must follow, whatever happens."""
        ticket: Ticket = Future()
        with self._lock:
            self._line.append(ticket)
            self._admit()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Make way: the request is over, or nobody waits for its turn any more."""
        ticket.cancel()
        with self._lock:
            self._under_way.discard(ticket)
            self._admit()

    def _admit(self) -> None:
        """Let in who may go now; where time alone holds up the next one, come back when it is up."""
        while self._line and (self.max_concurrency is None or len(self._under_way) < self.max_concurrency):
            ticket, now = self._line.popleft(), time.monotonic()
            if not ticket.cancelled() and (seconds := self._wait(now)) > 0:
                self._line.appendleft(ticket)
                self._come_back(seconds)
                return
            if ticket.set_running_or_notify_cancel():
                self._under_way.add(ticket)
                self._begun.append(now)
                ticket.set_result(None)

    def _wait(self, now: float) -> float:
        """Seconds until one more request may begin."""
        while self._begun and self._begun[0] <= now - WINDOW_SECONDS:
            self._begun.popleft()
        most = self.requests_per_minute
        return 0.0 if most is None or len(self._begun) < most else self._begun[-most] + WINDOW_SECONDS - now

    def _come_back(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = threading.Timer(seconds, self._time_is_up)
            self._timer.daemon = True
            self._timer.start()

    def _time_is_up(self) -> None:
        with self._lock:
            self._timer = None
            self._admit()


_gates: dict[str, Gate] = {}
_opening = threading.Lock()


def open_gate(model: str, max_concurrency: int | None = None, requests_per_minute: int | None = None) -> Gate:
    """The gate of the model with this name, after these limits are taken in; raises `DefinitionError` below 1."""
    _check(max_concurrency, requests_per_minute)
    with _opening:
        gate = _gates.setdefault(model, Gate())
    gate.narrow(max_concurrency, requests_per_minute)
    return gate


@dataclass(frozen=True, slots=True)
class WaitForTicket:
    """The effect that waits for a ticket; raises `ModelError` (a timeout) after `timeout` seconds, if that is given."""

    ticket: Ticket
    model: str
    timeout: float | None = None

    def perform(self) -> Generator[Event, None, None]:
        try:
            self.ticket.result(self.timeout)
        except TimeoutError:
            raise self._late() from None
        yield from ()

    async def aperform(self) -> AsyncGenerator[Event | Done[None], None]:
        try:
            async with asyncio.timeout(self.timeout):
                await asyncio.wrap_future(self.ticket)
        except TimeoutError:
            raise self._late() from None
        yield Done(None)

    def _late(self) -> ModelError:
        text = f"{self.model}: not sent: its turn did not come within {self.timeout:g} s"
        return ModelError(text, kind="timeout", transient=True)


def throttle(max_concurrency: int | None = None, requests_per_minute: int | None = None) -> Policy:
    """Let a request wait until the gate of its model admits it, and make way when its reply is there.

    The limits hold for each model that the run asks, by its name, in the whole process.  Without any, the requests
    still pass the gates that others have set up.  Waiting counts towards the request's own `timeout`.
    """
    limits = (max_concurrency, requests_per_minute)
    _check(*limits)

    def handle(effect: AskModel) -> Flow[Any]:
        name = effect.model.name
        gate = _gates.get(name) if limits == (None, None) else open_gate(name, *limits)
        if gate is None:
            return (yield from ask(effect))
        start = time.monotonic()
        ticket = gate.enter()
        try:
            if not ticket.done():
                timeout = effect.request.timeout
                yield from ask(Emit(Throttled(name)))
                yield from ask(WaitForTicket(ticket, name, timeout))
                if timeout is not None:
                    left = max(0.0, timeout - (time.monotonic() - start))
                    effect = replace(effect, request=replace(effect.request, timeout=left))
            return (yield from ask(effect))
        finally:
            gate.leave(ticket)

    return around(handle, AskModel)


def _check(max_concurrency: int | None, requests_per_minute: int | None) -> None:
    for name, limit in (("max_concurrency", max_concurrency), ("requests_per_minute", requests_per_minute)):
        if limit is not None and limit < 1:
            raise DefinitionError(f"{name} must be at least 1, not {limit}")


def _take_smaller(old: int | None, new: int | None) -> int | None:
    return new if old is None else old if new is None else min(old, new)
