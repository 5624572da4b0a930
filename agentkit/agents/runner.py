"""One run from its request to its result, blocking or on an event loop; it locks the session and emits the events."""

from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from ..core.errors import RunError
from ..core.flow import Emit, Event, Flow, Listener, Policy, adrive, apply_policies, ask, drive
from ..engine.loop import Answer
from ..engine.model import Model
from ..engine.result import Result, RunFinished, RunStarted
from ..views.notebook import show_in_cell
from .handoffs import run_handoffs
from .options import RunRequest
from .persistence import Persistable, persist
from .pipeline import Configured, build_flow
from .run_state import Run


class Runnable(Persistable, Configured, Protocol):
    """What this file needs of an agent."""

    @property
    def handoffs(self) -> Mapping[str, Any]: ...

    @property
    def listeners(self) -> Sequence[Listener]: ...

    def choose_backend(self, model: str | Model | None = None) -> tuple[Model, str]:
        """Return the backend for a run, and a notice about the choice."""
        ...


def stream_run(agent: Runnable, request: RunRequest) -> Generator[Event, None, None]:
    """Run an agent, blocking; yield the events, `RunFinished` last."""
    with _begin_run(agent, request) as (run, flow):
        for event in drive(flow):
            yield from run.watch(event)


async def astream_run(agent: Runnable, request: RunRequest) -> AsyncGenerator[Event, None]:
    """Run an agent on the running event loop; yield the events, `RunFinished` last."""
    await request.session.wait_until_free()
    with _begin_run(agent, request) as (run, flow):
        async with aclosing(adrive(flow)) as happening:
            async for event in happening:
                if isinstance(event, Event):
                    for shown in run.watch(event):
                        yield shown


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
    if query is not None and not (isinstance(query, str) and query.strip()):
        raise RunError('the query is empty: say what you want to know, agent("What is 2 + 3?")')
    request = replace(request, query=query.strip() if query else None)
    backend, note = agent.choose_backend(request.model)
    with session.turn(agent.instruction, request.query, request.approvals) as history:
        run = Run(backend.name, history, agent.listeners, handed=[*session.handed])
        with persist(agent, request, run) as policies:
            before = session.usage if session.journaled is None else session.journaled.base
            begun = RunStarted(request.query or "", backend.name, note, run.run_id)
            try:
                yield run, _run_flow(agent, run, request, backend, begun, policies)
            except RunError as error:
                error.history, error.usage, error.result = list(history), run.usage, run.fail(error)
                raise
            finally:
                session.usage = before + run.usage


def _run_flow(
    agent: Runnable, run: Run, request: RunRequest, backend: Model, begun: RunStarted, policies: tuple[Policy, ...]
) -> Flow[None]:
    yield from ask(Emit(begun))
    flow = run_handoffs(agent, request.session, partial(_agent_flow, agent, run, request, backend))
    answer = yield from apply_policies(flow, policies)
    yield from ask(Emit(RunFinished(run.finish(answer))))


def _agent_flow(first: Runnable, run: Run, request: RunRequest, backend: Model, agent: Runnable) -> Flow[Answer]:
    """Return the flow of `agent`; `backend` is the one that was chosen for the first agent."""
    if agent is not first:
        backend, _ = agent.choose_backend()
    run.model = backend.name
    return build_flow(agent, run, request, backend)


def _result_of(event: Event | None) -> Result[Any]:
    assert isinstance(event, RunFinished)  # a run that does not raise ends with this event
    return event.result
