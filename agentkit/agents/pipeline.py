"""The flow of an agent's part of a run: its loop, its tools, and its policies in their order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any

from ..core.context import Extension, RunContext
from ..core.errors import DefinitionError, plain_signature
from ..core.flow import Flow, Policy, apply_policies, ask
from ..core.messages import Message
from ..engine.loop import Answer, agent_loop
from ..engine.model import Model, PartialAnswerReader
from ..extensions.context_window import ContextWindow
from ..extensions.tool_search import SOME_TOOLS, ToolSearch
from ..policies.answer_checks import check_answers
from ..policies.approval import approve, dry_run
from ..policies.final_request import request_final_answer
from ..policies.limits import limit, limit_reply_time, limit_tool_time
from ..policies.long_results import truncate_results
from ..policies.loop_detection import detect_loops
from ..policies.prompt_cache import watch_cache
from ..policies.questions import answer_questions
from ..policies.rate_limit import throttle
from ..policies.retries import (
    WAITS,
    fallback,
    raise_refusals,
    retry,
    retry_echoes,
    retry_incomplete_replies,
    retry_unforced,
)
from ..policies.taint.hidden import hide_untrusted
from ..policies.taint.policy import guard_untrusted
from ..policies.text_tool_mode import (
    PROTOCOL,
    SCHEMA_PROTOCOL,
    choose_tool_mode,
    run_text_calls,
    use_schema_mode,
    use_text_mode,
)
from ..sessions.session import Session
from ..tools.final_answer import FINAL_ANSWER
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry
from ..tools.toolset import OpenToolsets, Toolset, name_toolset_tools
from .handoffs import hand_over, list_handoff_names
from .options import RunRequest
from .run_state import Run
from .spec import INSTRUCTION, AgentSpec, OpenedExtension, ToolSelector, list_policies, opens

_limit_tool_time = cache(limit_tool_time)
_DETECT_LOOPS = detect_loops()
_SEARCH = ToolSearch()
_WINDOW = ContextWindow()
"""The extensions of agents without others of their kind."""
_CHECK_REPLIES = (retry_incomplete_replies(), raise_refusals())
_RETRY_ECHOES = retry_echoes((INSTRUCTION, PROTOCOL, SCHEMA_PROTOCOL))
_TOOL_MODES = {"auto": choose_tool_mode(), "schema": use_schema_mode(), "text": use_text_mode()}
"""The policies that are made once; each keeps the state of a run in the run's flow."""


def build_flow(spec: AgentSpec, run: Run, request: RunRequest, backend: Model) -> Flow[Answer]:
    """Return the flow of one agent's part of a run; its requests go to `backend`."""
    run.partial_answer = PartialAnswerReader(spec.tools.answer) if request.stream and spec.tools.answer else None
    session = request.session
    replay = request.replay
    recorded = replay.recording.messages if replay is not None else ()
    said = session.inbox if replay is None or replay.execute else _RecordedInbox(run.history, recorded)
    context = make_context(spec, run, request, backend, said, lambda: steps.last)
    steps = StepTools(spec)  # without the context, which holds them: a run is freed without the collector of cycles
    loop = agent_loop(
        backend,
        steps.select,
        run.history,
        context,
        begun=session.begun,
        known_ids=session.call_ids(),
        text_ends=spec.text_ends,
        stream=request.stream,
    )
    policies = policies_of_run(spec, run, session, context, recorded)
    if request.is_dry:
        policies = (dry_run(list_handoff_names(spec.handoffs)), *policies)
    flow = apply_policies(loop, policies)
    to_open = [*spec.toolsets, *(OpenedExtension(one.name, one, context) for one in spec.extensions if opens(one))]
    return _open_before(flow, to_open, run.toolsets) if to_open else flow


