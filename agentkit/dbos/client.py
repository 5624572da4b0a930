"""Submit runs to workers and follow them; a client needs no code of the agents.

`agent.map(queries, workers=...)` submits many queries to all workers in this way.
"""

import asyncio
import contextlib
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any, TypeVar

from .. import JsonAgent, Result, RunError
from ..extend import Journal, JournalError, RunFilter, run_in_thread
from .database import (
    Database,
    complete_status,
    find_superseded,
    is_unreachable,
    json_only,
    queue_error,
    queue_of,
    refuse_pickle,
)
from .handle import AWAY_SECONDS, STATES, STATUS_SECONDS, STATUSES, RunHandle, RunStatus, answer_of, read_status
from .queue_tables import (
    APPLICATION_NAME,
    CONTINUED,
    DEFAULT_ATTEMPTS,
    DEFAULT_PRIORITY,
    NO_KEY,
    SCHEDULED,
    VALID_RUN_ID,
    WORKFLOW,
    QueuedRun,
    check_delay,
    check_integer,
    check_queue_text,
    check_run_id,
    run_of,
    run_of_schedule,
    session_options,
)

T = TypeVar("T")
MAX_IDS = 500
"""Runs whose states one query reads."""


class Client:
    """Submits runs to the workers of a database.

    Args:
        url: The database: `postgresql://...`, or `sqlite:///runs.db` on one machine.

    Raises:
        DefinitionError: It is no such URL, or a package is not installed.
        JournalError: The database cannot be opened.
    """

    def __init__(self, url: str) -> None:
        self._database = Database.open(url)
        library = import_module("dbos")
        refuse_pickle()
        self._dbos = library.DBOSClient(
            system_database_url=self._database.queue,
            serializer=library.DBOSPortableJSONSerializer(),
            application_name=APPLICATION_NAME,
            retry_connection_errors=False,
        )

    def submit(
        self,
        agent: str,
        query: str,
        *,
        session: str = "",
        priority: int = DEFAULT_PRIORITY,
        key: str = "",
        id: str = "",
        attempts: int = DEFAULT_ATTEMPTS,
        delay: float = 0.0,
    ) -> RunHandle:
        """Put a run into the queue of an agent.

        Args:
            agent: The name under which the workers have the agent.
            query: The question.
            session: The name of a conversation that the run continues; its runs follow each other as submitted.
            priority: Runs with a lower number begin first, among those of a key; from 1.
            key: Whose run it is: keys take turns, and have limits of their own.
            id: The id of the run.  A second run with the id is not begun: the handle is that of the first.
            attempts: How often a worker may begin with it before it is "dead".
            delay: Seconds before it may begin.

        Raises:
            RunError: An argument is not valid.
            JournalError: The database cannot be reached.
        """
        check_delay(delay)
        work = QueuedRun(agent, id or secrets.token_hex(6), query, session, attempts)
        options = {**_options(work, priority, key), **session_options(session, delay), "workflow_id": work.run}
        self._perform(lambda: self._dbos.enqueue(options, work.encode()))
        if session:
            self._database.tables.admit(session)
        return RunHandle(self, work.run)

    async def asubmit(self, agent: str, query: str, **how: Any) -> RunHandle:
        """Do `submit` on the running event loop."""
        return await run_in_thread(partial(self.submit, agent, query, **how))

    def run(self, id: str) -> RunHandle:
        """Return the handle of a run that was submitted before; raise `RunError` for what cannot be its id."""
        check_run_id(id)
        return RunHandle(self, id)

    def runs(self, *, limit: int | None = 100, state: str = "") -> list[RunStatus]:
        """Return the states of runs, the newest first.

        Args:
            limit: The number of runs; None for all.
            state: Return only runs in this state, see `RunStatus`.

        Raises:
            RunError: There is no such state, or the limit is not valid.
        """
        if limit is not None and not (isinstance(limit, int) and limit >= 0):
            raise RunError(f"limit must be an integer >= 0 or None, got {limit!r:.60}")
        if state not in ("", *STATES):
            raise RunError(f"state: {state!r} is not the state of a run. States: {', '.join(STATES)}")
        size = MAX_IDS if state or limit is None else min(limit, MAX_IDS)
        found = list[RunStatus]()
        seen = set[str]()
        for start in count(0, size):
            page = self._list(
                name=WORKFLOW,
                status=STATUSES.get(state),
                sort_desc=True,
                limit=size,
                offset=start,
                load_input=False,
                load_output=False,
            )
            new = dict.fromkeys(run for one in page if (run := run_of(one.workflow_id)) not in seen)
            seen.update(new)
            found += [status for status in self.states(new) if state in ("", status.state)]
            if len(page) < size or (limit is not None and len(found) >= limit):
                break
        return found[:limit]

    def states(self, ids: Iterable[str], *, seconds: float = AWAY_SECONDS) -> list[RunStatus]:
        """Return the states of these runs in their order; one that is not known is missing.

        Args:
            ids: The ids of the runs.
            seconds: How long to wait for a database that cannot be reached.

        Raises:
            RunError: The ids are not several texts.
            JournalError: The database cannot be reached.
        """
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise RunError(f"ids must be a list of the ids of runs, got {ids!r:.60}")
        wanted = [run for run in ids if isinstance(run, str) and VALID_RUN_ID.fullmatch(run)]
        found = defaultdict[str, list[Any]](list)
        for start in range(0, len(wanted), MAX_IDS):
            some = wanted[start : start + MAX_IDS]
            continued = [f"{run}{CONTINUED}" for run in some]
            for one in self._list(seconds, workflow_ids=some):
                found[one.workflow_id].append(one)
            for one in self._list(seconds, workflow_id_prefix=continued):
                found[run_of(one.workflow_id)].append(one)
        read = {run: read_status(found[run]) for run in wanted if run in found}
        paused = [run for run, status in read.items() if status.state == "paused"]
        for run, later in find_superseded(self._database.store, paused).items():
            error = f"its conversation was continued by run {later}" if later else "its conversation was continued"
            read[run] = replace(read[run], state="superseded", error=error, pending=())
        entries = self._database.store.runs(RunFilter(ids=paused)) if paused else ()
        ended = {entry.id for entry in entries if entry.status == "finished"}
        for run, status in read.items():
            if run in ended or (status.state == "stopped" and status.worker):
                read[run] = replace(status, **complete_status(self._database.store, run))
        return [read[run] for run in wanted if run in read]

    def _list(self, seconds: float = AWAY_SECONDS, **which: Any) -> Sequence[Any]:
        def read() -> Sequence[Any]:
            with json_only():
                return list(self._dbos.list_workflows(**which))

        return self._perform(read, seconds)

    def _perform(self, action: Callable[[], T], seconds: float = AWAY_SECONDS) -> T:
        """Perform an action of DBOS; repeat it for some seconds while the database cannot be reached."""
        end = time.monotonic() + seconds
        while True:
            try:
                return action()
            except import_module("sqlalchemy").exc.SQLAlchemyError as error:
                failure = queue_error(self._database.store, error)
                if not is_unreachable(failure) or time.monotonic() > end:
                    raise failure from error
            time.sleep(STATUS_SECONDS)

    def schedule(
        self,
        name: str,
        cron: str,
        agent: str,
        query: str,
        *,
        session: str = "",
        priority: int = DEFAULT_PRIORITY,
        key: str = "",
        attempts: int = DEFAULT_ATTEMPTS,
        timezone: str = "UTC",
    ) -> None:
        """Submit a run again and again, at the times of a cron expression; replace the schedule `name`.

        Args:
            name: The name of the schedule, at most 74 characters of ASCII; ids of its runs begin with it.
            cron: Five fields, or six with the seconds first: "0 8 * * 1-5" at eight on working days.
            agent: The name under which the workers have the agent.
            query: The question.
            session: As for `submit`.
            priority: As for `submit`.
            key: As for `submit`.
            attempts: As for `submit`.
            timezone: The time zone of the expression ("Europe/Berlin").

        Raises:
            RunError: The name, the expression or the time zone is not valid.
        """
        if not name or not isinstance(name, str):
            raise RunError(f"schedule: name must be a text that is not empty, got {name!r:.60}")
        for option, text in (("cron", cron), ("timezone", timezone)):
            if not isinstance(text, str):
                raise RunError(f"schedule {name!r:.90}: {option} must be a text, got {text!r:.60}")
        if not VALID_RUN_ID.fullmatch(run_of_schedule(f"{name}-2000-01-01T00:00:00+00:00")):
            raise RunError(f"schedule {name!r:.90}: no run can have its name. Use at most 74 characters of ASCII")
        work = QueuedRun(agent, "scheduled", query, session, attempts)
        schedule = {
            "schedule_name": name,
            "workflow_name": SCHEDULED,
            "schedule": cron,
            "context": {"work": work.encode(), "options": _options(work, priority, key)},
            "cron_timezone": timezone,
        }
        try:
            self._perform(lambda: self._dbos.apply_schedules([schedule]))
        except import_module("dbos").error.DBOSException as error:
            raise RunError(
                f"schedule {name!r}: {error}. Five fields of cron: '0 8 * * 1-5'; a time zone: 'UTC'"
            ) from error

    def unschedule(self, name: str) -> None:
        """Remove a schedule; runs that it has submitted stay."""
        self._perform(lambda: self._dbos.delete_schedule(name))

    def schedules(self) -> dict[str, str]:
        """Return the cron expressions of all schedules by name."""
        return {found["schedule_name"]: found["schedule"] for found in self._perform(self._dbos.list_schedules)}

    @property
    def journal(self) -> Journal:
        """The journal with the steps of the runs, for `agent.resume` and `agentkit.journal`."""
        return self._database.journal

    def continue_run(self, run: str, number: int, work: QueuedRun, priority: int, key: str) -> bool:
        """Put a continuation of a run into the queue; return False if there is one with that number."""
        options = {
            **_options(work, priority, key),
            **session_options(work.session, is_continued=True),
            "workflow_id": f"{run}{CONTINUED}{number}",
            "workflow_id_reuse_policy": "reject",
        }
        try:
            self._perform(lambda: self._dbos.enqueue(options, work.encode()))
        except Exception as error:
            if import_module("dbos").error.is_workflow_id_in_use_error(error):
                return False
            raise
        if work.session:
            self._database.tables.admit(work.session)
        return True

    def workflows(self, run: str) -> Sequence[Any]:
        """Return the workflows of a run; raise `RunError` for a run that was not submitted."""
        found = [*self._list(workflow_ids=[run]), *self._list(workflow_id_prefix=f"{run}{CONTINUED}")]
        if not found:
            raise RunError(f"run {run}: no such run was submitted")
        return found

    def cancel(self, workflow: str) -> None:
        """Cancel a workflow."""
        self._perform(lambda: self._dbos.cancel_workflow(workflow))

    def read_events(self, run: str, after: int) -> Sequence[tuple[int, str]]:
        """Return the batches of events of a run with higher numbers than `after`."""
        return self._database.own.read_events(run, after)

    def close(self) -> None:
        """Close the connections."""
        self._dbos.destroy()
        self._database.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _options(work: QueuedRun, priority: int, key: str) -> dict[str, Any]:
    check_integer("priority", priority)
    for name, text in (("agent", work.agent), ("session", work.session), ("key", str(key))):
        check_queue_text(name, text)
    return {
        "workflow_name": WORKFLOW,
        "queue_name": queue_of(work.agent),
        "app_version": APPLICATION_NAME,
        "priority": priority,
        "queue_partition_key": key or NO_KEY,
    }


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers that a batch is spread over: `agent.map(queries, workers=Workers(url, agent="support"))`.

    Attributes:
        url: The database of the workers.
        agent: The name under which they have the agent.
        key: As for `Client.submit`.
        priority: As for `Client.submit`.
    """

    url: str
    agent: str = "agent"
    key: str = ""
    priority: int = DEFAULT_PRIORITY

    async def collect(self, agent: JsonAgent[Any], queries: Iterable[Any], progress: Any) -> list[Any]:
        """Return the outcomes of all queries in their order; `progress` is called with each outcome.

        A batch that is cancelled cancels its runs.
        """
        client = await run_in_thread(lambda: Client(self.url))
        try:
            return await self._collect(client, agent, queries, progress)
        finally:
            await asyncio.shield(run_in_thread(client.close))

    async def _collect(self, client: Client, agent: JsonAgent[Any], queries: Iterable[Any], progress: Any) -> list[Any]:
        places: dict[str, int] = {}
        outcomes: dict[int, Any] = {}
        is_cancelled = threading.Event()

        def submit() -> None:
            for place, query in enumerate(queries):
                if is_cancelled.is_set():
                    return
                try:
                    places[client.submit(self.agent, query, key=self.key, priority=self.priority).id] = place
                except JournalError:
                    raise
                except RunError as error:
                    outcomes[place] = error

        def list_waiting() -> list[str]:
            return [run for run, place in places.items() if place not in outcomes]

        def stop() -> None:
            for run in list_waiting():
                with contextlib.suppress(Exception):
                    client.run(run).stop()

        submission = asyncio.ensure_future(run_in_thread(submit))
        try:
            await asyncio.shield(submission)
            for error in outcomes.values():
                progress(error)
            while waiting := list_waiting():
                for status in await run_in_thread(partial(_states_of, client, waiting)):
                    if status.state not in ("queued", "running"):
                        outcome = outcomes[places[status.id]] = await _outcome(client, agent, status)
                        progress(outcome)
                await asyncio.sleep(STATUS_SECONDS)
        except asyncio.CancelledError:
            is_cancelled.set()
            with contextlib.suppress(Exception):
                await submission
            await asyncio.shield(run_in_thread(stop))
            raise
        return [outcomes[place] for place in sorted(outcomes)]


def _states_of(client: Client, runs: Sequence[str]) -> list[RunStatus]:
    """Return the states of the runs, none while the database cannot be reached."""
    try:
        return client.states(runs)
    except JournalError as error:
        if not is_unreachable(error):
            raise
        return []


async def _outcome(client: Client, agent: JsonAgent[Any], status: RunStatus) -> Result[Any] | Exception:
    try:
        answer_of(status)
        reader = copy(agent)
        reader.memory = False  # the agent's own conversation stays as it is
        return await reader.aresume(status.id, journal=client.journal, changed="go on")
    except Exception as error:
        return error
