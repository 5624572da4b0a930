"""The settings of an agent, and which values they may have."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ..core.errors import DefinitionError
from ..core.flow import Policy
from ..policies.answer_checks import Check, check_parameters
from ..policies.consult import Decide
from ..policies.limits import Limits
from ..policies.questions import Respondents
from ..policies.taint.policy import UntrustedSetting
from ..tools.settings import check_timeout
from ..views.log import log_event

ToolMode: TypeAlias = Literal["auto", "text"]


def _integer_from(least: int, *, or_none: bool = False) -> tuple[Callable[[Any], bool], str]:
    def holds(value: Any) -> bool:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return (is_integer and value >= least) or (or_none and value is None)

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
    "sequential": (lambda value: isinstance(value, bool), "True or False"),
    "memory": (lambda value: isinstance(value, bool), "True or False"),
    "description": (lambda value: isinstance(value, str), "a text"),
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
        check_values(**{name: getattr(self, name) for name in _VALID_VALUES if hasattr(self, name)})
        for name in ("policies", "checks"):
            object.__setattr__(self, name, check_functions(name, getattr(self, name)))
        for check in self.checks:
            check_parameters(check)
        for name in ("request_timeout", "tool_timeout"):
            if (seconds := getattr(self, name)) == "agent":
                raise DefinitionError(f'{name} must be a number of seconds, or None; "agent" is for a tool\'s timeout')
            check_timeout(seconds, name)


def list_listeners(given: Any) -> tuple[Any, ...]:
    """Return the listeners of an agent: the log, and those given."""
    return (log_event, *check_functions("listeners", given))


def check_values(**values: Any) -> None:
    """Raise `DefinitionError` for the first value that its setting cannot have."""
    for name, value in values.items():
        holds, wanted = _VALID_VALUES[name]
        if not holds(value):
            raise DefinitionError(f"{name} must be {wanted}, got {value!r:.80}")


def check_functions(name: str, functions: Any) -> tuple[Any, ...]:
    """Return functions as a tuple; raise `DefinitionError` for anything but a list of functions."""
    if isinstance(functions, Iterable) and not callable(functions) and all(map(callable, found := tuple(functions))):
        return found
    raise DefinitionError(f"{name} must be a list of functions, got {functions!r:.80}")
