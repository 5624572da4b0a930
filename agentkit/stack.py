"""What an agent is set to do, and the policies that do it, in their order."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from .asking import Person
from .context import RunContext
from .delegation import hand_over
from .errors import DefinitionError
from .flow import Policy
from .handling import check_timeout
from .json_tool import JsonTool
from .model import Model
from .policies.approve import Decide, approve
from .policies.checks import Check, check_answers
from .policies.compact import compact
from .policies.early import early_reads
from .policies.ends import refusals, whole_replies
from .policies.excerpts import excerpts
from .policies.fallback import fallback
from .policies.landing import landing
from .policies.limits import limit
from .policies.purse import Limits
from .policies.reply_time import reply_time
from .policies.retry import WAITS, retry
from .policies.stuck import stuck
from .policies.text_calls import text_calls
from .policies.text_mode import text_mode
from .policies.throttle import throttle
from .policies.tool_settings import tool_settings
from .policies.unforced import unforced
from .policies.untrusted import untrusted
from .registry import ToolRegistry
from .run import Run
from .session import Session

INSTRUCTION = """\
Work through the task step by step with the tools, several calls at once where they do not depend on each other. \
Rely on what the tools return; when one fails, try another way or say so. \
When the task is done, or cannot be done, call final_answer; call it only then."""
ToolMode: TypeAlias = Literal["auto", "text"]
Choice: TypeAlias = Callable[[RunContext[Any]], Iterable[Any]]
"""A function of the run that returns the tools for its next step."""


def _counts_from(least: int, *, or_none: bool = False) -> tuple[Callable[[Any], bool], str]:
    def holds(value: Any) -> bool:
        return (isinstance(value, int) and value >= least) or (or_none and value is None)

    return holds, f"a whole number from {least} on{', or None' if or_none else ''}"


_WANTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "max_steps": _counts_from(1),
    "retries": _counts_from(0),
    "max_result": _counts_from(1),
    "max_concurrency": _counts_from(1, or_none=True),
    "requests_per_minute": _counts_from(1, or_none=True),
    "limits": (lambda value: value is None or isinstance(value, Limits), "Limits(tokens=..., seconds=...) or None"),
    "approve": (lambda value: value in (None, "ask") or callable(value), 'a function of the call, "ask" or None'),
    "tool_mode": (lambda value: value in get_args(ToolMode), '"auto" or "text"'),
}
"""Which values a setting may have, and how that is said."""


@dataclass(frozen=True)
class Settings:
    """What `JsonAgent` was given that concerns its runs; its docstring says what they mean."""

    max_steps: int
    limits: Limits | None
    retries: int
    request_timeout: float | None
    tool_timeout: float | None
    sequential: bool
    max_concurrency: int | None
    requests_per_minute: int | None
    approve: Decide | Literal["ask"] | None
    checks: Sequence[Check]
    tool_mode: ToolMode
    max_result: int
    policies: Sequence[Policy]
    handoffs: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, (holds, wanted) in _WANTED.items():
            if not holds(value := getattr(self, name)):
                raise DefinitionError(f"{name} is {wanted}, not {value!r:.80}")
        check_timeout(self.request_timeout, "request_timeout")
        check_timeout(self.tool_timeout, "tool_timeout")


def stack(
    settings: Settings,
    run: Run,
    session: Session,
    context: RunContext[Any],
    tools: ToolRegistry,
    fallbacks: Sequence[Model] = (),
) -> tuple[Policy, ...]:
    """The policies of a run, the innermost first: it sees what the loop asks for before the others do."""
    waits = [WAITS[min(number, len(WAITS) - 1)] for number in range(settings.retries)]
    return (
        *settings.policies,
        # not where a function decides about every call: a read would begin before it is asked
        *([] if _decides_always(settings.approve) or settings.sequential else [early_reads(context)]),
        excerpts(session.cut, settings.max_result),
        untrusted(run.history, tools),  # outside of the excerpts: the fence is around what is shown
        tool_settings(settings.tool_timeout, sequential=settings.sequential),
        landing(context),
        stuck(),
        approve(settings.approve, session.approvals),  # nobody is asked about a call that will not be run
        # after the landing, for there an answer is taken as it is
        *([check_answers(settings.checks, run.history)] if settings.checks else []),
        # outside of the checks, for a hand-off is no answer
        *([hand_over(settings.handoffs, session)] if settings.handoffs else []),
        text_calls(context),
        *([text_mode()] if settings.tool_mode == "text" else []),
        whole_replies(),
        refusals(),
        *([fallback(fallbacks)] if fallbacks else []),
        compact(),
        unforced(),
        retry(waits),
        throttle(settings.max_concurrency, settings.requests_per_minute),
        *([reply_time(settings.request_timeout)] if settings.request_timeout else []),
        # next to the model: it sees every request that is made
        limit(settings.limits, settings.max_steps, run.purses, run.spent),
    )


def _decides_always(decide: Decide | Literal["ask"] | None) -> bool:
    """Whether it is asked about every call; a person is asked only about those that need it."""
    return callable(decide) and not isinstance(decide, Person)


def told_apart(tools: Iterable[Any] | Choice) -> tuple[Iterable[Any], Choice | None]:
    """The tools that are given, and the function that chooses more for each step, if that is what was given."""
    if isinstance(tools, JsonTool):
        return (tools,), None
    if not callable(tools):
        return tools, None
    try:
        inspect.signature(tools).bind(None)
    except TypeError as error:
        raise _no_choice(tools, str(error)) from None
    return (), tools


def _no_choice(function: Choice, why: str) -> DefinitionError:
    name = getattr(function, "__name__", "it")
    return DefinitionError(
        f"tools={name}: a function is called with the run's RunContext before each step and returns a list of tools; "
        f"this one does not: {why}. If it is a tool itself, write tools=[{name}]."
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
        given = choose(context)
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise _no_choice(choose, f"it returned {given!r:.80}")
        chosen = list(given)
        if chosen != last[0]:  # the same tools are the same registry, with its schemas
            last = chosen, tools.merged(chosen)
            last[1].check_injected(context)
        return last[1]

    return now
