"""`agent.map(queries, workers=...)`: many queries on all workers."""

import asyncio
import contextlib
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..agents.agent import JsonAgent
from ..core.background import run_in_thread
from ..engine.result import Result
from .client import Client
from .status import RunStatus, answer_of
from .work import DEFAULT_PRIORITY

SECONDS = 0.3
"""Seconds between two looks for results."""


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
        def submit() -> list[str]:
            return [client.submit(self.agent, query, key=self.key, priority=self.priority).id for query in queries]

        ids = await run_in_thread(submit)
        outcomes: dict[str, Any] = {}
        try:
            while waiting := [run for run in ids if run not in outcomes]:
                for status in await run_in_thread(partial(client.states, waiting)):
                    if status.state not in ("queued", "running"):
                        outcomes[status.id] = await _outcome(client, agent, status)
                        progress(outcomes[status.id])
                await asyncio.sleep(SECONDS)
        except asyncio.CancelledError:
            for run in waiting:
                with contextlib.suppress(Exception):
                    client.run(run).stop()
            raise
        return [outcomes[run] for run in ids]


async def _outcome(client: Client, agent: JsonAgent[Any], status: RunStatus) -> Result[Any] | Exception:
    try:
        answer_of(status)
        reader = copy(agent)
        reader.memory = False  # the agent's own conversation stays as it is
        return await reader.aresume(status.id, journal=client.journal, changed="go on")
    except Exception as error:
        return error
