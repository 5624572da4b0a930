"""What an agent is set to do, and the policies that do it, in their order."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .context import RunContext
from .flow import Policy
from .policies.checks import Check, check_answers
from .policies.excerpts import excerpts
from .policies.limit import limit_steps
from .policies.retry import WAITS, retry
from .policies.text_calls import text_calls
from .policies.text_mode import text_mode
from .registry import ToolRegistry
from .run import Run
from .session import Session

ToolMode: TypeAlias = Literal["auto", "text"]
Choice: TypeAlias = Callable[[RunContext[Any]], Iterable[Any]]
"""A function of the run that returns the tools for its next step."""


@dataclass(frozen=True)
class Settings:
    """What `JsonAgent` was given that concerns its runs; its docstring says what they mean."""

    max_steps: int
    retries: int
    checks: Sequence[Check]
    tool_mode: ToolMode
    max_result: int
    policies: Sequence[Policy]


def stack(settings: Settings, run: Run, session: Session, context: RunContext[Any]) -> tuple[Policy, ...]:
    """The policies of a run, the innermost first: it sees what the loop asks for before the others do."""
    waits = [WAITS[min(number, len(WAITS) - 1)] for number in range(settings.retries)]
    return (
        *settings.policies,
        excerpts(session.cut, settings.max_result),
        limit_steps(settings.max_steps),
        # after the limit, for there an answer is taken as it is
        *([check_answers(settings.checks, run.history)] if settings.checks else []),
        text_calls(context),
        *([text_mode()] if settings.tool_mode == "text" else []),
        retry(waits),
    )


def offered(
    tools: ToolRegistry, choose: Choice | None, context: RunContext[Any]
) -> ToolRegistry | Callable[[], ToolRegistry]:
    """The tools of a run, or the function that tells them anew for each step."""
    if choose is None:
        return tools
    last: tuple[list[Any], ToolRegistry] = [], tools

    def now() -> ToolRegistry:
        nonlocal last
        chosen = list(choose(context))
        if chosen != last[0]:  # the same tools are the same registry, with its schemas
            last = chosen, tools.merged(chosen)
            last[1].check_injected(context)
        return last[1]

    return now
