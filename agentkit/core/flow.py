"""Flows, effects, drivers and policies: the machinery that runs an agent, without models and tools.

A *flow* is a generator without I/O.  It yields *effects* (requests such as "ask the model" or "sleep").  It is sent the
outcome of each, or the exception is raised in it.  A *driver* performs the effects, blocking (`drive`) or awaiting
(`adrive`), and yields the *events* that happen meanwhile.  A *policy* turns a flow into a flow.  It receives every
effect and may change, repeat, refuse or answer it.  It is a generator itself, so it is written once for both drivers.

`interpret` runs a flow under a handler.  `interpret(interpret(flow, a), b)` does not nest two interpreters: the second
call adds `b` as a further layer.  One generator (`_run`) keeps the running generators on a stack: the flow at the
bottom, above it the handlers at work.  An exception therefore passes few frames on its way from an effect to the
caller.  An effect that no handler wants costs one table look-up, however many layers there are.

A handler is a generator function.  One that passes most effects on unchanged can be made of plain functions (`Hooks`):
it costs a generator where it acts, and two function calls where it does not.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, suppress
from functools import lru_cache, partial
from operator import methodcaller
from types import GeneratorType, TracebackType
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar, final

from .errors import DefinitionError
from .threads import on_cancel, take
from .values import frozen

T = TypeVar("T")
Wish = TypeVar("Wish")
Shown = TypeVar("Shown")

Handler: TypeAlias = Callable[[Any], Generator[Any, Any, Any]]
Kinds: TypeAlias = type | tuple[type, ...] | None


@final
@frozen
class Hooks:
    """A handler of plain functions, for a policy that passes most effects on: no generator runs for these.

    Each function may return a flow in the place of its result, which handles the effect from there on and returns the
    outcome.

    Attributes:
        before: Takes the effect and returns the one to pass on.  It may raise an exception.
        after: Takes the effect as it was passed on and its outcome, and returns the outcome.
        failed: Takes the effect as it was passed on and the exception in the place of its outcome.  It returns a flow,
            or None, which raises the exception further.
    """

    before: Callable[[Any], Any] | None = None
    after: Callable[[Any, Any], Any] | None = None
    failed: Callable[[Any, Exception], Flow[Any] | None] | None = None


Layer: TypeAlias = tuple[Kinds, Handler | Hooks]
_Entry: TypeAlias = tuple[Any, int, Hooks | None]
"""A generator at work and its level; or an effect that was passed on, its level, and the hooks that wait for it."""
_Step: TypeAlias = tuple[int, Any, Any, Hooks | None]
"""A layer on the way of an effect: the level behind it, and its handler or else what it does before and the hooks that
wait for the outcome."""


def interpret(
    flow: Generator[Wish, Any, T],
    handle: Callable[[Any], Generator[Shown, Any, Any]] | Hooks,
    only: Kinds = None,
) -> Generator[Shown, Any, T]:
    """Run `flow` and pass each effect that it yields to `handle`.

    Closing the returned generator, for whatever reason, closes `handle`'s generator and the flow.

    Args:
        flow: The generator that yields effects.
        handle: A generator function of one effect.  Its return value is sent to the flow, its exception raised there.
            Or the `Hooks` that do the same with plain functions.
        only: The type of effect, or types, that `handle` receives; all others are yielded as they are.

    Returns:
        A generator that yields what `handle` yields and returns the flow's value.
    """
    if isinstance(flow, _Layered) and flow.running is None:
        return _Layered(flow.flow, (*flow.layers, (only, handle)))
    return _Layered(flow, ((only, handle),))


class _Layered(Generator[Any, Any, T], Generic[T]):
    """A flow under its handlers.  Handlers can be added until the first value is taken."""

    __slots__ = ("flow", "layers", "running")

    def __init__(self, flow: Generator[Any, Any, T], layers: tuple[Layer, ...]) -> None:
        self.flow = flow
        self.layers = layers
        self.running: Generator[Any, Any, T] | None = None

    def __iter__(self) -> Generator[Any, Any, T]:
        if self.running is None:
            self.running = _run(self.flow, self.layers)
        return self.running

    def send(self, value: Any, /) -> Any:
        return iter(self).send(value)

    def throw(self, error: Any, /, *_: Any) -> Any:
        return iter(self).throw(error)

    def close(self) -> None:
        (self.flow if self.running is None else self.running).close()


def _run(flow: Generator[Any, Any, T], layers: tuple[Layer, ...]) -> Generator[Any, Any, T]:
    """Run `flow` under `layers`, the innermost first."""
    top = len(layers)
    paths = _Paths(layers)
    stack: list[_Entry] = [(flow, 0, None)]
    outcome: Any = None
    error: Exception | None = None
    origin: TracebackType | None = None
    try:
        while True:
            try:
                while True:  # the outcome passes the hooks that wait for it, up to a generator
                    entry = stack.pop()
                    running, level, hooks = entry
                    if hooks is None:
                        break
                    if error is None:
                        if hooks.after is None:
                            continue
                        outcome = hooks.after(running, outcome)
                        handling = outcome
                    else:
                        handling = None if hooks.failed is None else hooks.failed(running, error)
                    if type(handling) is not GeneratorType:
                        continue
                    stack.append((handling, level, None))
                    outcome = None
                    error = None
                wish = running.send(outcome) if error is None else running.throw(error)
            except StopIteration as stop:
                if not stack:
                    value: T = stop.value
                    return value
                outcome = stop.value
                error = None
                continue
            except Exception as raised:
                if raised is not error:
                    origin = raised.__traceback__
                raised.__traceback__ = origin  # the frames of generators that did not catch it explain nothing
                if not stack:
                    raise
                error = raised
                continue
            stack.append(entry)
            error = None
            try:
                while True:  # the effect passes the layers around its generator, out to the first one that handles it
                    kind = type(wish)
                    steps = paths[kind] if level == 0 else [step for step in paths[kind] if step[0] > level]
                    for level, handle, before, hooks in steps:
                        if handle is not None:
                            break
                        if before is not None:
                            wish = before(wish)
                            if type(wish) is GeneratorType:
                                break
                        if hooks is not None:
                            stack.append((wish, level, hooks))
                        if type(wish) is not kind:
                            break
                    else:
                        outcome = yield wish
                        break
                    if type(wish) is GeneratorType:
                        stack.append((wish, level, None))
                        outcome = None
                        break
                    if handle is None:
                        continue
                    if level == top:  # no layer sees what this handler yields
                        outcome = yield from handle(wish)
                        break
                    outcome = None
                    handling = handle(wish)
                    if type(handling) is not GeneratorType:
                        _check_generator(handling, handle, "outcome = yield from ask(effect); return outcome")
                    stack.append((handling, level, None))
                    break
            except Exception as thrown:
                error = thrown
                origin = thrown.__traceback__
    finally:
        error = None  # an exception or a traceback that holds this frame would be a cycle
        origin = None
        _close(stack)


def _check_generator(made: object, maker: Callable[..., Any], example: str) -> None:
    """Raise `DefinitionError` if a function of a policy returned something else than a generator."""
    if not isinstance(made, Generator):
        name = getattr(maker, "__qualname__", None) or repr(maker)
        raise DefinitionError(
            f"policies: {name} must return a generator, got a {type(made).__name__}. Write in it: {example}"
        )


def _close(stack: list[_Entry]) -> None:
    """Close the generators from the top of the stack down, each even if another fails to close."""
    if stack:
        try:
            running, _, hooks = stack.pop()
            if hooks is None:
                running.close()
        finally:
            _close(stack)


class _Paths(dict[type, list[_Step]]):
    """The layers that a type of effect passes in one flow, the innermost first; filled when it first occurs."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        super().__init__()
        self._layers = layers
        self._receivers = _receivers_of(tuple([only for only, _ in layers]))

    def __missing__(self, kind: type) -> list[_Step]:
        path: list[_Step] = []
        for place in self._receivers[kind]:
            handle = self._layers[place][1]
            if type(handle) is Hooks:
                is_called_back = handle.after is not None or handle.failed is not None
                path.append((place + 1, None, handle.before, handle if is_called_back else None))
            else:
                path.append((place + 1, handle, None, None))
        self[kind] = path
        return path