def make_context(
    spec: AgentSpec,
    run: Run,
    request: RunRequest,
    backend: Model | None,
    inbox: deque[Message] | None = None,
    tools: Callable[[], Any] = dict,
) -> RunContext[Any]:
    """Return what tools and extensions see of an agent's part of a run.

    Args:
        spec: The agent.
        run: The run.
        request: What the run was asked for.
        backend: The model of the run, None before it is chosen.
        inbox: Replaces that of the session.
        tools: Returns the tools of the current step.
    """
    session = request.session
    return RunContext(
        spec.deps,
        run.state,
        partial(getattr, run, "usage"),
        stream=request.stream,
        inbox=session.inbox if inbox is None else inbox,
        model=backend,
        session_state=session.session_state,
        run_program=partial(spec.run_program, spec, session),
        messages=run.history,
        tools=tools,
        texts=session.cut,
        find_model=partial(spec.backends.backend, first=spec.fixed_model),
    )


class _RecordedInbox(deque[Message]):
    """The messages that were added during a recorded run, each where it was added; no tool runs that could add one."""

    def __init__(self, history: Sequence[Message], recorded: Sequence[Message]) -> None:
        super().__init__()
        self._history = history
        self._recorded = recorded

    def __bool__(self) -> bool:
        place = len(self._history)
        return place < len(self._recorded) and self._recorded[place]["role"] == "user"

    def popleft(self) -> Message:
        return {**self._recorded[len(self._history)]}


def _open_before(flow: Flow[Answer], toolsets: Sequence[Toolset], opened: list[Toolset]) -> Flow[Answer]:
    """Run `flow` when the toolsets are open; the run closes them at its end."""
    try:
        yield from ask(OpenToolsets([entry for entry in toolsets if entry not in opened], opened))
    except BaseException:
        flow.close()
        raise
    return (yield from flow)


def policies_of_run(
    spec: AgentSpec, run: Run, session: Session, context: RunContext[Any], recorded: Sequence[Message] = ()
) -> tuple[Policy, ...]:
    """Return the policies of a run, the innermost first: it sees an effect of the loop before the others.

    `recorded` are the messages of a run that is replayed.
    """
    settings = spec.settings
    limits = settings.limits
    backends = spec.backends
    fallbacks = backends.fallbacks
    inputs = session.inputs
    hiding: tuple[Policy, ...] = ()
    if settings.untrusted == "hidden":
        extract = partial(spec.extract, spec)
        kept = list_handoff_names(spec.handoffs)
        if spec.program_of is not None:
            kept.add(FINAL_ANSWER)
        hide = partial(hide_untrusted, inputs=inputs, keeping=kept, said=spec.program_of)
        hiding = (hide(run.history, session.cut, extract, context),)
    return (
        *(policy for policy in settings.policies if not isinstance(policy, Extension)),
        *(policy for extension in _list_extensions(spec) for policy in list_policies(extension, context)),
        truncate_results(session.cut, limits.result_chars, context),
        *hiding,
        # after the truncation: the delimiters enclose what is shown
        guard_untrusted(
            run.history, setting=settings.untrusted, inputs=inputs, recorded=recorded, known=session.origins()
        ),
        _limit_tool_time(
            limits.tool_seconds, sequential=settings.sequential, on_caller=settings.tool_thread == "caller"
        ),
        request_final_answer(context),
        *([_DETECT_LOOPS] if spec.program_of is None else []),
        approve(settings.approve, inputs),  # no question about a call that will not run
        # after the final request, whose answer is not checked
        *([check_answers(settings.checks, run.history)] if settings.checks else []),
        # outside of the checks: a hand-off is not an answer
        *([hand_over(spec.handoffs, session)] if spec.handoffs else []),
        _RETRY_ECHOES,
        run_text_calls(context),
        *([_TOOL_MODES["text"]] if settings.tool_mode == "text" else []),
        *_CHECK_REPLIES,
        *([fallback([backends.backend(model, spec.fixed_model) for model in fallbacks])] if fallbacks else []),
        # outside of the fallback: the model that is asked decides about its tool mode
        *([_TOOL_MODES[settings.tool_mode]] if settings.tool_mode != "text" else []),
        *_send_requests(settings.retries, settings.max_concurrency, settings.requests_per_minute),
        *([limit_reply_time(limits.request_seconds)] if limits.request_seconds else []),
        # next to the model: it sees every request that is made
        limit(limits, before=run.budgets, spent=run.spent),
        # outside of the limits: a call that runs again with its answers counts once
        answer_questions(settings.on_question, inputs),
    )


