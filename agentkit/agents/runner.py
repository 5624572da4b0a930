"""One run from its request to its result, blocking or on an event loop; it locks the session and emits the events.

Attach the journal or the recording to a run, from its start to its end.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    aclosing,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from dataclasses import replace
from functools import partial
from typing import Any

from ..core.background import check_event_loop, run_in_thread, start_thread
from ..core.errors import RunError, RunStopped
from ..core.flow import Done, Emit, Event, Flow, Policy, adrive, apply_policies, ask, drive
from ..core.host import find_versions
from ..core.threads import RUN_CANCELLATION, Cancellation
from ..engine.loop import Answer
from ..engine.model import Model
from ..engine.result import Result, RunFinished, RunStarted
from ..sessions.journal.location import Journal, JournalLocation, absolute_place, show_place
from ..sessions.journal.policy import journal_policy, repeat_answer
from ..sessions.journal.setup import Setup
from ..sessions.journal.writer import JournaledConversation, JournalWriter
from ..sessions.recordings import RequestRecorder
from ..sessions.recordings.file import FIRST_LINE, RecordFile
from ..sessions.session import Session
from ..tools.toolset import aclosing_toolsets, closing_toolsets
from ..views.notebook import show_in_cell
from .handoffs import run_handoffs
from .inner_runs import nest
from .interface import Runnable, observe_run
from .options import RunRequest, check_query, make_query, override
from .pipeline import build_flow
from .run_state import Run


@contextmanager
def persist(agent: Runnable, request: RunRequest, run: Run) -> Iterator[tuple[Policy, ...]]:
    """Yield the policies that record or replay a run; they belong outside of all others."""
    with ExitStack() as stack:
        policies: list[Policy] = []
        if request.replay is not None:
            policies.append(request.replay.policy)
            request.session.approvals.decisions.update(request.replay.decisions)
        elif (conversation := _conversation(request.journal or agent.journal, request.session)) is not None:
            if stored := conversation.stored if request.query is None else None:
                run.usage = stored.run.usage
                run.steps = stored.run.steps
                run.run_id = stored.run.id
                stack.callback(setattr, conversation, "stored", None)
            else:
                setup = Setup.of(agent.instruction, agent.tools)
                conversation.stored = None
                policies.append(stack.enter_context(_journal(conversation, request, setup, run)))
        if request.record is not None:
            policies += stack.enter_context(_record(agent, request, request.record, run))
        yield tuple(policies)


@contextmanager
def _journal(conversation: JournaledConversation, request: RunRequest, setup: Setup, run: Run) -> Iterator[Policy]:
    """Yield the journal policy; add the command that resumes the run as a note to the error that ends it."""
    session = request.session
    session.journaled = conversation
    if request.query is not None or not conversation.run:
        conversation.base = session.usage
    writer = JournalWriter(conversation, session.messages, session.state, session.cut, setup)
    writer.open(request.query, run.model)
    run.spent = writer.spent
    run.run_id = writer.run
    run.usage = writer.spent.usage
    run.steps = writer.spent.steps
    session.approvals.begun = writer.decided
    writer.usage = lambda: run.usage
    try:
        yield journal_policy(writer, conversation.on_uncertain)
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if not conversation.origin and (command := conversation.command_to_resume()):
            error.add_note(f"Resume this run: {command}")
        raise
    finally:
        writer.close()


def _conversation(place: JournalLocation, session: Session) -> JournaledConversation | None:
    """Return the conversation in the journal for the run, None without a journal."""
    old = session.journaled
    if place is None:
        return old
    journal = Journal.of(place)
    if old is not None and absolute_place(old.journal.path) == absolute_place(journal.path):
        old.journal = journal
        return old
    if old is not None and old.name:
        raise RunError(
            f"journal={show_place(journal.path)!r}: the session {old.name!r} is in {show_place(old.journal.path)!r}. "
            "Leave journal= out."
        )
    return JournaledConversation(journal)


@contextmanager
def _record(
    agent: Runnable, request: RunRequest, path: str | os.PathLike[str], run: Run
) -> Iterator[tuple[Policy, ...]]:
    """Yield the policies that write the rows of the run's journal into a file, and what a replay needs beside them."""
    session = request.session
    setup = Setup.of(agent.instruction, agent.tools)
    plain = {key: value for key, value in agent.settings.items() if isinstance(value, str | int | float)}
    usage = session.usage.as_dict()
    conversation = JournaledConversation(Journal(path, errors="raise"), next_run=run.run_id)
    with closing(RecordFile(path)) as file:
        file.write(**FIRST_LINE, versions=find_versions(), stream=request.stream, settings=plain, usage=usage)
        writer = JournalWriter(conversation, session.messages, session.state, session.cut, setup, append=file.append)
        writer.begin(request.query or "", run.model)
        recorder = RequestRecorder(writer, file)
        run.listeners = (*run.listeners, recorder.listen)
        with closing(writer):
            yield recorder.policy, journal_policy(writer)


def stream_run(agent: Runnable, request: RunRequest) -> Generator[Event, None, None]:
    """Run an agent, blocking; yield the events, `RunFinished` last."""
    with (
        nest(agent, request) as (request, report),
        _begin_run(agent, request) as (run, flow),
        closing_toolsets(run.toolsets),
        closing(iter(drive(flow))) as steps,
    ):
        cancellation = request.session.cancellation
        while (event := _next_event(steps, cancellation)) is not None:
            for shown in run.watch(event):
                report(shown)
                yield shown


