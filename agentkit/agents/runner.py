"""A run from what was asked to its result, blocking or on an event loop: the session is held, the events are shown."""

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
from ..views.notebook import watched
from .handoffs import with_handoffs
from .options import Asked
from .persistence import Keepable, kept
from .run_state import Run


class Runnable(Keepable, Protocol):
    """What this file needs of an agent."""

    @property
    def handoffs(self) -> Mapping[str, Any]: ...

    @property
    def listeners(self) -> Sequence[Listener]: ...

    def chosen_model(self, model: str | Model | None = None) -> tuple[Model, str]:
        """The backend to ask, and what the person should know about the choice."""
        ...

    def answering(self, run: Run, asked: Asked, backend: Model) -> Flow[Answer]:
        """The agent's own part of a run."""
        ...


def events(agent: Runnable, asked: Asked) -> Generator[Event, None, None]:
    """Run an agent, blocking; yields the events, `RunFinished` last."""
    with _begun(agent, asked) as (run, flow):
        for event in drive(flow):
            yield from run.watch(event)


async def aevents(agent: Runnable, asked: Asked) -> AsyncGenerator[Event, None]:
    """Run an agent on the running event loop; yields the events, `RunFinished` last."""
    await asked.session.freed()
    with _begun(agent, asked) as (run, flow):
        async with aclosing(adrive(flow)) as happening:
            async for event in happening:
                if isinstance(event, Event):
                    for shown in run.watch(event):
                        yield shown


def result(agent: Runnable, asked: Asked) -> Result[Any]:
    """Run an agent, blocking, to its result."""
    last: Event | None = None
    with watched() as show:
        for event in events(agent, asked):
            show(last := event)
    return _result(last)


async def aresult(agent: Runnable, asked: Asked) -> Result[Any]:
    """Run an agent on the running event loop, to its result."""
    last: Event | None = None
    with watched() as show:
        async with aclosing(aevents(agent, asked)) as happening:
            async for event in happening:
                show(last := event)
    return _result(last)


@contextmanager
def _begun(agent: Runnable, asked: Asked) -> Iterator[tuple[Run, Flow[None]]]:
    """A run and its flow, with the session held; whatever ends the run carries its history and usage."""
    query, session = asked.query, asked.session
    if query is not None and not (isinstance(query, str) and query.strip()):
        raise RunError('the query is empty: say what you want to know, agent("What is 2 + 3?")')
    asked = replace(asked, query=query.strip() if query else None)
    backend, note = agent.chosen_model(asked.model)
    with session.turn(agent.instruction, asked.query, asked.approvals) as history:
        run = Run(backend.name, history, agent.listeners, handed=[*session.handed])
        with kept(agent, asked, run) as policies:
            before = session.usage if session.kept is None else session.kept.base
            begun = RunStarted(asked.query or "", backend.name, note, run.run_id)
            try:
                yield run, _flow(agent, run, asked, backend, begun, policies)
            except RunError as error:
                error.history, error.usage, error.result = list(history), run.usage, run.failed(error)
                raise
            finally:
                session.usage = before + run.usage


def _flow(
    agent: Runnable, run: Run, asked: Asked, backend: Model, begun: RunStarted, policies: tuple[Policy, ...]
) -> Flow[None]:
    yield from ask(Emit(begun))
    flow = with_handoffs(agent, asked.session, partial(_part, agent, run, asked, backend))
    answer = yield from apply_policies(flow, policies)
    yield from ask(Emit(RunFinished(run.finish(answer))))


def _part(first: Runnable, run: Run, asked: Asked, backend: Model, agent: Runnable) -> Flow[Answer]:
    """What `agent` does of the run that `first` began, whose model was chosen for it alone."""
    if agent is not first:
        backend, _ = agent.chosen_model()
    run.model = backend.name
    return agent.answering(run, asked, backend)


def _result(event: Event | None) -> Result[Any]:
    assert isinstance(event, RunFinished)  # every run that does not raise ends with it
    return event.result
