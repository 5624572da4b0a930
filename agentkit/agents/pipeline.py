"""What an agent is set to do, and the policies that do it, in their order."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from ..core.context import RunContext
from ..core.errors import DefinitionError
from ..core.flow import Policy
from ..engine.model import Model
from ..policies.answer_checks import check_answers
from ..policies.approval import approve
from ..policies.calls_in_text import run_text_calls
from ..policies.compaction import compact
from ..policies.fallback_models import fallback
from ..policies.final_request import request_final_answer
from ..policies.incomplete_replies import raise_refusals, retry_incomplete_replies
from ..policies.limits import limit
from ..policies.long_results import truncate_results
from ..policies.loop_detection import detect_loops
from ..policies.rate_limit import throttle
from ..policies.retries import WAITS, retry
from ..policies.taint.policy import guard_untrusted
from ..policies.text_tool_mode import use_text_mode
from ..policies.timeouts import limit_reply_time, limit_tool_time
from ..policies.tool_choice import retry_unforced
from ..sessions.session import Session
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry
from .handoffs import hand_over
from .run_state import Run
from .settings import Settings

INSTRUCTION = """\
Work through the task step by step with the tools, several calls at once where they do not depend on each other. \
Rely on what the tools return; when one fails, try another way or say so. \
When the task is done, or cannot be done, call final_answer; call it only then."""
Choice: TypeAlias = Callable[[RunContext[Any]], Iterable[Any]]
"""A function of the run that returns the tools for its next step."""


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
        truncate_results(session.cut, settings.max_result),
        guard_untrusted(run.history, tools),  # outside of the excerpts: the fence is around what is shown
        limit_tool_time(settings.tool_timeout, sequential=settings.sequential),
        request_final_answer(context),
        detect_loops(),
        approve(settings.approve, session.approvals),  # nobody is asked about a call that will not be run
        # after the landing, for there an answer is taken as it is
        *([check_answers(settings.checks, run.history)] if settings.checks else []),
        # outside of the checks, for a hand-off is no answer
        *([hand_over(settings.handoffs, session)] if settings.handoffs else []),
        run_text_calls(context),
        *([use_text_mode()] if settings.tool_mode == "text" else []),
        retry_incomplete_replies(),
        raise_refusals(),
        *([fallback(fallbacks)] if fallbacks else []),
        compact(),
        retry_unforced(),
        retry(waits),
        throttle(settings.max_concurrency, settings.requests_per_minute),
        *([limit_reply_time(settings.request_timeout)] if settings.request_timeout else []),
        # next to the model: it sees every request that is made
        limit(settings.limits, settings.max_steps, run.budgets, run.spent),
    )


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
