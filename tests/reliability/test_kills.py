"""SIGKILL at random times, with parallel calls, an agent as a tool and two resumers: no effect is repeated or lost."""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from postgres_server import PostgresServer
from waiting import HANGS

SECONDS = float(os.environ.get("AGENTKIT_KILL_SECONDS", "20"))
"""`make kills` sets more."""


@contextmanager
def interrupting(server: PostgresServer) -> Iterator[list[str]]:
    """Cut all connections to a server and restart it, in turn, each second of the block; yield what was done."""
    done: list[str] = []
    ended = threading.Event()

    def interrupt() -> None:
        while not ended.wait(1):
            if len(done) % 2:
                server.stop()
                server.start()
                done.append("restart")
            else:
                server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid()")
                done.append("cut")

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield done
    finally:
        ended.set()
        thread.join()


@pytest.mark.integration
@pytest.mark.timeout(SECONDS + HANGS)
@pytest.mark.parametrize("store", ["sqlite", "lines", "postgres", "interrupted postgres"])
def test_killed_runs_repeat_and_lose_nothing(store: str, request: pytest.FixtureRequest):
    program = Path(__file__).with_name("kills.py")
    with ExitStack() as stack:
        journal = ["lines"] if store == "lines" else []
        if "postgres" in store:
            server = request.getfixturevalue("postgres_server")
            journal = [stack.enter_context(server.database())]
        interruptions = stack.enter_context(interrupting(server)) if "interrupted" in store else []
        command = [sys.executable, program, str(SECONDS), "1", *journal]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    figures = json.loads(done.stdout)
    print(figures, Counter(interruptions), done.stderr[-4000:])
    assert figures["kills"] > SECONDS / (10 if "postgres" in store else 2), figures
    assert "interrupted" not in store or len(interruptions) > SECONDS / 10, "the connections were lost"
    assert figures["failed"] or SECONDS < 60, figures
    assert [figures[name] for name in ("repeated", "lost", "untrue", "unfinished")] == [0, 0, 0, 0], figures
