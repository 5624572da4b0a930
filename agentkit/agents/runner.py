"""A run from its request to its result, blocking or on an event loop: one call prepares it, and one drives its flow.

`prepare` applies the settings of the run, locks the session, adds the query, and opens the journal or the recording.
At the end of the run it closes them, reports the end, and adds to an error what the run has come to.
"""

import asyncio
import warnings
from collections.abc import AsyncGenerator, Awaitable, Generator, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    aclosing,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypeVar, cast

from ..core.background import check_event_loop, run_in_thread
from ..core.context import AgentPath, enclosing
from ..core.errors import DefinitionError, Paused, RunError, RunStopped, explain_attributes
from ..core.flow import Done, Emit, Event, Flow, Listener, Policy, adrive, apply_policies, ask, drive
from ..core.host import check_main, find_kernel
from ..core.messages import system, text_of
from ..core.threads import RUN_CANCELLATION, Cancellation
from ..engine.loop import Answer, is_open
from ..engine.model import Model
from ..engine.result import Result, RunFinished, RunStarted
from ..policies.quota import Account, Accounts, QuotaStore, keep_quotas
from ..sessions.journal.connections import opened_store
from ..sessions.journal.policy import journal_policy, outcome_of_error, repeat_answer
from ..sessions.journal.run_info import Setup
from ..sessions.journal.store import Journal
from ..sessions.journal.writer import JournalWriter
from ..sessions.session import Session, conversation_in, open_journal, open_recording
from ..tools.execution.call_tools import CALLER_IN_ASYNC_RUN
from ..tools.toolset import close_toolsets, closing_toolsets
from ..views.notebook import INTERRUPTED_NOTICE, NOTHING_LEFT_NOTICE, explain_interrupt, show_in_cell
from .handoffs import run_handoffs
from .inner_runs import nest
from .instruments import ObservedRun, RunObserver, find_instrument
from .options import ModelChoice, RunRequest, UserQuery
from .pipeline import build_flow, make_context
from .run_state import Run
from .spec import AgentSpec

T = TypeVar("T")


def stream_run(spec: AgentSpec, request: RunRequest, query: UserQuery | None = None) -> Generator[Event, None, None]:
    """Run an agent, blocking; yield the events, `RunFinished` last."""
    with (
        _explain_interrupt(request.session),
        nest(spec, request, query) as (request, query),
        prepare(spec, request, query) as (run, flow),
        closing_toolsets(run.toolsets),
        closing(iter(drive(flow))) as steps,
    ):
        while (event := _next_event(steps, run.cancellation)) is not None:
            yield from run.watch(event)


async def astream_run(
    spec: AgentSpec, request: RunRequest, query: UserQuery | None = None
) -> AsyncGenerator[Event, None]:
    """Run an agent on the running event loop; yield the events, `RunFinished` last."""
    check_event_loop("agent.run, query")
    if spec.settings.tool_thread == "caller":
        raise DefinitionError(CALLER_IN_ASYNC_RUN)
    await request.session.wait_until_free()
    with _explain_interrupt(request.session), nest(spec, request, query) as (request, query):
        async with _PreparedRun(spec, request, query) as (run, flow):
            stopper = _TaskStopper(run.cancellation)
            try:
                async with aclosing(adrive(flow)) as steps:
                    while isinstance(event := await stopper.next_event(steps), Event):
                        for shown in run.watch(event):
                            yield shown
            finally:
                await close_toolsets(run.toolsets)