async def astream_run(agent: Runnable, request: RunRequest) -> AsyncGenerator[Event, None]:
    """Run an agent on the running event loop; yield the events, `RunFinished` last."""
    check_event_loop("agent.run, query")
    await request.session.wait_until_free()
    with nest(agent, request) as (request, report):
        async with _abegin_run(agent, request) as (run, flow), aclosing_toolsets(run.toolsets):
            stopper = _TaskStopper(request.session.cancellation)
            async with aclosing(adrive(flow)) as steps:
                while isinstance(event := await stopper.next_event(steps), Event):
                    for shown in run.watch(event):
                        report(shown)
                        yield shown


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
            if self._cancellation.is_set and task is not None and task.uncancel() <= cancelling:
                raise RunStopped(self._cancellation.reason) from None
            raise
        except Exception as error:
            if self._cancellation.is_set:
                raise RunStopped(self._cancellation.reason) from error
            raise
        finally:
            self._task = None
            RUN_CANCELLATION.reset(token)

    def _request(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, so there is no waiting task
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def finish_run(agent: Runnable, request: RunRequest) -> Result[Any]:
    """Run an agent, blocking, and return its result."""
    last: Event | None = None
    with show_in_cell() as show:
        for event in stream_run(agent, request):
            show(last := event)
    return _result_of(last)


async def afinish_run(agent: Runnable, request: RunRequest) -> Result[Any]:
    """Run an agent on the running event loop and return its result."""
    last: Event | None = None
    with show_in_cell() as show:
        async with aclosing(astream_run(agent, request)) as happening:
            async for event in happening:
                show(last := event)
    return _result_of(last)


@contextmanager
def _begin_run(agent: Runnable, request: RunRequest) -> Iterator[tuple[Run, Flow[None]]]:
    """Yield a run and its flow while the session is locked; add history and usage to the `RunError` that ends it."""
    query = request.query
    session = request.session
    check_query(query)
    request = replace(request, query=query.strip() if query else None)
    agent = override(agent, request.settings)
    backend, note = agent.choose_backend(request.model)
    turn = session.turn(agent.instruction, make_query(request), request.approvals, request.answers)
    with _report_end(request) as started, turn as history:
        run = Run(backend.name, history, agent.listeners, handed=[*session.handed])
        started.append(run)
        with persist(agent, request, run) as policies:
            before = session.usage if session.journaled is None else session.journaled.base
            if request.replay is None and (observer := observe_run(agent, session, run.run_id)):
                run.listeners = (*run.listeners, observer.listen)
                policies = (*policies, observer.policy)
            begun = RunStarted(request.query or "", backend.name, note, run.run_id)
            try:
                yield run, _run_flow(agent, run, request, backend, begun, policies)
            except RunError as error:
                error.history = list(history)
                error.usage = run.usage
                error.result = run.fail(error)
                error.partial = error.partial or run.partial
                raise
            finally:
                session.usage = before + run.usage


@contextmanager
def _report_end(request: RunRequest) -> Iterator[list[Run]]:
    """Yield a list for the run, and report the run's end to its listeners, whatever ends it."""
    runs: list[Run] = []
    error: BaseException | None = None
    try:
        yield runs
    except BaseException as raised:
        error = raised
        raise
    finally:
        for run in runs:
            run.end(error, request.on_end)


@asynccontextmanager
async def _abegin_run(agent: Runnable, request: RunRequest) -> AsyncGenerator[tuple[Run, Flow[None]], None]:
    """Do `_begin_run` without blocking the event loop: a journal is opened and closed in a thread."""
    manager = _begin_run(agent, request)
    if request.journal is None and agent.journal is None and request.session.journaled is None:
        with manager as begun:
            yield begun
        return
    entering = asyncio.ensure_future(run_in_thread(manager.__enter__))
    try:
        begun = await asyncio.shield(entering)
    except asyncio.CancelledError:
        entering.add_done_callback(partial(_exit_late, manager))
        raise
    try:
        yield begun
    except BaseException as error:
        await asyncio.shield(run_in_thread(partial(_exit, manager, error)))
        raise
    await asyncio.shield(run_in_thread(partial(manager.__exit__, None, None, None)))


def _exit_late(manager: AbstractContextManager[Any], entered: "asyncio.Future[Any]") -> None:
    """Release what was entered after the task had been cancelled."""
    if not entered.cancelled() and entered.exception() is None:
        start_thread(partial(_exit, manager, asyncio.CancelledError(), BaseException))


def _exit(
    manager: AbstractContextManager[Any], error: BaseException, ignored: type[BaseException] | None = None
) -> None:
    with suppress(ignored or type(error)):
        manager.__exit__(type(error), error, error.__traceback__)


def _run_flow(
    agent: Runnable, run: Run, request: RunRequest, backend: Model, begun: RunStarted, policies: tuple[Policy, ...]
) -> Flow[None]:
    yield from ask(Emit(begun))
    flow = run_handoffs(agent, request.session, partial(_agent_flow, agent, run, request, backend, len(run.handed)))
    answer = yield from apply_policies(flow, policies)
    request.session.cancellation = Cancellation()  # too late to stop the run
    yield from ask(Emit(RunFinished(run.finish(answer))))


def _agent_flow(
    first: Runnable, run: Run, request: RunRequest, backend: Model, begun: int, agent: Runnable
) -> Flow[Answer]:
    """Return the flow of `agent`; `backend` was chosen for the first agent, and the run began after `begun` hand-offs.

    A model that the request names is for the agent with which the run begins or continues.
    """
    if agent is not first:
        agent = override(agent, request.settings)
        backend, _ = agent.choose_backend(request.model if len(request.session.handed) == begun else None)
    run.model = backend.name
    journaled = request.session.journaled
    if stored := request.stored or (journaled.stored if journaled else None):
        return repeat_answer(agent.tools, stored)
    return build_flow(agent, run, request, backend)


def _result_of(event: Event | None) -> Result[Any]:
    assert isinstance(event, RunFinished)  # a run that does not raise ends with this event
    return event.result
