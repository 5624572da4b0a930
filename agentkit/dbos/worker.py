"""A worker: a process that takes runs of its agents from the queue."""

import os
import re
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

from ..agents.agent import JsonAgent
from ..core.errors import DefinitionError
from .database import APPLICATION, SCHEDULED, WORKFLOW, Database, lock_key, queue_of
from .event_log import WRITE_SECONDS, EventLog
from .execution import Execution
from .watch import BEAT_SECONDS, Watch, repeat
from .work import QueuedRun, encode_outcome

Rate: TypeAlias = tuple[int, float]
"""The number of runs that may begin in a number of seconds."""
POLL_SECONDS = 0.2
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
        self, agents: Mapping[str, JsonAgent[Any]], url: str, *, concurrency: int = 8, total: int | None = None,
        rate: Rate | None = None, per_key: int | None = None, key_rate: Rate | None = None,
    ) -> None:  # fmt: skip
        for name, agent in agents.items():
            if not isinstance(agent, JsonAgent):
                raise DefinitionError(f"Worker: {name!r} must be a JsonAgent, got {type(agent).__name__}")
        if not agents or concurrency < 1:
            raise DefinitionError(f"Worker: expected agents and concurrency >= 1, got {len(agents)} and {concurrency}")
        for option, rate_given in (("rate", rate), ("key_rate", key_rate)):
            if rate_given is not None and (rate_given[0] < 1 or rate_given[1] <= 0):
                raise DefinitionError(f"Worker: {option} must be a number >= 1 and seconds > 0, got {rate_given}")
        if any(limit is not None and limit < 1 for limit in (per_key, total)):
            raise DefinitionError(f"Worker: per_key and total must be at least 1, got {per_key} and {total}")
        if per_key is not None and total is not None and per_key > total:
            raise DefinitionError(f"Worker: per_key must be at most total, got {per_key} and {total}")
        self.name = f"{socket.gethostname()[:30]}-{os.getpid()}-{secrets.token_hex(3)}"
        self._agents, self._url = dict(agents), url
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
        self._over, self._ended = threading.Event(), threading.Event()

    def stop(self) -> None:
        """End `serve`, from any thread or signal handler."""
        self._over.set()

    def serve(self, *, grace: float = 30.0, ready: Callable[[], None] = lambda: None) -> None:
        """Execute runs until `stop`; then wait for those in progress for `grace` seconds and end.

        Runs that are not finished then are continued by other workers.  A worker that the others have taken for dead
        ends the process with the code 75, so that it is started again.
        """
        library = import_module("dbos")
        database = Database.open(self._url)
        lease = database.store.lease(lock_key(self.name), f"worker {self.name}")
        events = EventLog(database, lease)
        execution = Execution(self.name, self._agents, database, events)
        watch = Watch(database, self.name, lease)
        self._launch(library, database, execution)
        for action, seconds in ((partial(watch.beat, execution), BEAT_SECONDS), (events.write, WRITE_SECONDS)):
            arguments = (action, seconds, self._ended.wait, self._die)
            threading.Thread(target=repeat, args=arguments, daemon=True).start()
        try:
            ready()
            self._over.wait()
        finally:
            library.DBOS.destroy(workflow_completion_timeout_sec=max(0, int(grace)))
            self._ended.set()
            watch.end()
            lease.release()
            database.close()

    def _launch(self, library: Any, database: Database, execution: Execution) -> None:
        config = {
            "name": APPLICATION, "system_database_url": database.queue, "application_version": APPLICATION,
            "executor_id": self.name, "serializer": library.DBOSPortableJSONSerializer(), "log_level": "WARNING",
            "scheduler_polling_interval_sec": 1.0,
        }  # fmt: skip
        dbos = library.DBOS
        dbos(config=config)

        @dbos.workflow(name=WORKFLOW, max_recovery_attempts=None)  # type: ignore[untyped-decorator]
        async def run(text: str) -> str:
            return encode_outcome(await execution.execute(dbos.workflow_id, QueuedRun.decode(text)))

        @dbos.workflow(name=SCHEDULED)  # type: ignore[untyped-decorator]
        def begin_scheduled(_: Any, context: dict[str, Any]) -> None:
            run_id = re.sub(r"[^\w.:-]", "-", str(dbos.workflow_id).removeprefix("sched-"))
            work = QueuedRun.decode(context["work"])
            options = {**context["options"], "workflow_id": run_id}
            dbos.enqueue_workflow_with_options(options, replace(work, run=run_id).encode())

        dbos.listen_queues([queue_of(name) for name in self._agents])
        dbos.launch()
        for name in self._agents:
            dbos.register_queue(
                queue_of(name), polling_interval_sec=POLL_SECONDS, on_conflict="always_update", **self._limits
            )

    def _die(self) -> None:
        """End the process at once: other workers have its runs."""
        sys.stderr.write(f"agentkit: worker {self.name} was taken for dead, so it ends. Start it again.\n")
        sys.stderr.flush()
        os._exit(LOST)


def _limiter(rate: Rate | None) -> dict[str, float] | None:
    return None if rate is None else {"limit": rate[0], "period": rate[1]}
