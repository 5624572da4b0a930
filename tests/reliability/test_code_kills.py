"""SIGKILL at random times while programs of code mode run: no call is repeated or lost, and none goes another way."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANGS

PROGRAMS = int(os.environ.get("AGENTKIT_KILLED_PROGRAMS", "100"))


def kill_programs(count: int) -> dict[str, int]:
    command = [sys.executable, Path(__file__).with_name("code_kills.py"), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    figures: dict[str, int] = json.loads(done.stdout)
    print(figures)
    wrong = [figures[name] for name in ("repeated", "lost", "strays", "wrong", "failed", "unfinished")]
    assert (figures["programs"], wrong) == (count, [0] * 6), (figures, done.stderr[-4000:])
    return figures


@pytest.mark.timeout(HANGS)
def test_a_few_killed_programs_repeat_and_lose_nothing():
    assert kill_programs(3)["kills"]


@pytest.mark.integration
@pytest.mark.timeout(HANGS + 3 * PROGRAMS)
def test_many_killed_programs_repeat_and_lose_nothing():
    assert kill_programs(PROGRAMS)["kills"] > PROGRAMS
