"""What encloses the current code: the values that a run and its policies give to the code inside its tool calls.

A run inside a tool call inherits them from there: who decides, who answers, the budgets, the journal, the telemetry.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from typing import Any, TypeVar

T = TypeVar("T")
Make = Callable[[], Any]
"""Returns a value for the code inside a call; called before each run of the call."""
_VALUES: ContextVar[Mapping[type, Any]] = ContextVar("enclosing", default={})  # noqa: B039 - never changed in place


def enclosing(kind: type[T]) -> T | None:
    """Return the value of a type that encloses the current code, the nearest one; None without one."""
    return _VALUES.get().get(kind)


def enclose(makers: Iterable[Make]) -> Token[Mapping[type, Any]]:
    """Let the values enclose the code that runs from now on in this context; each replaces the one of its type."""
    values = dict(_VALUES.get())
    for make in makers:
        value = make()
        values[type(value)] = value
    return _VALUES.set(values)


@contextmanager
def enclosed(makers: Iterable[Make]) -> Iterator[None]:
    """Let the values enclose the code of the body alone."""
    token = enclose(makers)
    try:
        yield
    finally:
        with suppress(ValueError):  # a coroutine that is not awaited to its end is closed in another context
            _VALUES.reset(token)
