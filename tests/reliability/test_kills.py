"""SIGKILL at random times, with parallel calls, an agent as a tool and two resumers: no effect is repeated or lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = float(os.environ.get("AGENTKIT_KILL_SECONDS", "20"))
"""`make kills` sets more."""


@pytest.mark.integration
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_killed_runs_repeat_and_lose_nothing(store: str, request: pytest.FixtureRequest):
    program = Path(__file__).with_name("kills.py")
    url = [request.getfixturevalue("postgres_url")] if store == "postgres" else []
    done = subprocess.run(
        [sys.executable, program, str(SECONDS), "1", *url],
        capture_output=True, text=True, timeout=SECONDS + 100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    figures = json.loads(done.stdout)
    print(figures)
    assert figures["kills"] > SECONDS / (2 if store == "sqlite" else 5), figures
    assert figures["failed"] or SECONDS < 60, figures
    assert [figures[name] for name in ("repeated", "lost", "untrue", "unfinished")] == [0, 0, 0, 0], figures
