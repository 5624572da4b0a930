"""A worker: a process that takes runs of its agents from the queue.

It runs an agent as a workflow: it begins or continues the run in the journal, until the run has an outcome.  All state
is in the journal, so the workflow has one body without steps of its own.  The lease of the conversation there admits
one worker at a time; any other waits.

Twice a second a worker shows that it is alive, stops cancelled runs, and takes over the runs of dead workers.  It holds
a lease named after it.  The database ends the lease with the worker's connection, so a worker whose lease is free and
that has shown nothing for some seconds, by the clock of the database, is dead; one that has just started sees that at
once.  A process that stands still keeps its connection: after `FROZEN_SECONDS` the others end it, and when the worker
wakes, its lease is lost and it writes nothing.
"""

import asyncio
import logging
import math
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any, TypeAlias

from .. import DefinitionError, JsonAgent, ModelError, Paused, Result, RunError, RunStopped, Session
from ..events import Event, SubRun, ToolFinished
from ..extend import (
    ConversationBusy,
    JournaledConversation,
    JournalError,
    Lease,
    LeaseLost,
    RunFilter,
    Store,
    read_answers,
    read_setup,
    run_in_thread,
)
from .database import (
    WRITE_SECONDS,
    Database,
    EventLog,
    check_url,
    find_superseded,
    is_unreachable,
    list_calls,
    list_in_doubt,
    lock_key,
    queue_of,
    refuse_pickle,
)
from .queue_tables import (
    APPLICATION_NAME,
    SCHEDULED,
    WORKFLOW,
    QueuedRun,
    check_queue_text,
    encode_outcome,
    error_outcome,
    result_outcome,
    run_of_schedule,
    session_options,
)

MIN_WAIT = 0.1
MAX_WAIT = 5.0
"""Seconds before a run is tried again."""


