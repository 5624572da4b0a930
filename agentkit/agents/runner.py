"""A run from its request to its result, blocking or on an event loop: it is prepared, and its flow is driven."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import (
    AbstractContextManager,
    aclosing,
    closing,
    nullcontext,
    suppress,
)
from typing import Any

from ..core.background import check_event_loop
from ..core.errors import RunStopped
from ..core.flow import Done, Event, Listener, adrive, drive
from ..core.host import find_kernel
from ..core.threads import RUN_CANCELLATION, Cancellation
from ..engine.result import Result, RunFinished
from ..tools.toolset import aclosing_toolsets, closing_toolsets
from ..views.notebook import show_in_cell
from .inner_runs import nest
from .options import RunRequest
from .preparation import aprepare, prepare
from .spec import AgentSpec


def stream_run(spec: AgentSpec, request: RunRequest) -> Generator[Event, None, None]:
    """Run an agent, blocking; yield the events, `RunFinished` last."""
    with (
        nest(spec, request) as request,
        prepare(spec, request) as (run, flow),
        closing_toolsets(run.toolsets),
        closing(iter(drive(flow))) as steps,
    ):
        cancellation = request.session.cancellation
        while (event := _next_event(steps, cancellation)) is not None:
            yield from run.watch(event)


async def astream_run(spec: AgentSpec, request: RunRequest) -> AsyncGenerator[Event, None]:
    """Run an agent on the running event loop; yield the events, `RunFinished` last."""
    check_event_loop("agent.run, query")
    await request.session.wait_until_free()
    with nest(spec, request) as request:
        async with aprepare(spec, request) as (run, flow), aclosing_toolsets(run.toolsets):
            stopper = _TaskStopper(request.session.cancellation)
            async with aclosing(adrive(flow)) as steps:
                while isinstance(event := await stopper.next_event(steps), Event):
                    for shown in run.watch(event):
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


def finish_run(spec: AgentSpec, request: RunRequest) -> Result[Any]:
    """Run an agent, blocking, and return its result."""
    last: Event | None = None
    with _cell() as show:
        for last in stream_run(spec, request):
            if show is not None:
                show(last)
    return _result_of(last)


async def afinish_run(spec: AgentSpec, request: RunRequest) -> Result[Any]:
    """Run an agent on the running event loop and return its result."""
    last: Event | None = None
    with _cell() as show:
        async with aclosing(astream_run(spec, request)) as happening:
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
