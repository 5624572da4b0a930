"""One run from its request to its result, blocking or on an event loop; it locks the session and emits the events."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ..core.background import check_event_loop, run_in_thread, start_thread
from ..core.errors import RunError, RunStopped
from ..core.flow import Done, Emit, Event, Flow, Policy, adrive, apply_policies, ask, drive
from ..core.threads import RUN_CANCELLATION, Cancellation
from ..engine.loop import Answer
from ..engine.model import Model
from ..engine.result import Result, RunFinished, RunStarted
from ..sessions.journal.stored_answer import repeat_answer
from ..tools.toolset import aclosing_toolsets, closing_toolsets
from ..views.notebook import show_in_cell
from .handoffs import run_handoffs
from .inner_runs import nest
from .instruments import observe_run
from .interface import Runnable
from .options import RunRequest
from .persistence import persist
from .pipeline import build_flow
from .requests import check_query, make_query, override
from .run_state import Run


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
    query, session = request.query, request.session
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
                run.listeners, policies = (*run.listeners, observer.listen), (*policies, observer.policy)
            begun = RunStarted(request.query or "", backend.name, note, run.run_id)
            try:
                yield run, _run_flow(agent, run, request, backend, begun, policies)
            except RunError as error:
                error.history, error.usage, error.result = list(history), run.usage, run.fail(error)
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