@cache
def _send_requests(retries: int, max_concurrency: int | None, requests_per_minute: int | None) -> tuple[Policy, ...]:
    """Return the policies by which a request is sent."""
    waits = [WAITS[min(number, len(WAITS) - 1)] for number in range(retries)]
    return retry_unforced(), retry(waits), throttle(max_concurrency, requests_per_minute), watch_cache()


def split_tools(tools: Iterable[Any] | ToolSelector) -> tuple[Iterable[Any], ToolSelector | None]:
    """Return the tools in `tools=`, and the function that selects more for each step, if it is one.

    Raises:
        DefinitionError: `tools` is a function that cannot be called with a `RunContext`.
    """
    if isinstance(tools, JsonTool):
        return (tools,), None
    if not callable(tools):
        return tools, None
    try:
        plain_signature(tools).bind(None)
    except TypeError as error:
        raise _selector_error(tools, str(error)) from None
    return (), tools


def _selector_error(function: ToolSelector, why: str) -> DefinitionError:
    name = getattr(function, "__name__", "it")
    return DefinitionError(
        f"tools={name}: expected a function of the run's RunContext that returns a list of tools: {why}. "
        f"If it is a tool itself, write tools=[{name}]."
    )


def _list_extensions(spec: AgentSpec) -> Iterator[Extension]:
    """Yield the extensions of an agent, with those that each has unless it has its own.

    That is the search among tools, if there may be many, and outside of it what keeps requests in the window.  Those
    that see requests as they are sent are outermost.
    """
    among: Iterable[object] = spec.settings.policies
    given = [*spec.extensions, *(policy for policy in among if isinstance(policy, Extension))]
    yield from (
        extension for extension in given if not (isinstance(extension, ContextWindow) or extension.sees_sent_requests)
    )
    may_be_many = spec.select is not None or spec.toolsets or len(spec.tools) > SOME_TOOLS
    if may_be_many and not any(isinstance(extension, ToolSearch) for extension in spec.extensions):
        yield _SEARCH
    window = next((extension for extension in given if isinstance(extension, ContextWindow)), _WINDOW)
    yield window.within(most) if (most := spec.settings.limits.context_tokens) else window
    yield from (extension for extension in given if extension.sees_sent_requests)


class StepTools:
    """The tools of a run, step by step: those of the agent, those that its function selects, those of its toolsets."""

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self.last = spec.tools
        self._selected: list[Any] = []
        self._listed: list[JsonTool[..., Any]] = []

    def select(self, context: RunContext[Any]) -> ToolRegistry:
        """Return the tools of the next step; the same tools keep their registry and its schemas."""
        spec = self._spec
        if spec.select is None and not spec.toolsets:
            return self.last
        selected = _call_selector(spec.select, context) if spec.select is not None else []
        listed = [tool for toolset in spec.toolsets for tool in toolset.list_tools()]
        if selected != self._selected or listed != self._listed:
            own = spec.tools.merged(selected)
            self.last = own.merged(name_toolset_tools(spec.toolsets, own)) if listed else own
            self.last.check_injected(context)
            self._selected = selected
            self._listed = listed
        return self.last


def _call_selector(select: ToolSelector, context: RunContext[Any]) -> list[Any]:
    given = select(context)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise _selector_error(select, f"it returned {given!r:.80}")
    return [*given]
