"""Many queries, some of them at a time: each is a run of its own, and one that fails does not stop the others.

No more queries are taken from where they come than are being answered, so they may be endless, or cost something.
Whoever stops (an interrupt, a cancelled task, a loop that is left) stops all runs: at once in an asynchronous run, at
the next event in a blocking one.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Sized
from contextlib import aclosing, closing, suppress
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

from ..core.background import start_thread
from ..core.errors import RunError
from ..core.flow import Event
from ..core.threads import POLL_SECONDS, Work, is_cancelled, on_cancel
from ..engine.result import Result, RunFinished
from ..views.progress_bar import ProgressBar

T = TypeVar("T")
Many: TypeAlias = Iterable[str] | AsyncIterable[str]
"""Queries, as an asynchronous run may be given them."""
Queries = TypeVar("Queries", bound=Many)
Outcome: TypeAlias = Result[T] | Exception
"""What came of one query: the result, or what its run raised (a `RunError` carries history and usage)."""
Start: TypeAlias = Callable[[str], Generator[Event, None, None]]
"""Begins a run; yields its events."""
AStart: TypeAlias = Callable[[str], AsyncGenerator[Event, None]]


def map_queries(
    start: Start, queries: Iterable[str], concurrency: int = 8, progress: bool | None = None
) -> list[Outcome[Any]]:
    """The outcomes of all queries, in their order; `concurrency` runs at a time, each in a thread.

    `progress` shows a bar; by default, where there is a terminal or a notebook to show it.
    """
    outcomes: dict[int, Outcome[Any]] = {}
    with (
        ProgressBar(_length(queries), progress) as bar,
        closing(finished(start, queries, concurrency)) as arriving,
    ):
        for place, outcome in arriving:
            outcomes[place] = outcome
            bar.advance(failed=isinstance(outcome, Exception))
    return [outcomes[place] for place in range(len(outcomes))]


async def amap_queries(
    start: AStart, queries: Iterable[str] | AsyncIterable[str], concurrency: int = 8, progress: bool | None = None
) -> list[Outcome[Any]]:
    """`map_queries` on the running event loop, a task for each run; the queries may come asynchronously."""
    outcomes: dict[int, Outcome[Any]] = {}
    with ProgressBar(_length(queries), progress) as bar:
        async with aclosing(afinished(start, queries, concurrency)) as arriving:
            async for place, outcome in arriving:
                outcomes[place] = outcome
                bar.advance(failed=isinstance(outcome, Exception))
    return [outcomes[place] for place in range(len(outcomes))]


def finished(
    start: Start, queries: Iterable[str], concurrency: int = 8
) -> Generator[tuple[int, Outcome[Any]], None, None]:
    """The outcomes as they come, each with the place of its query; closing this stops the runs."""
    waiting = enumerate(_checked(queries, concurrency))
    arrived: _Arrived = SimpleQueue()
    running: dict[int, Work] = {}
    with on_cancel(partial(arrived.put, (_STOPPED, RunError("the runs were given up by what they were part of")))):
        try:
            while True:
                for place, query in islice(waiting, concurrency - len(running)):
                    running[place] = start_thread(partial(_work, start, place, query, arrived))
                if not running:
                    return
                place, outcome = _arrival(arrived)
                if place == _STOPPED:
                    raise outcome
                del running[place]
                yield place, outcome
        finally:
            for work in running.values():
                work.cancel()


async def afinished(
    start: AStart, queries: Iterable[str] | AsyncIterable[str], concurrency: int = 8
) -> AsyncGenerator[tuple[int, Outcome[Any]], None]:
    """`finished` on the running event loop; what stops it cancels the runs, and waits for their ends."""
    waiting = _each(_checked(queries, concurrency))
    upcoming: asyncio.Task[str | None] | None = None
    runs: dict[asyncio.Task[Outcome[Any]], int] = {}
    begun, is_over = 0, False
    try:
        while True:
            if upcoming is None and not is_over and len(runs) < concurrency:
                upcoming = asyncio.create_task(_next(waiting))
            if not runs and upcoming is None:
                return
            watched = [*runs] if upcoming is None else [*runs, upcoming]
            done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if upcoming is not None and upcoming in done:
                query, upcoming = upcoming.result(), None
                is_over = query is None
                if query is not None:
                    runs[asyncio.create_task(_awork(start, query))] = begun
                    begun += 1
            for run in [run for run in runs if run in done]:
                yield runs.pop(run), run.result()
    finally:
        left = [*runs] if upcoming is None else [*runs, upcoming]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)  # each run closes itself
        await waiting.aclose()


async def _next(waiting: AsyncGenerator[str, None]) -> str | None:
    return await anext(waiting, None)


def _arrival(arrived: "_Arrived") -> tuple[int, Any]:
    while True:
        with suppress(Empty):
            return arrived.get(timeout=POLL_SECONDS)


_Arrived: TypeAlias = "SimpleQueue[tuple[int, Any]]"
_STOPPED = -1
"""Stands in the place of a place with an exception that stops them all."""


def _work(start: Start, place: int, query: str, arrived: _Arrived) -> None:
    outcome: Result[Any] | BaseException = RunError("the run was stopped")
    try:
        with closing(start(query)) as events:
            for event in events:
                if is_cancelled():
                    return
                if isinstance(event, RunFinished):
                    outcome = event.result
    except Exception as error:
        outcome = error
    except BaseException as error:
        place, outcome = _STOPPED, error
    arrived.put((place, outcome))


async def _awork(start: AStart, query: str) -> Outcome[Any]:
    outcome: Outcome[Any] = RunError("the run was stopped")
    try:
        async with aclosing(start(query)) as events:
            async for event in events:
                if isinstance(event, RunFinished):
                    outcome = event.result
    except Exception as error:
        outcome = error
    return outcome


async def _each(queries: Iterable[str] | AsyncIterable[str]) -> AsyncGenerator[str, None]:
    if isinstance(queries, AsyncIterable):
        async for query in queries:
            yield query
    else:
        for query in queries:
            yield query


def _checked(queries: Queries, concurrency: int) -> Queries:
    if isinstance(queries, str):
        raise RunError(f"the queries are one text: give a list of them, agent.map([{queries!r:.40}])")
    if concurrency < 1:
        raise RunError(f"concurrency is how many queries are answered at a time, at least 1, not {concurrency!r}")
    return queries


def _length(queries: object) -> int | None:
    return len(queries) if isinstance(queries, Sized) else None
