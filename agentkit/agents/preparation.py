"""The preparation of a run: one call takes a request to a flow that is ready to be driven.

It applies the settings of the run, locks the session, adds the query, and opens the journal or the recording.  At the
end of the run it closes them, reports the end, and adds to an error what the run has come to.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from ..core.background import run_in_thread
from ..core.context import AgentPath
from ..core.enclosing import enclosing
from ..core.errors import RunError
from ..core.flow import Emit, Flow, Policy, apply_policies, ask
from ..core.threads import Cancellation
from ..engine.loop import Answer
from ..engine.model import Model
from ..engine.result import RunFinished, RunStarted
from ..sessions.journal.policy import journal_policy, repeat_answer
from ..sessions.journal.setup import Setup
from ..sessions.persistence import conversation_in, open_journal, open_recording
from ..sessions.session import Session
from .handoffs import run_handoffs
from .instruments import ObservedRun, RunObserver, find_instrument
from .options import RunRequest
from .pipeline import build_flow
from .run_state import Run
from .spec import AgentSpec

T = TypeVar("T")


@contextmanager
def prepare(spec: AgentSpec, request: RunRequest) -> Iterator[tuple[Run, Flow[None]]]:
    """Yield a run and its flow while the session is locked; add history and usage to the `RunError` that ends it."""
    request = replace(request, query=request.query.strip() if request.query else None)
    spec = spec.for_run(request.settings)
    backend, note = spec.backends.choose(request.model, spec.model)
    session = request.session
    run = Run(backend.name, session.messages, spec.listeners)
    turn = session.turn(spec.instruction, request.message, request.answers)
    with run.reporting_end(), turn, _persist(spec, request, run) as policies:
        run.handed = [*session.handed]
        before = session.usage if session.journaled is None else session.journaled.base
        if request.replay is None and (observer := _observe(spec, session, run.run_id)):
            run.listeners = (*run.listeners, observer.listen)
            policies = (*policies, observer.policy)
        if request.report is not None:
            run.listeners = (*run.listeners, request.report)
        begun = RunStarted(request.query or "", backend.name, note, run.run_id)
        try:
            yield run, _run_flow(spec, run, request, backend, begun, policies)
        except RunError as error:
            run.fail(error)
            raise
        finally:
            session.usage = before + run.usage


@asynccontextmanager
async def aprepare(spec: AgentSpec, request: RunRequest) -> AsyncGenerator[tuple[Run, Flow[None]], None]:
    """Do `prepare` without blocking the event loop: a journal is opened and closed in a thread."""
    manager = prepare(spec, request)
    if request.journal is None and spec.journal is None and request.session.journaled is None:
        with manager as begun:
            yield begun
        return
    entering = asyncio.ensure_future(run_in_thread(manager.__enter__))
    try:
        begun = await _finish(entering)
    except asyncio.CancelledError as error:
        if not entering.cancelled() and entering.exception() is None:  # it was entered although the task was cancelled
            await _finish(run_in_thread(partial(_exit, manager, error)))
        raise
    try:
        yield begun
    except BaseException as error:
        await _finish(run_in_thread(partial(_exit, manager, error)))
        raise
    await _finish(run_in_thread(partial(manager.__exit__, None, None, None)))


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
    return instrument.observe(ObservedRun(run_id, name, spec.description, session, spec.all_settings))


def _run_flow(
    spec: AgentSpec, run: Run, request: RunRequest, backend: Model, begun: RunStarted, policies: tuple[Policy, ...]
) -> Flow[None]:
    yield from ask(Emit(begun))
    flow_of = partial(_agent_flow, spec, run, request, backend, len(run.handed))
    has_handoffs = spec.handoffs or request.session.handed
    flow = run_handoffs(spec, request.session, flow_of) if has_handoffs else flow_of(spec)
    answer = yield from apply_policies(flow, policies)
    request.session.cancellation = Cancellation()  # too late to stop the run
    yield from ask(Emit(RunFinished(run.finish(answer))))


def _agent_flow(
    first: AgentSpec, run: Run, request: RunRequest, backend: Model, begun: int, spec: AgentSpec
) -> Flow[Answer]:
    """Return the flow of one agent; `backend` was chosen for the first one, and the run began after `begun` hand-offs.

    A model that the request names is for the agent with which the run begins or continues.
    """
    if spec is not first:
        spec = spec.for_run(request.settings)
        model = request.model if len(request.session.handed) == begun else None
        backend, _ = spec.backends.choose(model, spec.model)
    run.model = backend.name
    journaled = request.session.journaled
    if stored := request.stored or (journaled.stored if journaled else None):
        return repeat_answer(spec.tools, stored)
    return build_flow(spec, run, request, backend)


@contextmanager
def _persist(spec: AgentSpec, request: RunRequest, run: Run) -> Iterator[tuple[Policy, ...]]:
    """Yield the policies that record or replay a run; they belong outside of all others."""
    session = request.session
    place = request.journal or spec.journal
    with ExitStack() as stack:
        policies: tuple[Policy, ...] = ()
        if request.replay is not None:
            policies = (request.replay.policy,)
            session.inputs.decisions.update(request.replay.decisions)
        elif conversation := session.journaled if place is None else conversation_in(session, place):
            if stored := conversation.stored if request.query is None else None:
                run.run_id = stored.run.id
                run.usage = stored.run.usage
                run.steps = stored.run.steps
                stack.callback(setattr, conversation, "stored", None)
            else:
                setup = Setup.of(spec.instruction, spec.tools)
                opened = open_journal(session, conversation, request.query, run.model, setup)
                writer = stack.enter_context(opened)
                writer.usage = lambda: run.usage
                run.continue_from(writer.run, writer.spent)
                policies = (journal_policy(writer),)
        if request.record is not None:
            setup = Setup.of(spec.instruction, spec.tools)
            plain = {key: value for key, value in spec.all_settings.items() if isinstance(value, str | int | float)}
            about = {"stream": request.stream, "settings": plain}
            recording = open_recording(
                session, request.record, request.query, run.model, setup, run_id=run.run_id, about=about
            )
            listener, written = stack.enter_context(recording)
            run.listeners = (*run.listeners, listener)
            policies += written
        yield policies