class _Receivers(dict[type, tuple[int, ...]]):
    """The places of the layers that receive a type of effect; all flows under layers of the same kinds share it."""

    def __init__(self, kinds: tuple[Kinds, ...]) -> None:
        super().__init__()
        self._kinds = kinds

    def __missing__(self, kind: type) -> tuple[int, ...]:
        found = tuple(place for place, only in enumerate(self._kinds) if only is None or issubclass(kind, only))
        return self.setdefault(kind, found)


_receivers_of = lru_cache(maxsize=256)(_Receivers)


class Event:
    """Something that happened in a run.  Events inform listeners; to change a run, write a policy.

    Attributes:
        is_piece: Whether the event is a fragment (a streamed delta) of what a later event reports in full.
    """

    __slots__ = ()
    is_piece: ClassVar[bool] = False

    @property
    def level(self) -> Literal["INFO", "WARNING"]:
        """The level at which the event is logged."""
        return "INFO"

    @property
    def notice(self) -> str:
        """One sentence for a person, without its full stop; "" if the event needs none.

        Views show it, so they need not know each policy.  It may contain text of a model or a tool: a view masks,
        truncates and escapes it.
        """
        return ""

    @property
    def ends_request(self) -> object:
        """The failure that ends the current request without a reply; None if the event does not end it."""
        return None

    @property
    def waits_for(self) -> str | None:
        """What the run now waits for; "" when the wait ends, None if the event does not concern a wait."""
        return None