@contextmanager
def _explain_interrupt(session: Session) -> Iterator[None]:
    """Let a cell show how an interrupted run of a session continues, if it does."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):
        with explain_interrupt(INTERRUPTED_NOTICE if is_open(session.messages) else NOTHING_LEFT_NOTICE):
            raise


def _explain_stream(run: str) -> dict[str, str]:
    """Return what to do about an attribute of the result that is read from a stream; `run` returns the result."""
    text = f"A stream yields events, the last one has the result. For the result alone: {run}"
    return dict.fromkeys(("answer", "text", "result", "output", "data", "usage", "messages", "calls"), text)


@explain_attributes(_explain_stream("agent.run(query)"))
class EventStream(Generator[Event, None, None]):
    """The events of a blocking run; nothing runs before the first one is requested."""

    def __init__(self, events: Generator[Event, None, None]) -> None:
        self._events = events
        self._used = False

    def __next__(self) -> Event:
        self._used = True
        return next(self._events)

    def send(self, value: None) -> Event:
        """Return the next event."""
        self._used = True
        return self._events.send(value)

    def throw(self, error: Any, *rest: Any) -> Event:
        """Raise an exception where the run is."""
        self._used = True
        return self._events.throw(error, *rest)

    def close(self) -> None:
        """Cancel the run."""
        self._used = True
        self._events.close()

    def __del__(self) -> None:
        if not self._used:
            _warn_unused("for event in agent.stream(query)")


@explain_attributes(_explain_stream("await agent.arun(query)"))
class AsyncEventStream(AsyncGenerator[Event, None]):
    """The events of a run on the running event loop; nothing runs before the first one is requested."""

    def __init__(self, events: AsyncGenerator[Event, None]) -> None:
        self._events = events
        self._used = False

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "agent.astream() is asynchronous. Write: async for event in agent.astream(query), or use stream"
        )

    def __await__(self) -> NoReturn:
        self._used = True  # one error is enough
        raise TypeError(
            "agent.astream() yields events. Write: async for event in agent.astream(query). "
            "For the result alone: await agent.arun(query)"
        )

    async def __anext__(self) -> Event:
        self._used = True
        return await self._events.__anext__()

    async def asend(self, value: None) -> Event:
        """Return the next event."""
        self._used = True
        return await self._events.asend(value)

    async def athrow(self, error: Any, *rest: Any) -> Event:
        """Raise an exception where the run is."""
        self._used = True
        return await self._events.athrow(error, *rest)

    async def aclose(self) -> None:
        """Cancel the run."""
        self._used = True
        await self._events.aclose()

    def __del__(self) -> None:
        if not self._used:
            _warn_unused("async for event in agent.astream(query)")


def _warn_unused(loop: str) -> None:
    text = f"the events of a stream were never requested, so nothing has run. Write: {loop}"
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def _next_event(steps: Generator[Event, None, None], cancellation: Cancellation) -> Event | None:
    """Return the next event of a run, or None at its end; raise `RunStopped` if the run was stopped meanwhile."""
    if cancellation.is_set:
        raise RunStopped(cancellation.reason)
    token = RUN_CANCELLATION.set(cancellation)
    try:
        return next(steps, None)
    except Exception as error:
        if cancellation.is_set:
            raise RunStopped(cancellation.reason) from error
        raise
    finally:
        RUN_CANCELLATION.reset(token)


class _TaskStopper:
    """Cancels the task that waits for the next event of a run when the run is stopped."""

    def __init__(self, cancellation: Cancellation) -> None:
        self._cancellation = cancellation
        self._task: asyncio.Task[Any] | None = None
        self._has_cancelled = False
        self._loop = asyncio.get_running_loop()
        cancellation.add_callback(self._request)

    async def next_event(self, steps: AsyncGenerator[Event | Done[None], None]) -> Event | Done[None]:
        """Return the next item; raise `RunStopped` if the run was stopped meanwhile."""
        if self._cancellation.is_set:
            raise RunStopped(self._cancellation.reason)
        self._task = task = asyncio.current_task()
        cancelling = task.cancelling() if task else 0
        token = RUN_CANCELLATION.set(self._cancellation)
        try:
            return await anext(steps)
        except asyncio.CancelledError:
            others = task.cancelling() - self._has_cancelled - cancelling if task else 0
            if self._cancellation.is_set and not others:
                raise RunStopped(self._cancellation.reason) from None
            raise
        except Exception as error:
            if self._cancellation.is_set:
                raise RunStopped(self._cancellation.reason) from error
            raise
        finally:
            if self._has_cancelled and task is not None:
                task.uncancel()
            self._has_cancelled = False
            self._task = None
            RUN_CANCELLATION.reset(token)

    def _request(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, so there is no waiting task
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._has_cancelled = self._task.cancel()


def finish_run(spec: AgentSpec, request: RunRequest, query: UserQuery | None = None) -> Result[Any]:
    """Run an agent, blocking, and return its result."""
    last: Event | None = None
    with _cell() as show:
        for last in stream_run(spec, request, query):
            if show is not None:
                show(last)
    return _result_of(last)


async def afinish_run(spec: AgentSpec, request: RunRequest, query: UserQuery | None = None) -> Result[Any]:
    """Run an agent on the running event loop and return its result."""
    with _cell() as show:
        return await areach_result(spec, request, query, show)


async def areach_result(
    spec: AgentSpec, request: RunRequest, query: UserQuery | None, show: Listener | None = None
) -> Result[Any]:
    """Run an agent on the running event loop and return its result; `show` gets the events, outside of any cell."""
    last: Event | None = None
    async with aclosing(astream_run(spec, request, query)) as happening:
        async for last in happening:
            if show is not None:
                show(last)
    return _result_of(last)


def _cell() -> AbstractContextManager[Listener | None]:
    """Show the run in the current cell, in a notebook."""
    return nullcontext() if find_kernel() is None else show_in_cell()


def _result_of(event: Event | None) -> Result[Any]:
    assert isinstance(event, RunFinished)  # a run that does not raise ends with this event
    return event.result


@contextmanager
def prepare(spec: AgentSpec, request: RunRequest, query: UserQuery | None) -> Iterator[tuple[Run, Flow[None]]]:
    """Yield a run and its flow while the session is locked; add history and usage to the `RunError` that ends it."""
    check_main()
    asked = None if query is None else query.text.strip()
    spec = spec.for_run(request.settings)
    session = request.session
    run = Run("", session.messages, spec.listeners, state={} if request.state is None else request.state)
    continues = query is None or request.replay is not None
    spec, chosen = _choose_model(spec, run, request, request.model, continues=continues)
    backend, note = spec.backends.choose(request.model, spec.fixed_model)
    run.model = backend.name
    if query is None and session.handed:  # another agent has the conversation, and writes its own
        instruction = _written_instruction(session)
    else:
        instruction = _instruct(spec, run, request, backend, continues=continues)
    asks = None if query is None else query.message
    is_hiding = spec.settings.untrusted == "hidden"
    turn = session.turn(instruction, asks, request.answers, model=chosen, is_hiding=is_hiding)
    with run.reporting_end(), turn, _persist(spec, request, run, asked) as policies:
        run.cancellation = session.cancellation
        run.handed = [*session.handed]
        before = session.usage if session.journaled is None else session.journaled.base
        if request.replay is None and (observer := _observe(spec, session, run.run_id)):
            run.listeners = (*run.listeners, observer.listen)
            policies = (*policies, observer.policy)
        if request.report is not None:
            run.listeners = (*run.listeners, request.report)
        begun = RunStarted(asked or "", backend.name, note, run.run_id)
        try:
            yield run, _run_flow(spec, run, request, backend, begun, policies, continues=query is None)
        except RunError as error:
            run.fail(error)
            raise
        finally:
            session.usage = before + run.usage


class _PreparedRun:
    """Does `prepare` without blocking the event loop: a journal is opened and closed in a thread.

    It is no generator: at its end asyncio closes all of them at a time, also one that another is about to close.
    """

    def __init__(self, spec: AgentSpec, request: RunRequest, query: UserQuery | None) -> None:
        self._manager = prepare(spec, request, query)
        places = (request.journal, spec.journal, request.session.journaled)
        self._has_journal = any(place is not None for place in places)

    async def __aenter__(self) -> tuple[Run, Flow[None]]:
        if not self._has_journal:
            return self._manager.__enter__()
        entering = asyncio.ensure_future(run_in_thread(self._manager.__enter__))
        try:
            return await _finish(entering)
        except asyncio.CancelledError as error:
            if not entering.cancelled() and entering.exception() is None:  # it was entered although cancelled
                await _finish(run_in_thread(partial(_exit, self._manager, error)))
            raise

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if not self._has_journal:
            self._manager.__exit__(kind, error, traceback)
        elif error is None:
            await _finish(run_in_thread(partial(self._manager.__exit__, None, None, None)))
        else:
            await _finish(run_in_thread(partial(_exit, self._manager, error)))


async def _finish(work: Awaitable[T]) -> T:
    """Await work in a thread to its end, also if the task is cancelled meanwhile: the cancellation is raised then."""
    future = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not future.cancelled():
            future.exception()  # it counts as handled
        raise cancelled
    return future.result()


def _exit(manager: AbstractContextManager[Any], error: BaseException) -> None:
    with suppress(type(error)):
        manager.__exit__(type(error), error, error.__traceback__)


def _observe(spec: AgentSpec, session: Session, run_id: str) -> RunObserver | None:
    """Return the observer of a run that begins, None if nothing observes it."""
    if (instrument := find_instrument(spec.settings.telemetry)) is None:
        return None
    path = enclosing(AgentPath)
    name = path.names[-1] if path else ""
    return instrument.observe(ObservedRun(run_id, name, spec.about, session, spec.all_settings))


def _run_flow(
    spec: AgentSpec,
    run: Run,
    request: RunRequest,
    backend: Model,
    begun: RunStarted,
    policies: tuple[Policy, ...],
    *,
    continues: bool,
) -> Flow[None]:
    yield from ask(Emit(begun))
    flow_of = partial(_agent_flow, spec, run, request, backend, len(run.handed), continues)
    has_handoffs = spec.handoffs or request.session.handed
    flow = run_handoffs(spec, request.session, flow_of) if has_handoffs else flow_of(spec)
    answer = yield from apply_policies(flow, policies)
    request.session.cancellation = Cancellation()  # too late to stop the run
    yield from ask(Emit(RunFinished(run.finish(answer))))


def _agent_flow(
    first: AgentSpec, run: Run, request: RunRequest, backend: Model, begun: int, continues: bool, spec: AgentSpec
) -> Flow[Answer]:
    """Return the flow of one agent; `backend` was chosen for the first one, and the run began after `begun` hand-offs.

    A model that the request names is for the agent with which the run begins or continues.
    """
    is_first = len(request.session.handed) == begun
    if spec is not first:
        spec = spec.for_run(request.settings)
        model = request.model if is_first else None
        spec, request.session.model = _choose_model(spec, run, request, model, continues=continues and is_first)
        backend, _ = spec.backends.choose(model, spec.fixed_model)
    session = request.session
    if session.handed:
        session.messages[0] = system(_instruct(spec, run, request, backend, continues=continues and is_first))
    run.model = backend.name
    journaled = request.session.journaled
    if stored := request.stored or (journaled.stored if journaled else None):
        return repeat_answer(spec.tools, stored)
    return build_flow(spec, run, request, backend)


def _choose_model(
    spec: AgentSpec, run: Run, request: RunRequest, model: ModelChoice, *, continues: bool
) -> tuple[AgentSpec, str]:
    """Return the specification with the model that its function chooses, and the name for the session to keep.

    A run that continues keeps the name that was chosen when it began. A model object has no name to store; the function
    chooses it anew. Where the run names a `model` itself, the function is not called.
    """
    if model is not None or not spec.selects_model:
        return spec, request.session.model if continues else ""
    chosen = spec.choose_model(make_context(spec, run, request, None), request.session.model if continues else "")
    return chosen, chosen.model if isinstance(chosen.model, str) else ""


def _instruct(spec: AgentSpec, run: Run, request: RunRequest, backend: Model, *, continues: bool) -> str:
    """Return the system message; a run that continues keeps the one that its extensions wrote when it began."""
    written = _written_instruction(request.session)
    if continues and spec.is_instructed_by(written):
        return written
    return spec.instruct(make_context(spec, run, request, backend))


def _written_instruction(session: Session) -> str:
    first = session.messages[0] if session.messages else None
    return text_of(first) if first is not None and first["role"] == "system" else ""


def _record_stop(writer: JournalWriter, _: Any, error: BaseException | None, __: Any) -> None:
    """Record that a run was stopped by a person, not by the end of its process."""
    if isinstance(error, RunStopped):
        writer.end_run("failed", outcome_of_error(error))


def _name_run(run: Run, _: Any, error: BaseException | None, __: Any) -> None:
    """Name the run in the error of a pause, so that any process can continue it from the agent's journal."""
    if isinstance(error, Paused):
        error.run_id = run.run_id


