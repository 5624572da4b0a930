"""Many queries, several at a time: each is a run of its own, and one that fails does not stop the others.

Queries are read only as fast as they are answered, so an iterator may be endless or expensive.  An interrupt, a
cancelled task or a loop that is left cancels all runs.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Generator, Iterable, Iterator, Sized
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar, Unpack

from ..core.background import check_event_loop, iterate_blocking, run_coroutine, run_in_thread
from ..core.errors import DefinitionError, InnerPaused, RunError
from ..core.lazy_names import open_door
from ..core.parts import Query
from ..engine.result import Result
from ..sessions.session import Session
from ..views.notebook import explain_interrupt
from ..views.progress_bar import ProgressBar
from .map_batches import Batch, map_in_batches
from .options import RunRequest, UserQuery, check_names, read_user_query
from .runner import areach_result
from .spec import Agent, AgentSpec

T = TypeVar("T")
E = TypeVar("E")
MAP_INTERRUPTED = (
    "Interrupted. No outcome is kept: agent.map(queries) starts again, and agent.imap(queries) yields each outcome "
    "as soon as it is there."
)
BATCHES_INTERRUPTED = (
    "Interrupted. The journal keeps the runs, and the provider its batches: the same agent.map(queries, batch=...) "
    "continues them."
)
JOURNALED_MAP_INTERRUPTED = (
    "Interrupted. The outcomes are not returned, but the journal keeps the runs that have begun: agentkit runs lists "
    "them. agent.map(queries) starts again, and agent.imap(queries) yields each outcome as soon as it is there."
)
ITERATION_INTERRUPTED = "Interrupted. The outcomes that arrived are kept: repeat this with the other queries."
Queries: TypeAlias = Iterable[Query] | AsyncIterable[Query]
Outcome: TypeAlias = Result[T] | Exception
"""The result of one query, or the exception that its run raised (a `RunError` has history and usage)."""


class BatchWorkers(Protocol):
    """Workers in other processes that answer queries; `agentkit.dbos.Workers` are some."""

    async def collect(
        self, agent: Any, queries: Iterable[Query], progress: Callable[[Outcome[Any]], None]
    ) -> list[Outcome[Any]]:
        """Return the outcomes of all queries in their order, and call `progress` with each."""
        ...


class MapOptions(TypedDict, total=False):
    """Options of `JsonAgent.map`.

    `concurrency` is the number of queries at a time (default: 8).  `progress` shows a bar; by default on a terminal and
    in a notebook.  `workers` is the database of `agentkit worker` processes that have this agent as "agent", or
    `agentkit.dbos.Workers(url, agent="name")`.  The batch is then spread over them, with their own concurrency.
    `batch=True` sends the requests as batches of the provider, which cost about half and take up to a day.  A `Batch`
    has settings.  All runs go side by side, and the agent needs a journal.
    """

    concurrency: int
    progress: bool | None
    workers: str | BatchWorkers | None
    batch: bool | Batch


async def collect_outcomes(agent: Agent, queries: Queries, **how: Unpack[MapOptions]) -> list[Outcome[Any]]:
    """Return the outcomes of all queries in their order."""
    check_names("map", how, MapOptions.__optional_keys__)
    concurrency = how.get("concurrency", 8)
    progress = how.get("progress")
    workers = how.get("workers")
    batch = how.get("batch", False)
    if not isinstance(batch, bool | Batch):
        raise DefinitionError(f"map: batch must be True, False or Batch(...), got {batch!r:.80}")
    if batch and workers is not None:
        raise DefinitionError("map: batch= and workers= exclude each other. Leave one of them out.")
    outcomes: dict[int, Outcome[Any]] = {}
    with (
        explain_interrupt(_interruption_of(agent, how)),
        ProgressBar(len(queries) if isinstance(queries, Sized) else None, progress) as bar,
    ):
        if workers is not None:
            _check(queries, concurrency)
            found: BatchWorkers = open_door("workers")(workers) if isinstance(workers, str) else workers
            if not hasattr(found, "collect"):
                raise RunError(
                    f"workers must be the URL of a database or agentkit.dbos.Workers(...), got {found!r:.80}"
                )
            listed = [query async for query in _iterate(queries)]
            return await found.collect(agent, listed, lambda one: bar.advance(failed=isinstance(one, Exception)))
        if batch:
            _check(queries, concurrency)
            check_event_loop("agent.map, queries")
            listed = [query async for query in _iterate(queries)]
            settings = batch if isinstance(batch, Batch) else Batch()

            async def run(spec: AgentSpec, request: RunRequest, query: UserQuery | None) -> Result[Any] | BaseException:
                outcome = await _finish(spec, request, query)
                bar.advance(failed=isinstance(outcome, BaseException))
                return outcome

            return await map_in_batches(agent, listed, settings, run, lambda state: bar.note(str(state)))
        async with aclosing(iterate_outcomes(agent, queries, concurrency)) as arriving:
            async for place, outcome in arriving:
                outcomes[place] = outcome
                bar.advance(failed=isinstance(outcome, Exception))
    return [outcomes[place] for place in range(len(outcomes))]


async def iterate_outcomes(
    agent: Agent, queries: Queries, concurrency: int = 8
) -> AsyncGenerator[tuple[int, Outcome[Any]], None]:
    """Yield outcomes as they arrive, with their queries' indices; closing ends all runs and waits for them.

    In a tool call a run that paused pauses the enclosing run, when the others have ended: `InnerPaused` is raised.
    """
    _check(queries, concurrency)
    check_event_loop("agent.map, queries")
    async with aclosing(iterate_concurrently(partial(_run, agent), queries, concurrency)) as arriving:
        async for outcome in arriving:
            yield outcome


async def iterate_concurrently(
    run: Callable[[E], Coroutine[Any, Any, T | BaseException]],
    items: Iterable[E] | AsyncIterable[E],
    concurrency: int,
) -> AsyncGenerator[tuple[int, T | Exception], None]:
    """Run a function of each item, several at a time; yield its outcomes as they arrive, with the items' indices.

    Items are read only as fast as they are used.  Closing cancels the runs and waits for them.

    Args:
        run: Returns an outcome, or the exception that ended it; one that is no `Exception` is raised.
        items: The items.
        concurrency: The number of runs at a time.

    Raises:
        InnerPaused: An outcome was this exception; the others have ended.
    """
    waiting = _iterate(items)
    upcoming: asyncio.Task[tuple[E, ...]] | None = None
    runs: dict[asyncio.Task[T | BaseException], int] = {}
    started = 0
    is_over = False
    pauses = list[InnerPaused]()
    try:
        with explain_interrupt(ITERATION_INTERRUPTED):
            while True:
                if upcoming is None and not is_over and len(runs) < concurrency:
                    upcoming = asyncio.create_task(_next(waiting))
                if not runs and upcoming is None:
                    if pauses:
                        raise pauses[0]
                    return
                watched = [*runs] if upcoming is None else [*runs, upcoming]
                done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                if upcoming is not None and upcoming in done:
                    found = upcoming.result()
                    upcoming = None
                    is_over = not found
                    for item in found:
                        runs[asyncio.create_task(run(item))] = started
                        started += 1
                for ended in [task for task in runs if task in done]:
                    place = runs.pop(ended)
                    outcome = ended.result()
                    if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                        raise outcome
                    if isinstance(outcome, InnerPaused):
                        pauses.append(outcome)
                    else:
                        yield place, outcome
    finally:
        unfinished = [*runs] if upcoming is None else [*runs, upcoming]
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)  # each run closes itself
        await waiting.aclose()


def _interruption_of(agent: Agent, how: MapOptions) -> str:
    """Return what is kept of a map that is interrupted, and how to continue."""
    if agent.spec.journal is None:
        return MAP_INTERRUPTED
    return BATCHES_INTERRUPTED if how.get("batch") else JOURNALED_MAP_INTERRUPTED


def collect_blocking(agent: Agent, queries: Iterable[Query], **how: Unpack[MapOptions]) -> list[Outcome[Any]]:
    """Do `collect_outcomes` from blocking code."""
    with explain_interrupt(_interruption_of(agent, how)):
        return run_coroutine(collect_outcomes(agent, _read_in_thread(queries), **how))


def iterate_outcomes_blocking(
    agent: Agent, queries: Iterable[Query], concurrency: int
) -> Generator[tuple[int, Outcome[Any]], None, None]:
    """Do `iterate_outcomes` from blocking code."""
    with explain_interrupt(ITERATION_INTERRUPTED):
        yield from iterate_blocking(iterate_outcomes(agent, _read_in_thread(queries), concurrency))


def _read_in_thread(queries: Iterable[Query]) -> Queries:
    """Return queries that do not block an event loop: an iterator that may wait is read in a worker thread."""
    return _read(queries) if isinstance(queries, Iterator) else queries


async def _read(queries: Any) -> AsyncGenerator[Query, None]:
    end = object()
    while (query := await run_in_thread(partial(next, queries, end))) is not end:
        yield query


async def _next(waiting: AsyncGenerator[E, None]) -> tuple[E, ...]:
    """Return the next item alone; nothing at the end."""
    try:
        return (await anext(waiting),)
    except StopAsyncIteration:
        return ()


async def _run(agent: Agent, query: Query) -> Result[Any] | BaseException:
    try:
        asked = read_user_query(query)
    except Exception as error:
        return error
    return await _finish(agent.spec, RunRequest(Session()), asked)


async def _finish(spec: AgentSpec, request: RunRequest, query: UserQuery | None) -> Result[Any] | BaseException:
    """Return the outcome of a run; an interrupt is returned too, because asyncio would stop the loop with it."""
    try:
        return await areach_result(spec, request, query)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return error


async def _iterate(items: Iterable[E] | AsyncIterable[E]) -> AsyncGenerator[E, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def _check(queries: Queries, concurrency: int) -> None:
    if isinstance(queries, str):
        raise RunError(f"queries: expected a list of texts, got one text. Write agent.map([{queries!r:.40}])")
    if not isinstance(queries, Iterable | AsyncIterable):
        raise RunError(f"queries must be a list of texts, got {type(queries).__name__} {queries!r:.40}")
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise RunError(f"concurrency must be an integer >= 1, got {concurrency!r}")
