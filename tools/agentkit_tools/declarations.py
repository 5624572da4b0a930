"""Declarations of a tool for agents: the attribute `__agentkit__` of a function."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def declare(
    *, effect: Literal["read"], trust: Literal["untrusted"] | Mapping[str, str] | None = None, egress: bool = False
) -> Callable[[F], F]:
    """Declare that a tool changes nothing, whether anyone may have written its result, and whether it sends outside."""

    def mark(function: F) -> F:
        vars(function)["__agentkit__"] = {"effect": effect, "trust": trust, "egress": egress}
        return function

    return mark
