"""What a tool says of itself to agents, without knowing them: a function's attribute `__agentkit__`."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def marked(*, effect: Literal["read"], trust: Literal["untrusted"] | None = None) -> Callable[[F], F]:
    """Say that a tool only looks (`effect`), and that others may have written what it returns (`trust`)."""

    def mark(function: F) -> F:
        vars(function)["__agentkit__"] = {"effect": effect, "trust": trust}
        return function

    return mark