class Execution:
    """The runs that a worker executes, on one event loop."""

    def __init__(self, worker: str, agents: Mapping[str, JsonAgent[Any]], database: Database, events: EventLog) -> None:
        self.worker = worker
        self._agents = agents
        self._database = database
        self._events = events
        self.active: dict[str, Session | None] = {}
        """The sessions by workflows; None for one whose run has not begun."""
        self._stopped: set[str] = set()
        self._last_chance = asyncio.Lock()
        """Held by a run that is dead if this worker dies in its calls, until one of them ends: of several runs that
        were in calls when workers died, one may be the cause, so they are not tried together."""

    def stop(self, workflow: str) -> None:
        """Stop a run that the worker executes."""
        self._stopped.add(workflow)
        if (session := self.active.get(workflow)) is not None:
            session.stop("cancelled")

    async def execute(self, workflow: str, work: QueuedRun) -> dict[str, Any]:
        """Return the outcome of a piece of work; raise DBOS's error for a run that was stopped."""
        self.active[workflow] = None
        try:
            with ExitStack() as chance:
                outcome = await self._attempt(workflow, work, chance)
        finally:
            del self.active[workflow]
            is_stopped = workflow in self._stopped
            self._stopped.discard(workflow)
        if work.session:
            with suppress(JournalError):  # else the next look admits it
                await run_in_thread(lambda: self._database.tables.admit(work.session, ended=workflow))
        if is_stopped:  # DBOS has its outcome already
            raise import_module("dbos").error.DBOSWorkflowCancelledError(f"run {work.run} was cancelled")
        return {**outcome, "worker": self.worker}

    async def _attempt(self, workflow: str, work: QueuedRun, chance: ExitStack) -> dict[str, Any]:
        """Run until there is an outcome: waits for the conversation and for the database are not attempts."""
        reason = "its worker died"
        wait = MIN_WAIT
        is_begun = False
        while True:
            try:
                if not is_begun:
                    chance.close()
                    failed, is_repeated = await run_in_thread(lambda: self._failed_attempts(workflow, work.run))
                    if len(failed) >= work.attempts:
                        error = f"{work.attempts} attempts failed: {reason} (workers: {', '.join(failed)})"
                        return await self._end({"state": "dead", "error": error}, work)
                    if failed and failed[-1] != self.worker and len(failed) == work.attempts - 1:
                        await self._last_chance.acquire()
                        chance.callback(self._last_chance.release)
                        if workflow in self._stopped:
                            break
                    await run_in_thread(lambda: self._database.own.add_attempt(workflow, self.worker, time.time()))
                    is_begun = True
                return await self._run(workflow, work, chance, is_repeated=is_repeated)
            except (ConversationBusy, LeaseLost):
                pass
            except JournalError as error:
                if not is_unreachable(error):
                    return await self._end(error_outcome(error), work)
            except ModelError as error:
                reason = f"{type(error).__name__}: {error}"
                is_begun = False
            except RunError as error:  # the session has a name that no session can have
                return await self._end(error_outcome(error), work)
            if workflow in self._stopped:
                break
            await asyncio.sleep(wait)
            wait = min(2 * wait, MAX_WAIT)
        return await self._end(error_outcome(RunStopped("cancelled")), work)

    def _failed_attempts(self, workflow: str, run: str) -> tuple[list[str], bool]:
        """Judge the attempts before this one.

        Returns:
            The workers of the failed attempts that use up the run's, and whether there was any before.  Since an
            attempt in which a call began and ended has brought the run on, those before it do not count any more.  One
            whose worker died outside of the run's calls counts a tenth: the run can hardly be the cause.
        """
        store = self._database.store
        own = self._database.own
        attempts = own.attempts(workflow)
        if attempts and attempts[-1][0] != self.worker and not self._has_open_call(run, attempts[-1][1]):
            own.mark_attempt(workflow, attempts[-1][1])
            attempts[-1] = (attempts[-1][0], -abs(attempts[-1][1]))
        calls = calls_of_run(store, run) if attempts else []
        failed = list[str]()
        outside = list[str]()
        for (worker, begun), (_, end) in pairwise([*attempts, ("", time.time())]):
            if any(abs(begun) <= start and stop <= abs(end) for start, stop in calls):
                failed.clear()
                outside.clear()
            else:
                (failed if begun > 0 else outside).append(worker)
        return [*failed, *outside[9::10]], bool(attempts)

    def _has_open_call(self, run: str, since: float) -> bool:
        """Return whether a call that began in the attempt since that time has no outcome."""
        return any(call.ended is None and call.begun >= since for call in list_calls(self._database.store, run))

    async def _end(self, outcome: Mapping[str, Any], work: QueuedRun, changes: Sequence[str] = ()) -> dict[str, Any]:
        """Return the outcome with the calls in doubt, and with how the agent differs from the one that began."""
        in_doubt = await run_in_thread(lambda: list_in_doubt(self._database.store, work.run))
        named: dict[str, Any] = {"changes": [*changes], "in_doubt": in_doubt}
        if outcome["state"] == "failed":
            later = await run_in_thread(lambda: find_superseded(self._database.store, [work.run]))
            named["state"] = "superseded" if later else ""
        return {**outcome, **{name: found for name, found in named.items() if found}}

    async def _run(self, workflow: str, work: QueuedRun, chance: ExitStack, *, is_repeated: bool) -> dict[str, Any]:
        session, changes = await run_in_thread(lambda: self._open(work))
        is_new = session.journaled is not None and bool(session.journaled.next_run)
        query = work.query if is_new else None
        self.active[workflow] = session
        try:
            result = await self._answer(work, session, query, chance, is_repeated=is_repeated)
            outcome = result_outcome(result)
        except RunError as error:
            if isinstance(error, JournalError) or (isinstance(error, ModelError) and error.transient):
                raise
            if isinstance(error, Paused):
                error.run_id = work.run
            outcome = error_outcome(error)
        is_simple = is_new and outcome["state"] == "finished"
        return outcome if is_simple else await self._end(outcome, work, changes)

    async def _answer(
        self, work: QueuedRun, session: Session, query: str | None, chance: ExitStack, *, is_repeated: bool
    ) -> Result[Any]:
        """Run the agent; give the decisions again that a worker that died had not used."""
        loop = asyncio.get_running_loop()

        def note_progress(event: Event) -> None:
            while isinstance(event, SubRun):
                event = event.event
            if isinstance(event, ToolFinished) and event.result.seconds:  # 0 of a call that was not made
                loop.call_soon_threadsafe(chance.close)

        events = await run_in_thread(lambda: self._events.open(work.run))
        try:
            while True:
                waiting = session.pending
                answers = {entry.id: work.answers[entry.id] for entry in waiting if entry.id in work.answers}
                try:
                    read_answers(answers, waiting)
                except (RunError, DefinitionError) as error:
                    still = Paused(f"{error} The run waits for another one.")
                    still.pending = waiting
                    raise still from error
                try:
                    return await self._agents[work.agent].arun(
                        query,
                        session=session,
                        journal=self._database.journal,
                        listeners=[events.listen, note_progress],
                        answers=answers,
                    )
                except Paused as pause:
                    given = {entry.id for entry in pause.pending} & work.answers.keys()
                    if not (is_repeated and given - answers.keys()):
                        raise
                    query = None
        finally:
            while not await asyncio.shield(run_in_thread(lambda: self._events.close(events))):
                await asyncio.sleep(MIN_WAIT)  # a client that sees the outcome asks for no more events

    def _open(self, work: QueuedRun) -> tuple[Session, list[str]]:
        """Return the conversation of the work, and how the agent differs from the one that began the run."""
        journal = self._database.journal
        store = self._database.store
        if store.runs(RunFilter(ids=[work.run])):
            session = Session.resumed(work.run, journal, changed="go on")
            begun = read_setup(store, work.run)
            return session, [] if begun is None else begun.changes(self._agents[work.agent].spec.setup())
        session = Session.open(work.session, journal) if work.session else Session()
        session.journaled = session.journaled or JournaledConversation(journal)
        session.journaled.next_run = work.run
        return session, []


