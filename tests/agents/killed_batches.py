"""A program that kills maps in batches at many places, one after the other, and continues them.

    python killed_batches.py FOLDER API_BASE RUNS PLACES

The first map counts its boundaries: before and after each write of the journal, and before and after each request about
files and batches.  Each other map is a forked process, which dies by SIGKILL at one of PLACES boundaries from the first on
and evenly apart.  It prints the boundaries, and for each map which one killed it, and the answers of the process that
continues it.
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
    """When this process dies; without a boundary it counts them."""

    def __init__(self, deadly: int | None) -> None:
        self.deadly = deadly
        self.passed = 0

    def boundary(self) -> None:
        if self.passed == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1


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


def run_map(place: str, base: str, runs: int, fate: Fate | None = None) -> None:
    if fate is not None:
        let_die(fate)
    agent = JsonAgent(look, model="openai/gpt-4o-mini", api_key="none", api_base=base, journal=place, memory=False)
    queries = [f"{Path(place).stem}: {number}" for number in range(runs)]
    outcomes = asyncio.run(agent.amap(queries, batch=Batch(poll_seconds=0.02), progress=False))
    answers = [str(one) if isinstance(one, Exception) else one.answer for one in outcomes]
    Path(f"{place}.json").write_text(json.dumps({"boundaries": fate and fate.passed, "answers": answers}))


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
    runs, places = map(int, sys.argv[3:])
    load_litellm()

    def run(name: str, deadly: int | None = None, *, counts: bool = False) -> tuple[int, dict]:
        place = f"{folder}/{name}.db"
        status = forked(run_map, place, base, runs, Fate(deadly) if counts or deadly is not None else None)
        found = json.loads(Path(f"{place}.json").read_text()) if status == 0 else {}
        if status == 0:
            for file in folder.glob(f"{name}.db*"):
                file.unlink()
        return status, found

    status, whole = run("whole", counts=True)
    assert status == 0, status
    outcomes = {"whole": whole["answers"]}
    deaths = {}
    for number in range(places):
        deadly = number * whole["boundaries"] // places
        name = f"{number} at {deadly}"
        status, found = run(name, deadly)
        while status == 0:  # it asked for the states of its batches less often, and had fewer boundaries
            outcomes[name] = found["answers"]
            deadly -= whole["boundaries"] // 50
            name = f"{number} at {deadly}"
            status, found = run(name, deadly)
        assert status == -signal.SIGKILL, status
        deaths[number] = deadly
        status, found = run(name)
        assert status == 0, (number, deadly)
        outcomes[name] = found["answers"]
        print(f"killed at {deadly} of {whole['boundaries']}", file=sys.stderr, flush=True)
    print(json.dumps({"boundaries": whole["boundaries"], "deaths": deaths, "outcomes": outcomes}))


if __name__ == "__main__":
    main()
