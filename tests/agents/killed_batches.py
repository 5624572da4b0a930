"""A program that kills maps in batches at many places, one after the other, and continues them.

    python killed_batches.py FOLDER API_BASE RUNS FIRST STEP MOST

Each map is a forked process, which dies by SIGKILL at its n-th boundary, for n = FIRST, FIRST + STEP, ...: before and
after each write of the journal, and before and after each request about files and batches.  It prints the answers of
the processes that continue them.
"""

import asyncio
import json
import os
import signal
import sys
import traceback
from functools import wraps
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from stores import patch_append

from agentkit import Batch, JsonAgent, tool
from agentkit.models.litellm.importing import load_litellm

ABOUT_BATCHES = ("create_file", "create_batch", "retrieve_batch", "file_content", "list_batches")


@tool(effect="read")
def look(place: str) -> str:
    """Look."""
    return f"found {place}"


class Fate:
    """When this process dies."""

    def __init__(self, deadly: int) -> None:
        self.left = deadly

    def boundary(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def let_die(fate: Fate) -> None:
    litellm = load_litellm()

    def deadly_write(write, _, statements):
        fate.boundary()
        write(statements)
        fate.boundary()

    def deadly_request(request):
        @wraps(request)
        def asked(**how):
            fate.boundary()
            try:
                return request(**how)
            finally:
                fate.boundary()

        return asked

    patched = pytest.MonkeyPatch()
    patch_append(patched, deadly_write)
    for name in ABOUT_BATCHES:
        patched.setattr(litellm, name, deadly_request(getattr(litellm, name)))


def run_map(place: str, base: str, runs: int, deadly: int | None = None) -> None:
    if deadly is not None:
        let_die(Fate(deadly))
    agent = JsonAgent(look, model="openai/gpt-4o-mini", api_key="none", api_base=base, journal=place, memory=False)
    queries = [f"{Path(place).stem}: {number}" for number in range(runs)]
    outcomes = asyncio.run(agent.amap(queries, batch=Batch(poll_seconds=0.02)))
    answers = [str(one) if isinstance(one, Exception) else one.answer for one in outcomes]
    Path(f"{place}.json").write_text(json.dumps(answers))


def forked(function, *args) -> int:
    """The exit status of `function` in a process of its own."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            function(*args)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    folder = Path(sys.argv[1])
    base = sys.argv[2]
    runs, first, step, most = map(int, sys.argv[3:])
    load_litellm()
    outcomes = {}
    for deadly in range(first, first + most * step, step):
        place = f"{folder}/{deadly}.db"
        status = forked(run_map, place, base, runs, deadly)
        if status == 0:
            break
        assert status == -signal.SIGKILL, status
        assert forked(run_map, place, base, runs) == 0, deadly
        outcomes[deadly] = json.loads(Path(f"{place}.json").read_text())
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