def calls_of_run(store: Store, run: str) -> list[tuple[float, float]]:
    """Return when the calls that have ended began and ended, those of agents inside them too."""
    inner = [found for entry in store.runs(RunFilter(inside=run)) for found in calls_of_run(store, entry.id)]
    return [*((call.begun, call.ended) for call in list_calls(store, run) if call.ended is not None), *inner]


BEAT_SECONDS = 0.5
"""Seconds between two signs of life."""
QUIET_SECONDS = 2.0
"""Seconds without a sign of life after which a worker whose lease is free is dead."""
FROZEN_SECONDS = 10.0
"""Seconds without a sign of life after which the connection of a worker is ended."""
KEPT_EVENT_SECONDS = 86_400.0
"""Seconds for which the events of a run are kept."""
PRUNE_SECONDS = 600.0
OLD_BEATS = 1 << 40
"""A smaller number is not a time in milliseconds, but a count, as a worker of an older version writes it."""


class Watch:
    """The signs of life of this worker, and its view of the others."""

    def __init__(self, database: Database, worker: str, lease: Lease) -> None:
        self._database = database
        self._worker = worker
        self._lease = lease
        self._begun = self._since = self._last = time.monotonic()
        """The times of the beginning, of the end of the last standstill, and of the last look."""
        self._pruned = 0.0
        database.own.add_beat(worker, socket.gethostname(), lease)

    def beat(self, execution: Execution) -> None:
        """Do once what is done twice a second.

        Raises:
            LeaseLost: Others have taken this worker for dead; it must end.
        """
        now = time.monotonic()
        if now - self._last > QUIET_SECONDS:  # this worker or the database stood still
            self._since = now
        self._database.own.beat(self._worker, self._lease)
        if execution.active:
            for found in import_module("dbos").DBOS.list_workflows(
                workflow_ids=[*execution.active], status="CANCELLED", load_input=False, load_output=False
            ):
                execution.stop(found.workflow_id)
        self._take_over()
        self._database.tables.admit()
        self._prune()
        self._last = time.monotonic()

    def end(self) -> None:
        """Remove the signs of life of this worker, which ends."""
        with suppress(JournalError):
            self._database.own.remove_beat(self._worker, self._lease)

    def _take_over(self) -> None:
        """Take over the runs of dead workers; after a standstill the others have some seconds to show themselves."""
        others = [worker for worker in self._database.tables.workers() if worker != self._worker]
        now = time.monotonic()
        has_stood_still = self._since != self._begun
        if not others or (has_stood_still and now - self._since < QUIET_SECONDS):
            return
        beats = self._database.own.beats()
        quiet = {worker: (milliseconds / 1000, beat > OLD_BEATS) for worker, beat, milliseconds in beats}
        for worker in others:
            seconds, is_time = quiet.get(worker, (QUIET_SECONDS, False))
            if seconds >= QUIET_SECONDS:
                is_frozen = is_time and min(seconds, now - self._since) >= FROZEN_SECONDS
                self._try_to_take(worker, is_frozen=is_frozen)

    def _try_to_take(self, worker: str, *, is_frozen: bool) -> None:
        store = self._database.store
        key = lock_key(worker)
        try:
            lease = store.take(key, f"worker {worker}")
        except ConversationBusy:
            if is_frozen:
                store.end_holder(key)
            return
        try:
            self._database.tables.release(worker)
            self._database.own.remove_beat(worker)
        finally:
            lease.release()

    def _prune(self) -> None:
        if time.monotonic() - self._pruned > PRUNE_SECONDS:
            self._pruned = time.monotonic()
            self._database.own.prune_events(time.time() - KEPT_EVENT_SECONDS)


