"""SIGKILL at random times, with parallel calls, an agent as a tool and two resumers: no effect is repeated or lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = float(os.environ.get("AGENTKIT_KILL_SECONDS", "40"))
"""`make kills` sets more."""


@pytest.mark.integration
@pytest.mark.timeout(SECONDS + 120)
def test_killed_runs_repeat_and_lose_nothing():
    program = Path(__file__).with_name("kills.py")
    done = subprocess.run(
        [sys.executable, program, str(SECONDS)], capture_output=True, text=True, timeout=SECONDS + 100, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    figures = json.loads(done.stdout)
    assert figures["kills"] > SECONDS / 2, figures
    assert (figures["repeated"], figures["lost"], figures["unfinished"]) == (0, 0, 0), figures
