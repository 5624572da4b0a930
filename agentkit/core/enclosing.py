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
_VALUES: ContextVar[Mapping[type, Any]] = ContextVar("enclosing", default={})  # noqa: B039 - the default is never changed


def enclosing(kind: type[T]) -> T | None:
    """Return the value of a type that encloses the current code, the nearest one; None without one."""
    return _VALUES.get().get(kind)


def enclose(makers: Iterable[Make]) -> Token[Mapping[type, Any]]:
    """Let the values enclose the code that runs from now on in this context; each replaces the one of its type.

    A maker finds the values of those before it.
    """
    values = dict(_VALUES.get())
    token = _VALUES.set(values)
    try:
        for make in makers:
            value = make()
            values[type(value)] = value
    except BaseException:
        _VALUES.reset(token)
        raise
    return token


@contextmanager
def enclosed(makers: Iterable[Make]) -> Iterator[None]:
    """Let the values enclose the code of the body alone."""
    token = enclose(makers)
    try:
        yield
    finally:
        with suppress(ValueError):  # a coroutine that is not awaited to its end is closed in another context
            _VALUES.reset(token)
