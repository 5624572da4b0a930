"""The engine: a flow yields effects and is sent their outcomes; drivers perform them, policies decide about them.

A *flow* is a generator.  It does no I/O: it yields *effects* (wishes: "ask the model", "sleep") and is sent what came
of them, or has the exception thrown in.  A *driver* performs the effects, blocking (`drive`) or awaiting (`adrive`),
and yields the *events* that happen meanwhile.  A *policy* turns a flow into a flow: it sees every effect, may change,
repeat, refuse or answer it, and is itself a generator, so it is written once for both worlds.

This file knows nothing of models or tools.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

from .layers import Kinds
from .layers import interpret as interpret

T = TypeVar("T")


class Event:
    """Something that happened in a run; events are watched, never acted on.

    `is_piece` marks those that are a piece of something that another event tells when it is whole.
    """

    __slots__ = ()
    is_piece: ClassVar[bool] = False

    @property
    def level(self) -> Literal["INFO", "WARNING"]:
        """How a log ranks it: "WARNING" for what did not go as it should."""
        return "INFO"

    @property
    def notice(self) -> str:
        """What a person who watches should know of it, in one sentence without its full stop; "" for nothing.

        So whoever shows runs need not know each policy.  It may hold what a model or a tool wrote: mask, cut and escape
        it where it is shown.
        """
        return ""

    @property
    def ends_request(self) -> object:
        """What became of the request under way, if this ends it without a reply; None if it does not."""
        return None

    @property
    def waits_for(self) -> str | None:
        """What the run waits for from now on; "" when the wait is over, None if this says nothing of it."""
        return None


class WarningEvent(Event):
    """An event of something that did not go as it should."""

    __slots__ = ()

    @property
    def level(self) -> Literal["INFO", "WARNING"]:
        return "WARNING"


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The outcome at the end of an asynchronous stream of events (an async generator cannot return a value)."""

    value: T


class Effect(Protocol[T]):
    """A wish of a flow, and how to fulfil it in both worlds."""

    def perform(self) -> Generator[Event, None, T]:
        """Fulfil the wish, blocking: yield events, return the outcome."""
        ...

    def aperform(self) -> AsyncGenerator[Event | Done[T], None]:
        """Fulfil the wish, awaiting: yield events, and the outcome last, as `Done`."""
        ...


Flow: TypeAlias = Generator[Effect[Any], Any, T]
Policy: TypeAlias = Callable[[Flow[Any]], Flow[Any]]
Listener: TypeAlias = Callable[[Event], object]


def ask(effect: Effect[T]) -> Generator[Effect[Any], Any, T]:
    """Yield one effect and return its outcome: `reply = yield from ask(AskModel(...))`."""
    outcome: T = yield effect
    return outcome


def drive(flow: Flow[T]) -> Generator[Event, None, T]:
    """Perform a flow's effects, blocking; yields the events and returns the flow's value."""
    return interpret(flow, _perform)


def _perform(effect: Effect[T]) -> Generator[Event, None, T]:
    return effect.perform()


async def adrive(flow: Flow[T]) -> AsyncGenerator[Event | Done[T], None]:
    """Perform a flow's effects, awaiting; yields the events and, last, the flow's value as `Done`."""
    outcome: Any = None
    error: Exception | None = None
    origin: TracebackType | None = None
    try:
        while True:
            try:
                effect = flow.send(outcome) if error is None else flow.throw(error)
            except StopIteration as stop:
                yield Done(stop.value)
                return
            except Exception as raised:
                if raised is error:  # the flow did not catch it: its frames explain nothing
                    raised.__traceback__ = origin
                raise
            outcome = error = None
            try:
                async with aclosing(effect.aperform()) as events:
                    async for event in events:
                        if isinstance(event, Done):
                            outcome = event.value
                        else:
                            yield event
            except Exception as caught:
                error, origin = caught, caught.__traceback__
    finally:
        error = None
        flow.close()


def around(handle: Callable[[Any], Flow[Any]], only: Kinds = None) -> Policy:
    """The policy that hands every effect of a flow to the generator `handle` and gives the flow what it returns.

    With `only`, it hands over the effects of this type alone.
    """
    return lambda flow: interpret(flow, handle, only)


def apply_policies(flow: Flow[T], policies: tuple[Policy, ...]) -> Flow[T]:
    """`flow` under its policies; the first policy is the innermost, so it sees an effect first."""
    for policy in policies:
        flow = policy(flow)
    return flow


@dataclass(frozen=True, slots=True)
class Emit:
    """The effect that shows an event to whoever watches."""

    event: Event

    def perform(self) -> Generator[Event, None, None]:
        yield self.event

    async def aperform(self) -> AsyncGenerator[Event | Done[None], None]:
        yield self.event
        yield Done(None)


@dataclass(frozen=True, slots=True)
class Sleep:
    """The effect that lets some seconds pass."""

    seconds: float

    def perform(self) -> Generator[Event, None, None]:
        time.sleep(self.seconds)
        yield from ()

    async def aperform(self) -> AsyncGenerator[Event | Done[None], None]:
        await asyncio.sleep(self.seconds)
        yield Done(None)
