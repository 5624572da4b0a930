"""Run an agent as a workflow: begin or continue its run in the journal, until it has an outcome.

All state is in the journal, so the workflow has one body without steps of its own.  The lease of the conversation there
admits one worker at a time; any other waits.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

from ..agents.agent import JsonAgent
from ..core.background import run_in_thread
from ..core.errors import ModelError, Paused, RunError, RunStopped
from ..engine.result import Result
from ..sessions.journal.conversation import JournaledConversation
from ..sessions.journal.location import ConversationBusy, JournalError, LeaseLost
from ..sessions.journal.setup import Setup
from ..sessions.session import Session
from .database import Database, is_unreachable
from .event_log import EventLog
from .work import QueuedRun, error_outcome, result_outcome

MIN_WAIT, MAX_WAIT = 0.1, 5.0
"""Seconds before a run is tried again."""


class Execution:
    """The runs that a worker executes, on one event loop."""

    def __init__(self, worker: str, agents: Mapping[str, JsonAgent[Any]], database: Database, events: EventLog) -> None:
        self.worker, self._agents, self._database, self._events = worker, agents, database, events
        self.active: dict[str, Session | None] = {}
        """The sessions by workflows; None for one whose run has not begun."""
        self._stopped: set[str] = set()

    def stop(self, workflow: str) -> None:
        """Stop a run that the worker executes."""
        self._stopped.add(workflow)
        if (session := self.active.get(workflow)) is not None:
            session.stop("cancelled")

    async def execute(self, workflow: str, work: QueuedRun) -> dict[str, Any]:
        """Return the outcome of a piece of work."""
        self.active[workflow] = None
        try:
            outcome = await self._attempt(workflow, work)
        finally:
            del self.active[workflow]
            self._stopped.discard(workflow)
        return {**outcome, "worker": self.worker}

    async def _attempt(self, workflow: str, work: QueuedRun) -> dict[str, Any]:
        """Run until there is an outcome: waits for the conversation and for the database are not attempts."""
        agent, reason, wait = self._agents[work.agent], "its worker died", MIN_WAIT
        is_counted = False
        while True:
            try:
                if not is_counted:
                    attempts = await run_in_thread(lambda: self._count(workflow))
                    is_counted = True
                if len(attempts) > work.attempts:
                    error = f"{work.attempts} attempts failed: {reason} (workers: {', '.join(attempts[:-1])})"
                    return {"state": "dead", "error": error}
                return await self._run(workflow, agent, work, is_repeated=len(attempts) > 1)
            except (ConversationBusy, LeaseLost):
                pass
            except JournalError as error:
                if not is_unreachable(error):
                    return error_outcome(error)
            except ModelError as error:
                reason, is_counted = f"{type(error).__name__}: {error}", False
            if workflow in self._stopped:
                return error_outcome(RunStopped("cancelled"))
            await asyncio.sleep(wait)
            wait = min(2 * wait, MAX_WAIT)

    def _count(self, workflow: str) -> list[str]:
        """Record the beginning of an attempt; return the workers of all attempts, this one last."""
        values = (workflow, self.worker, time.time())
        self._database.store.append([("INSERT INTO run_attempts VALUES (?, ?, ?)", values)])
        sql = "SELECT worker FROM run_attempts WHERE workflow = ? ORDER BY begun"
        return [worker for (worker,) in self._database.store.read(sql, workflow)]

    async def _run(self, workflow: str, agent: JsonAgent[Any], work: QueuedRun, *, is_repeated: bool) -> dict[str, Any]:
        session, changes = await run_in_thread(lambda: self._open(agent, work))
        is_new = session.journaled is not None and bool(session.journaled.next_run)
        query = work.query if is_new else None
        self.active[workflow] = session
        try:
            result = await self._answer(agent, work, session, query, is_repeated=is_repeated)
            outcome = result_outcome(result)
        except RunError as error:
            if isinstance(error, JournalError) or (isinstance(error, ModelError) and error.transient):
                raise
            outcome = error_outcome(error)
        is_simple = is_new and outcome["state"] == "finished"
        in_doubt = [] if is_simple else await run_in_thread(lambda: self._list_in_doubt(work.run))
        named = {"changes": changes, "in_doubt": in_doubt}
        return {**outcome, **{name: found for name, found in named.items() if found}}

    async def _answer(
        self, agent: JsonAgent[Any], work: QueuedRun, session: Session, query: str | None, *, is_repeated: bool
    ) -> Result[Any]:
        """Run the agent; give the decisions again that a worker that died had not used."""
        events = await run_in_thread(lambda: self._events.open(work.run))
        try:
            while True:
                waiting = {call.id for call in session.waiting}
                asked = {question.id for question in session.questions}
                approvals = {key: value for key, value in work.approvals.items() if key in waiting}
                answers = {key: value for key, value in work.answers.items() if key in asked}
                try:
                    return await agent.arun(
                        query, session=session, journal=self._database.journal, listeners=[events.listen],
                        approvals=approvals, answers=answers)  # fmt: skip
                except Paused as pause:
                    known = {*(call.id for call in pause.calls), *(question.id for question in pause.questions)}
                    given = known & {*work.approvals, *work.answers}
                    if not (is_repeated and given - {*approvals, *answers}):
                        raise
                    query = None
        finally:
            await asyncio.shield(run_in_thread(lambda: self._events.close(events)))

    def _open(self, agent: JsonAgent[Any], work: QueuedRun) -> tuple[Session, list[str]]:
        """Return the conversation of the work, and how the agent differs from the one that began the run."""
        journal, store = self._database.journal, self._database.store
        sql = "SELECT setups.body FROM runs LEFT JOIN setups ON setups.id = runs.setup WHERE runs.id = ?"
        if found := store.read(sql, work.run):
            session = Session.resumed(work.run, journal, changed="go on")
            begun = Setup(*json.loads(found[0][0])) if found[0][0] else None
            return session, [] if begun is None else begun.changes(Setup.of(agent.instruction, agent.tools))
        session = Session.open(work.session, journal) if work.session else Session()
        session.journaled = session.journaled or JournaledConversation(journal)
        session.journaled.next_run = work.run
        return session, []

    def _list_in_doubt(self, run: str) -> list[str]:
        """Return the calls that began and have no outcome, because a worker died in them or the run was stopped."""
        sql = "SELECT name, call FROM steps WHERE run = ? AND call != '' AND ended IS NULL ORDER BY step"
        return [f"{name} ({call})" for name, call in self._database.store.read(sql, run)]