def _setup(spec: AgentSpec, session: Session) -> Setup:
    """Return what a run of the agent begins with, or continues with."""
    written = _written_instruction(session)
    setup = spec.setup(written if spec.is_instructed_by(written) else "")
    is_hiding = spec.settings.untrusted == "hidden"
    return replace(setup, session_state=session.copy_state(), is_hiding=is_hiding)


def _open_accounts(spec: AgentSpec, request: RunRequest, run: Run, stack: ExitStack) -> list[Account]:
    """Return the accounts from which a run with a quota, its own or an enclosing one, pays; `stack` closes them."""
    if request.replay is not None or request.stored is not None:
        return []
    store = None
    if spec.settings.quota is not None:
        kept = request.session.journaled
        if place := request.journal or spec.journal or (kept.journal if kept else None):
            journal = Journal.of(place)
            store = cast(QuotaStore, stack.enter_context(opened_store(journal.path, journal.sync)))
    accounts = spec.list_accounts(make_context(spec, run, request, None), store)
    for account in accounts:
        stack.callback(account.close)
    return accounts


@contextmanager
def _persist(spec: AgentSpec, request: RunRequest, run: Run, query: str | None) -> Iterator[tuple[Policy, ...]]:
    """Yield the policies that record or replay a run; they belong outside of all others."""
    session = request.session
    place = None if request.is_dry else request.journal or spec.journal
    with ExitStack() as stack:
        has_quota = spec.settings.quota is not None or enclosing(Accounts) is not None
        accounts = _open_accounts(spec, request, run, stack) if has_quota else []
        policies: tuple[Policy, ...] = (keep_quotas(accounts),) if accounts else ()
        if request.replay is not None:
            policies = (request.replay.policy,)
            session.inputs.decisions.update(request.replay.decisions)
            request.replay.restore_pause(session.inputs, Session.from_dict)
        elif conversation := session.journaled if place is None else conversation_in(session, place):
            if spec.journal and not request.journal:
                stack.push(partial(_name_run, run))
            if stored := conversation.stored if query is None else None:
                run.run_id = stored.run.id
                run.usage = stored.run.usage
                run.steps = stored.run.steps
                stack.callback(setattr, conversation, "stored", None)
            else:
                setup = _setup(spec, session)
                writer = stack.enter_context(open_journal(session, conversation, query, run.model, setup))
                stack.push(partial(_record_stop, writer))
                writer.usage = lambda: run.usage
                writer.owner = accounts[0].owner if accounts else ""
                run.continue_from(writer.run, writer.spent)
                policies += (journal_policy(writer),)
        if request.record is not None:
            setup = _setup(spec, session)
            plain = {key: value for key, value in spec.all_settings.items() if isinstance(value, str | int | float)}
            limits = {name: value for name, value in spec.settings.limits.given.items() if value is not None}
            about = {"stream": request.stream, "settings": plain | {"limits": limits}}
            if session.session_state:
                about["session_state"] = setup.session_state
            recording = open_recording(session, request.record, query, run.model, setup, run_id=run.run_id, about=about)
            listener, written = stack.enter_context(recording)
            run.listeners = (*run.listeners, listener)
            policies += written
        yield policies
