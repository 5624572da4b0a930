"""What an agent is set to do, and the policies that do it, in their order."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from ..core.ask_person import Person
from ..core.context import RunContext
from ..core.errors import DefinitionError
from ..core.flow import Policy
from ..engine.model import Model
from ..policies.answer_checks import check_answers
from ..policies.approval import approve
from ..policies.calls_in_text import text_calls
from ..policies.compaction import compact
from ..policies.fallback_models import fallback
from ..policies.final_request import landing
from ..policies.incomplete_replies import refusals, whole_replies
from ..policies.limits import limit
from ..policies.long_results import excerpts
from ..policies.loop_detection import stuck
from ..policies.rate_limit import throttle
from ..policies.reading_ahead import early_reads
from ..policies.retries import WAITS, retry
from ..policies.taint.policy import untrusted
from ..policies.text_tool_mode import text_mode
from ..policies.timeouts import reply_time, tool_settings
from ..policies.tool_choice import unforced
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
        *([early_reads(context)] if run.forming and _may_read_ahead(settings) else []),
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


def _may_read_ahead(settings: Settings) -> bool:
    """Return whether a call may begin before the reply is complete: not where a function decides about every call."""
    decides_always = callable(settings.approve) and not isinstance(settings.approve, Person)
    return not (settings.sequential or decides_always)


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
