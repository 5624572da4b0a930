"""Workers in processes of their own, on a real PostgreSQL."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from waiting import noting, wait_until

from agentkit import DefinitionError
from agentkit.dbos import Client
from agentkit.dbos.database import check_sqlite

APP = Path(__file__).with_name("worker_app.py")
ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """`agentkit worker` in a process."""

    def __init__(self, url: str, folder: Path, *options: str, agent: str = "agent") -> None:
        self.log = folder / f"worker-{time.monotonic_ns()}.log"
        python_path = os.pathsep.join([str(ROOT), str(ROOT / "tools")])
        environment = {**os.environ, "EFFECTS": str(folder / "effects"), "PYTHONPATH": python_path}
        command = [sys.executable, "-m", "agentkit", "worker", f"agent={APP}:{agent}", "--db", url, *options]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env=environment, stderr=log, stdout=log, cwd=folder)

    def wait_ready(self) -> "WorkerProcess":
        ready = re.compile(r"^worker \S+ executes", re.M)
        with noting(self.log.read_text):
            wait_until(lambda: self.process.poll() is not None or ready.search(self.log.read_text()))
            assert self.process.poll() is None, "the worker ended"
        return self

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def processes(self) -> list[int]:
        """Return the processes that it has started with `--processes`, on Linux."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(900)

    def end(self) -> None:
        """Kill it and its processes: one that begins would set its limits in the database of the next test."""
        with suppress(ProcessLookupError, FileNotFoundError):
            self.process.send_signal(signal.SIGSTOP)
            for process in self.processes():
                os.kill(process, signal.SIGKILL)
        self.kill()


@pytest.fixture
def start(tmp_path: Path, url: str) -> Iterator[Callable[..., WorkerProcess]]:
    """A function that starts a worker; all end with the test."""
    started: list[WorkerProcess] = []

    def begin(*options: str, agent: str = "agent", db: str = url) -> WorkerProcess:
        started.append(WorkerProcess(db, tmp_path, *options, agent=agent))
        return started[-1]

    yield begin
    for worker in started:
        worker.end()


@pytest.fixture
def effects(tmp_path: Path) -> Callable[[], list[str]]:
    """A function that returns the effects so far."""

    def read() -> list[str]:
        file = tmp_path / "effects"
        return file.read_text().split() if file.exists() else []

    return read


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database, of PostgreSQL unless the parameter is "sqlite"."""
    if getattr(request, "param", "") == "sqlite":
        try:
            check_sqlite(sys.version_info[:2], sqlite3.sqlite_version_info[:2])
        except DefinitionError as error:
            pytest.skip(str(error))
        yield f"sqlite:///{tmp_path / 'runs.db'}"
        return
    server = request.getfixturevalue("postgres_server")
    with server.database() as found:
        yield found
        server.execute("DROP SCHEMA IF EXISTS dbos CASCADE", found.rpartition("/")[2])


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    """A client of that database."""
    with Client(url) as opened:
        yield opened