Rate: TypeAlias = tuple[int, float]
"""The number of runs that may begin in a number of seconds."""
QUEUE_POLL_SECONDS = 0.2
"""Seconds between two looks into a queue."""
LOST = 75
"""The exit code of a worker that others have taken for dead (EX_TEMPFAIL: start it again)."""


class Worker:
    """Executes runs from the queues of its agents; one in a process.

    Args:
        agents: The agents by the names under which runs are submitted.
        url: The database: `postgresql://...`, or `sqlite:///runs.db` on one machine.
        concurrency: Runs of each agent at the same time in this worker.
        total: Runs of each agent at the same time in all workers; None for no limit.
        rate: Runs of each agent that may begin in a time, in all workers: `(100, 60.0)` for 100 a minute.
        per_key: Runs with the same key at the same time, in all workers.
        key_rate: Runs with the same key that may begin in a time.

    The limits are those of the queue: the worker that started last sets them for all.

    Raises:
        DefinitionError: An agent or a limit is not valid, or a package is not installed.
    """

    def __init__(
        self,
        agents: Mapping[str, JsonAgent[Any]],
        url: str,
        *,
        concurrency: int = 8,
        total: int | None = None,
        rate: Rate | None = None,
        per_key: int | None = None,
        key_rate: Rate | None = None,
    ) -> None:
        _check_agents(agents)
        check_url(url)
        for option, rate_given in (("rate", rate), ("key_rate", key_rate)):
            _check_rate(option, rate_given)
        for option, limit in (("concurrency", concurrency), ("total", total), ("per_key", per_key)):
            is_missing = limit is None and option != "concurrency"
            if not is_missing and not (isinstance(limit, int) and limit >= 1):
                raise DefinitionError(f"Worker: {option} must be an integer >= 1, got {limit!r:.60}")
        if per_key is not None and total is not None and per_key > total:
            raise DefinitionError(f"Worker: per_key must be at most total, got {per_key} and {total}")
        self.name = f"{socket.gethostname()[:30]}-{os.getpid()}-{secrets.token_hex(3)}"
        self._agents = dict(agents)
        self._url = url
        concurrency = min(concurrency, total or concurrency)
        self._limits: dict[str, Any] = {
            "worker_concurrency": concurrency,
            "global_concurrency": total,
            "limiter": _limiter(rate),
            "partition_limiter": _limiter(key_rate),
            # one limit of this kind must be set, so that each key has a partition of its own
            "partition_concurrency": per_key,
            "partition_worker_concurrency": None if per_key else concurrency,
        }
        self._is_stopped = False
        self._ended = threading.Event()

    def stop(self) -> None:
        """End `serve`, from any thread or signal handler."""
        self._is_stopped = True  # no event: a signal handler may interrupt another one that holds its lock

    def serve(self, *, grace: float = 30.0, ready: Callable[[], None] = lambda: None) -> None:
        """Execute runs until `stop`; then wait for those in progress for `grace` seconds and end.

        Runs that are not finished then are continued by other workers.  A worker that the others have taken for dead
        ends the process with the code 75, so that it is started again.

        Raises:
            DefinitionError: The time is not a number of seconds.
            JournalError: The database cannot be opened.
        """
        if not isinstance(grace, int | float) or not 0 <= grace < math.inf:
            raise DefinitionError(f"Worker.serve: grace must be a number of seconds >= 0, got {grace!r:.60}")
        library = import_module("dbos")
        refuse_pickle(in_process=True)
        database = Database.open(self._url)
        lease = database.store.take(lock_key(self.name), f"worker {self.name}")
        events = EventLog(database, lease)
        execution = Execution(self.name, self._agents, database, events)
        watch = Watch(database, self.name, lease)
        self._launch(library, database, execution)
        for action, seconds in ((partial(watch.beat, execution), BEAT_SECONDS), (events.write, WRITE_SECONDS)):
            threading.Thread(target=self._repeat, args=(action, seconds), daemon=True).start()
        try:
            ready()
            while not self._is_stopped:
                time.sleep(QUEUE_POLL_SECONDS)
        finally:
            library.DBOS.destroy(workflow_completion_timeout_sec=max(0, int(grace)))
            self._ended.set()
            watch.end()
            lease.release()
            database.close()

    def _launch(self, library: Any, database: Database, execution: Execution) -> None:
        config = {
            "name": APPLICATION_NAME,
            "system_database_url": database.queue,
            "application_version": APPLICATION_NAME,
            "executor_id": self.name,
            "serializer": library.DBOSPortableJSONSerializer(),
            "log_level": "WARNING",
            "scheduler_polling_interval_sec": 1.0,
        }
        dbos = library.DBOS
        dbos(config=config)
        logging.getLogger("dbos").addFilter(_is_no_stop)

        @dbos.workflow(name=WORKFLOW, max_recovery_attempts=None)  # type: ignore[untyped-decorator]
        async def run(text: str) -> str:
            return encode_outcome(await execution.execute(dbos.workflow_id, QueuedRun.decode(text)))

        @dbos.workflow(name=SCHEDULED)  # type: ignore[untyped-decorator]
        def begin_scheduled(_: Any, context: dict[str, Any]) -> None:
            run_id = run_of_schedule(str(dbos.workflow_id))
            work = QueuedRun.decode(context["work"])
            options = {**context["options"], **session_options(work.session), "workflow_id": run_id}
            dbos.enqueue_workflow_with_options(options, replace(work, run=run_id).encode())

        dbos.listen_queues([queue_of(name) for name in self._agents])
        dbos.launch()
        if self._is_stopped:  # its limits would replace those of the workers that are started in its place
            return
        for name in self._agents:
            dbos.register_queue(
                queue_of(name), polling_interval_sec=QUEUE_POLL_SECONDS, on_conflict="always_update", **self._limits
            )

    def _repeat(self, action: Callable[[], None], seconds: float) -> None:
        """Perform an action again and again until the worker has ended; a lost lease ends the process at once."""
        while True:
            try:
                action()
            except LeaseLost:  # other workers have its runs
                sys.stderr.write(f"agentkit: worker {self.name} was taken for dead, so it ends. Start it again.\n")
                sys.stderr.flush()
                os._exit(LOST)
            except Exception:  # the database is away: next time
                pass
            if self._ended.wait(seconds):
                return


