"""Declarations of a tool for agents: the attribute `__agentkit__` of a function."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def declare(*, effect: Literal["read"], trust: Literal["untrusted"] | None = None) -> Callable[[F], F]:
    """Declare that a tool changes nothing (`effect`), and that anyone may have written its result (`trust`)."""

    def mark(function: F) -> F:
        vars(function)["__agentkit__"] = {"effect": effect, "trust": trust}
        return function

    return mark