class WarningEvent(Event):
    """An event that reports a problem."""

    __slots__ = ()

    @property
    def level(self) -> Literal["INFO", "WARNING"]:
        return "WARNING"


@frozen
class Done(Generic[T]):
    """The outcome, as the last item of an asynchronous stream of events: an async generator cannot return a value."""

    value: T


class Effect(Protocol[T]):
    """What a flow asks for, and how it is performed, blocking and awaiting."""

    def perform(self) -> Generator[Event, None, T]:
        """Perform the effect, blocking.  Yield events and return the outcome."""
        ...

    def aperform(self) -> AsyncGenerator[Event | Done[T], None]:
        """Perform the effect, awaiting.  Yield events and, last, the outcome as `Done`."""
        ...


Flow: TypeAlias = Generator[Effect[Any], Any, T]
Policy: TypeAlias = Callable[[Flow[Any]], Flow[Any]]
Listener: TypeAlias = Callable[[Event], object]


def ask(effect: Effect[T]) -> Generator[Effect[Any], Any, T]:
    """Yield one effect and return its outcome.

    Args:
        effect: The effect: `reply = yield from ask(AskModel(model, request))`.

    Returns:
        The outcome that a policy or the driver sends back.
    """
    outcome: T = yield effect
    return outcome


def drive(flow: Flow[T]) -> Generator[Event, None, T]:
    """Perform the effects of `flow`, blocking.  Yield the events and return the flow's value."""
    return interpret(flow, methodcaller("perform"))


async def adrive(flow: Flow[T]) -> AsyncGenerator[Event | Done[T], None]:
    """Perform the effects of `flow`, awaiting.  Yield the events and, last, the flow's value as `Done`."""
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
                if type(effect) is Emit:  # a generator for each event costs more than the event
                    yield effect.event
                    continue
                async with aclosing(effect.aperform()) as events:
                    async for event in events:
                        if isinstance(event, Done):
                            outcome = event.value
                        else:
                            yield event
            except Exception as caught:
                error = caught
                origin = caught.__traceback__
    finally:
        error = None
        flow.close()


def around(handle: Callable[[Any], Flow[Any]] | Hooks, only: Kinds = None) -> Policy:
    """Return the policy that passes each effect to `handle` and sends the flow what `handle` returns.

    Args:
        handle: A generator function of one effect.  It may yield effects of its own with `ask`.  Or `Hooks`.
        only: The type of effect, or types, that `handle` receives; all others pass unchanged.

    Returns:
        The policy, for `JsonAgent(..., policies=[...])` or `apply_policies`.
    """
    return lambda flow: interpret(flow, handle, only)


def apply_policies(flow: Flow[T], policies: tuple[Policy, ...]) -> Flow[T]:
    """Return `flow` under `policies`.  The first policy is the innermost: it receives an effect first.

    Raises:
        DefinitionError: A policy returns no flow.
    """
    for policy in policies:
        flow = policy(flow)
        if not isinstance(flow, _Layered):  # the usual case, which costs less than the check
            _check_generator(flow, policy, "return around(handle)(flow)")
    return flow


@frozen
class Emit:
    """The effect that passes an event to the listeners."""

    event: Event

    def perform(self) -> Generator[Event, None, None]:
        yield self.event

    async def aperform(self) -> AsyncGenerator[Event | Done[None], None]:
        yield self.event
        yield Done(None)


def emit_first(event: Event, outcome: T) -> Flow[T]:
    """Emit an event and return an outcome: a flow that hooks return in the place of the outcome alone."""
    yield Emit(event)
    return outcome


@frozen
class Sleep:
    """The effect that waits for some seconds."""

    seconds: float

    def perform(self) -> Generator[Event, None, None]:
        ended: queue.SimpleQueue[None] = queue.SimpleQueue()  # an event must not be set by a signal handler
        with on_cancel(partial(ended.put, None)), suppress(queue.Empty):
            take(ended, self.seconds)
        yield from ()

    async def aperform(self) -> AsyncGenerator[Event | Done[None], None]:
        await asyncio.sleep(self.seconds)
        yield Done(None)