def _check_agents(agents: Any) -> None:
    """Raise `DefinitionError` unless there are agents, each with the name of a queue."""
    if not isinstance(agents, Mapping) or not agents:
        got = type(agents).__name__ if agents else repr(agents)
        raise DefinitionError(f'Worker: expected agents by their names, got {got:.60}. Give {{"agent": agent}}')
    for name, agent in agents.items():
        if not isinstance(agent, JsonAgent):
            raise DefinitionError(f"Worker: {name!r} must be a JsonAgent, got {type(agent).__name__}")
        try:
            check_queue_text("the name of an agent", name)
        except RunError as error:
            raise DefinitionError(f"Worker: {error}") from error


def _check_rate(option: str, rate: Any) -> None:
    """Raise `DefinitionError` unless a rate is a number of runs and a time."""
    match rate:
        case None:
            return
        case (int(number), int() | float() as seconds) if number >= 1 and 0 < seconds < math.inf:
            return
    raise DefinitionError(
        f"Worker: {option} must be a number >= 1 and seconds > 0, got {rate!r:.60}. (100, 60.0) is 100 a minute"
    )


def _is_no_stop(record: logging.LogRecord) -> bool:
    """Return whether a record of DBOS is other than the traceback that it logs of a run that was stopped."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, import_module("dbos").error.DBOSAwaitedWorkflowCancelledError)


def _limiter(rate: Rate | None) -> dict[str, float] | None:
    return None if rate is None else {"limit": rate[0], "period": rate[1]}
