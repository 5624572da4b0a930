"""The interpreter: one generator runs a flow under any number of handlers.

`interpret(interpret(flow, a), b)` does not nest two interpreters.  The second call adds `b` as a further layer, and one
generator (`_run`) keeps the running generators on a stack: the flow at the bottom, above it the handlers at work.
An exception therefore passes few frames on its way from an effect to the caller, and an effect that no handler wants
costs one table look-up, however many layers there are.
"""

from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
Wish = TypeVar("Wish")
Shown = TypeVar("Shown")

Handler: TypeAlias = Callable[[Any], Generator[Any, Any, Any]]
Kinds: TypeAlias = type | tuple[type, ...] | None
Layer: TypeAlias = tuple[Kinds, Handler]


def interpret(
    flow: Generator[Wish, Any, T],
    handle: Callable[[Any], Generator[Shown, Any, Any]],
    only: Kinds = None,
) -> Generator[Shown, Any, T]:
    """Run `flow` and pass each effect that it yields to `handle`.

    Closing the returned generator, for whatever reason, closes `handle`'s generator and the flow.

    Args:
        flow: The generator that yields effects.
        handle: A generator function of one effect.  Its return value is sent to the flow, its exception raised there.
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
    tables: list[dict[type, tuple[Handler, int] | None]] = [{} for _ in range(top)]
    stack: list[tuple[Generator[Any, Any, Any], int]] = [(flow, 0)]
    outcome: Any = None
    error: Exception | None = None
    origin: TracebackType | None = None
    try:
        while True:
            running, level = stack[-1]
            try:
                wish = running.send(outcome) if error is None else running.throw(error)
            except StopIteration as stop:
                stack.pop()
                if not stack:
                    value: T = stop.value
                    return value
                outcome, error = stop.value, None
                continue
            except Exception as raised:
                stack.pop()
                if raised is not error:
                    origin = raised.__traceback__
                raised.__traceback__ = origin  # the frames of generators that did not catch it explain nothing
                if not stack:
                    raise
                error = raised
                continue
            error = None
            kind, table = type(wish), tables[level]
            found = table[kind] if kind in table else table.setdefault(kind, _first_layer(layers, level, kind))
            try:
                if found is None:
                    outcome = yield wish
                elif found[1] == top:  # no layer sees what this handler yields
                    outcome = yield from found[0](wish)
                else:
                    outcome = None
                    stack.append((found[0](wish), found[1]))
            except Exception as thrown:
                error, origin = thrown, thrown.__traceback__
    finally:
        error = None  # an exception that holds this frame would be a cycle
        _close(stack)


def _close(stack: list[tuple[Generator[Any, Any, Any], int]]) -> None:
    """Close the generators from the top of the stack down, each even if another fails to close."""
    if stack:
        try:
            stack.pop()[0].close()
        finally:
            _close(stack)


def _first_layer(layers: tuple[Layer, ...], level: int, kind: type) -> tuple[Handler, int] | None:
    """Return the first handler from `level` on that receives effects of type `kind`, and the level above it."""
    for place in range(level, len(layers)):
        only, handle = layers[place]
        if only is None or issubclass(kind, only):
            return handle, place + 1
    return None
