"""Many queries through a provider's batches: the runs of all queries go side by side, and each step is one batch.

The map is a run of the journal itself, and its queries are runs inside it; its steps are the batches.  So a call with
the same queries continues what a killed process left: its runs, and the batches that the provider has.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, TypeAlias

from ..core.background import run_in_thread
from ..core.errors import DefinitionError, InnerPaused
from ..core.parts import Query
from ..core.values import frozen
from ..engine.result import Result
from ..models.litellm.batch_forms import BATCH_LINES
from ..sessions.journal.connections import opened_store
from ..sessions.journal.run_info import read_run_records
from ..sessions.journal.store import Journal, RunFilter, Store, encode_json
from ..sessions.journal.writer import JournaledConversation
from ..sessions.records import MAP_ORIGIN, Record, RunBegun, RunConcluded, RunReopened, Step
from ..sessions.session import Session
from .backends import is_model_selector
from .options import RunRequest, UserQuery, read_user_query
from .spec import Agent, AgentSpec

RunOne: TypeAlias = Callable[[AgentSpec, RunRequest, UserQuery | None], Any]
"""Runs a request and returns its result, or the exception that ended it."""
RUNS_STARTING = 16
"""Runs that are read from the journal at a time."""
ID_CHARS = 12
"""Characters of a digest in the id of a map."""


@frozen(slots=False, kw_only=True)
class Batch:
    """How `agent.map(queries, batch=...)` uses the provider's batches.

    Args:
        name: Names the map in the journal: a later call with the name returns the same outcomes.  Default: the queries
            and the agent name it, as long as it has not ended.
        poll_seconds: The most seconds between two questions about the state of a batch.
        max_lines: The most requests of a batch; a step with more is several batches.

    Raises:
        DefinitionError: A value is not one of these.
    """

    name: str = ""
    poll_seconds: float = 30.0
    max_lines: int = BATCH_LINES

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise DefinitionError(f"Batch: name must be a text, got {self.name!r:.80}")
        is_number = isinstance(self.poll_seconds, int | float) and not isinstance(self.poll_seconds, bool)
        if not (is_number and self.poll_seconds > 0):
            raise DefinitionError(f"Batch: poll_seconds must be a number > 0, got {self.poll_seconds!r:.80}")
        if not isinstance(self.max_lines, int) or isinstance(self.max_lines, bool) or self.max_lines < 1:
            raise DefinitionError(f"Batch: max_lines must be an integer >= 1, got {self.max_lines!r:.80}")


async def map_in_batches(
    agent: Agent,
    queries: Sequence[Query],
    batch: Batch,
    run: RunOne,
    report: Callable[[object], None],
) -> list[Any]:
    """Return the outcomes of all queries in their order.

    Args:
        agent: The agent, which has a journal and a model of litellm.
        queries: The queries.
        batch: The settings.
        run: Runs one request; it is called once for each query.
        report: Is called with the progress of the batches.

    Raises:
        DefinitionError: The agent has no journal, or its model no batches.
        ConversationBusy: Another process is at work on the same map.
    """
    from ..models.litellm.batches import BatchModel  # slow to import
    from ..models.litellm.model import LiteLLMModel

    spec = agent.spec
    if (place := spec.journal) is None:
        raise DefinitionError(
            "map: batch= needs a journal, which knows the batches when this process ends before they do. Give one: "
            'JsonAgent(..., journal="runs.db")'
        )
    if is_model_selector(spec.model):
        raise DefinitionError("map: batch= needs one model for all queries, and a function chooses that of this agent.")
    backend, _ = spec.backends.choose(None, spec.fixed_model)
    if not isinstance(backend, LiteLLMModel):
        raise DefinitionError(
            f'map: the model {backend.name!r} has no batches. Name one of a provider, model="openai/gpt-4o-mini", or '
            "leave batch= out."
        )
    if not queries:
        return []
    spec = _without_rates(spec)
    journal = Journal.of(place)
    await run_in_thread(backend.find_route)  # imports litellm
    contents = encode_json([spec.setup().encode(), backend.name, [*map(_content_of, queries)]])
    with ExitStack() as stack:
        store = await run_in_thread(lambda: stack.enter_context(opened_store(journal.path, journal.sync)))
        log = await run_in_thread(partial(_StoredMap, store, batch.name, _digest_of(contents)))
        stack.callback(log.lease.release)
        await run_in_thread(partial(log.begin_map, f"{len(queries):,} queries", f"{backend.name} (batch)"))
        begun = await run_in_thread(log.list_runs)
        model = BatchModel(
            backend,
            log,
            len(queries),
            poll_seconds=batch.poll_seconds,
            max_lines=batch.max_lines,
            report=report,
        )
        starting = asyncio.Semaphore(RUNS_STARTING)

        async def answer(place: int, query: Query) -> Any:
            try:
                make = partial(_begin_run, journal, log.run, place, query, begun)
                async with starting:
                    session, asked = await run_in_thread(make)
                outcome = await run(spec, RunRequest(session, model=model), asked)
            except Exception as error:
                return error
            else:
                if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                    raise _Interrupted(outcome)
                return outcome
            finally:
                model.leave()

        tasks = [asyncio.create_task(answer(place, query)) for place, query in enumerate(queries)]
        try:
            outcomes = await asyncio.gather(*tasks)
        except _Interrupted as error:
            raise error.args[0] from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await model.aclose()
        if pauses := [one for one in outcomes if isinstance(one, InnerPaused)]:
            raise pauses[0]
        if model.has_failed:  # the same call continues what is left, with the replies that were paid for
            await model.end_delivered()
        else:
            await run_in_thread(partial(log.end_map, sum(isinstance(one, Result) for one in outcomes)))
    return outcomes


class _Interrupted(Exception):
    """A run was interrupted, by the argument, which ends the others."""


def _without_rates(spec: AgentSpec) -> AgentSpec:
    """Return the specification without limits on requests at a time and on the time of a reply: a batch has its own."""
    limits = replace(spec.settings.limits, request_seconds=None)
    settings = replace(spec.settings, limits=limits, max_concurrency=None, requests_per_minute=None)
    return replace(spec, settings=settings)


def _content_of(query: Query) -> Any:
    """Return the content of the user message of a query; None for one that is no query, whose run fails."""
    try:
        asked = read_user_query(query)
    except Exception:
        return None
    return asked.message["content"] if asked else None


def _digest_of(text: str) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _begin_run(
    journal: Journal, outer: str, place: int, query: Query, begun: set[str]
) -> tuple[Session, UserQuery | None]:
    """Return the session that begins or continues the run of a query, and the query of one that begins."""
    name = f"{outer}-{place}"
    if name in begun:
        return Session.resumed(name, journal), None
    session = Session()
    session.journaled = JournaledConversation(journal, origin=f"{outer}/{place}", next_run=name)
    return session, read_user_query(query)


class _StoredMap:
    """A map in a journal: its run, and its batches as the steps of that run.

    It has the lease of the map; `ConversationBusy` is raised if another process has it.
    """

    def __init__(self, store: Store, given: str, contents: str) -> None:
        name = _digest_of(given) if given else contents
        self.store = store
        self.name = name[:ID_CHARS]
        """The begin of the ids of its runs, of which each call after the end of one has another."""
        self.contents = contents[:ID_CHARS]
        """The digest of the queries and the agent."""
        self.is_named = bool(given)
        self.run = ""
        self._steps: dict[str, Step] = {}
        self.lease = store.take(int(name[:15], 16), f"the map {given or self.name}")
        self.lease.keep()

    def begin_map(self, query: str, model: str) -> None:
        """Continue the last run of the map, unless it has ended and has no name; else begin a run.

        Raises:
            DefinitionError: It began with other queries, or with another agent.
        """
        runs = self.store.runs(RunFilter(prefix=f"{self.name}.", is_inner=False))
        last = runs[0] if runs else None
        if last is None or (last.status == "finished" and not self.is_named):
            self.run = f"{self.name}.{len(runs) + 1}"
            begin = RunBegun(
                self.run, f"{query} ({self.contents})", model, 0, time.time(), self.lease.key, origin=MAP_ORIGIN
            )
            self.store.append([begin], self.lease)
            return
        self.run = last.id
        if not last.query.endswith(f"({self.contents})"):
            raise DefinitionError(
                f"map: the batch {self.run} began with other queries, or with another agent. Give another name: "
                'batch=Batch(name="...")'
            )
        self.store.append([RunReopened(self.run, self.lease.key)], self.lease)
        self._steps = {step.call: step for step in read_run_records(self.store, self.run).steps}

    def list_runs(self) -> set[str]:
        """Return the ids of the runs of queries that have begun."""
        return {run.id for run in self.store.runs(RunFilter(inside=self.run))}

    def end_map(self, answered: int) -> None:
        """Write the end of the map, and of its last batches."""
        outcome = encode_json({"answer": f"{answered:,} answered", "stopped": "answer"})
        ends = [self._end_of(step) for step in self._steps.values() if step.ended is None]
        end = RunConcluded("finished", outcome, time.time(), 0, self.run, self.lease.key)
        self.store.append([*ends, end], self.lease)

    async def begin(self, batch: str, lines: Sequence[str]) -> None:
        """Write the begin of a batch."""
        step = Step(self.run, len(self._steps) + 1, batch, "batch", 0, encode_json(lines), time.time(), None)
        step.digest = step.compute_digest()
        self._steps[batch] = step
        await self._append(*step.split(self.lease.key))  # it has no outcome yet

    async def note(self, batch: str, facts: Mapping[str, str]) -> None:
        """Write facts about a batch."""
        step = self._steps[batch]
        step.outcome = encode_json(facts)
        await self._append(self._outcome_of(step))

    async def end(self, batch: str) -> None:
        """Write the end of a batch."""
        await self._append(self._end_of(self._steps[batch]))

    async def read_open(self) -> Mapping[str, tuple[Sequence[str], Mapping[str, str]]]:
        """Return the batches without an end, the oldest first."""
        found = sorted((step for step in self._steps.values() if step.ended is None), key=lambda step: step.step)
        return {step.call: (json.loads(step.arguments or "[]"), json.loads(step.outcome or "{}")) for step in found}

    def _end_of(self, step: Step) -> Record:
        step.ended = time.time()
        return self._outcome_of(step)

    def _outcome_of(self, step: Step) -> Record:
        step.outcome = step.outcome or "{}"
        step.digest = step.compute_digest()
        _, ended = step.split(self.lease.key)
        return ended

    async def _append(self, *records: Record) -> None:
        await run_in_thread(partial(self.store.append, records, self.lease))
