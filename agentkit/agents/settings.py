"""The settings of an agent, and which values they may have."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ..core.errors import DefinitionError
from ..core.flow import Policy
from ..policies.answer_checks import Check
from ..policies.budget import Limits
from ..policies.consult import Decide
from ..policies.questions import Respondents
from ..policies.taint.policy import UntrustedSetting
from ..tools.settings import check_timeout

ToolMode: TypeAlias = Literal["auto", "text"]


def _integer_from(least: int, *, or_none: bool = False) -> tuple[Callable[[Any], bool], str]:
    def holds(value: Any) -> bool:
        return (isinstance(value, int) and value >= least) or (or_none and value is None)

    return holds, f"an integer >= {least}{' or None' if or_none else ''}"


_VALID_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "max_steps": _integer_from(1),
    "retries": _integer_from(0),
    "max_result": _integer_from(1),
    "max_concurrency": _integer_from(1, or_none=True),
    "requests_per_minute": _integer_from(1, or_none=True),
    "limits": (lambda value: value is None or isinstance(value, Limits), "Limits(tokens=..., seconds=...) or None"),
    "approve": (lambda value: value in (None, "ask") or callable(value), 'a function of the call, "ask" or None'),
    "on_question": (
        lambda value: value in (None, "ask") or callable(value),
        'a function of the question, "ask" or None',
    ),
    "tool_mode": (lambda value: value in get_args(ToolMode), '"auto" or "text"'),
    "untrusted": (lambda value: value in get_args(UntrustedSetting), '"values", "context" or "hidden"'),
}
"""For each setting: a check of its value, and the description of valid values."""


@dataclass(frozen=True)
class Settings:
    """The settings of an agent's runs; the docstring of `JsonAgent` describes them."""

    max_steps: int
    limits: Limits | None
    retries: int
    request_timeout: float | None
    tool_timeout: float | None
    sequential: bool
    max_concurrency: int | None
    requests_per_minute: int | None
    approve: Decide | Literal["ask"] | None
    on_question: Respondents
    checks: Sequence[Check]
    tool_mode: ToolMode
    untrusted: UntrustedSetting
    max_result: int
    policies: Sequence[Policy]
    handoffs: Mapping[str, Any]
    telemetry: Any = None
    """An instrument, False for none, None if the agent leaves it open."""

    def __post_init__(self) -> None:
        for name, (holds, wanted) in _VALID_VALUES.items():
            if not holds(value := getattr(self, name)):
                raise DefinitionError(f"{name} must be {wanted}, got {value!r:.80}")
        check_timeout(self.request_timeout, "request_timeout")
        check_timeout(self.tool_timeout, "tool_timeout")
