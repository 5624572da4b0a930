"""CPU of a turn in the engine alone: scripted replies, one plain tool, no network.

`python benchmarks/turn.py` prints one figure.  `python benchmarks/turn.py --beside CHECKOUT` measures this checkout and
another one in turn, in fresh processes, and prints the ratio of the least times.  With `--count` it counts instructions
with valgrind instead, which a busy machine does not disturb.

`python benchmarks/turn.py --functions` prints how many functions of the package run, in how many files, from
`agent(query)` to the first line of a tool: the way that a reader of a query has to follow.
"""

import argparse
import gc
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

TURNS = 60
ROUNDS = 25
HERE = Path(__file__).resolve().parents[1]
VALGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]


def measure(rounds: int = ROUNDS) -> float:
    """Return the least CPU time of a turn, in microseconds."""
    from agentkit import JsonAgent
    from agentkit.testing import ScriptedModel

    def add(a: int, b: int) -> int:
        """Adds two integers."""
        return a + b

    def call(
        name: str, **arguments: object
    ) -> dict[str, object]:  # an older version may not have agentkit.testing.call
        return {"tool_calls": [{"name": name, "arguments": arguments}]}

    times = []
    gc.disable()  # a full collection costs as much as some turns, and begins at any of them
    for _ in range(rounds):
        replies = [*(call("add", a=turn, b=2) for turn in range(TURNS)), call("final_answer", text="done")]
        agent = JsonAgent(add, model=ScriptedModel(replies), max_steps=TURNS + 2)
        begin = time.process_time()
        agent("What are the sums?")
        times.append((time.process_time() - begin) / TURNS * 1e6)
    return min(times)


def count_functions() -> tuple[int, int]:
    """Return the functions of the package that run before a tool's first line, in the second call, and their files.

    Lambdas and comprehensions are no functions here: how many of them have a frame depends on the version of Python.
    """
    import agentkit
    from agentkit.testing import ScriptedModel

    folder = str(Path(agentkit.__file__).parent)
    seen: set[tuple[str, str, int]] = set()
    is_counting = False

    def watch(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if is_counting and event == "call" and code.co_filename.startswith(folder) and "<" not in code.co_name:
            seen.add((code.co_filename, code.co_name, code.co_firstlineno))

    def add(a: int, b: int) -> int:
        """Adds two integers."""
        nonlocal is_counting
        is_counting = False
        return a + b

    replies = [
        {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]},
        {"tool_calls": [{"name": "final_answer", "arguments": {"text": "3"}}]},
    ]
    agent = agentkit.JsonAgent(add, model=ScriptedModel(replies * 2))
    threading.setprofile(watch)
    agent("What is the sum?")
    sys.setprofile(watch)
    is_counting = True
    agent("What is the sum?")
    sys.setprofile(None)
    threading.setprofile(None)
    return len(seen), len({file for file, _, _ in seen})


def run_in(folder: Path, rounds: int, *, under: tuple[str, ...] = ()) -> str:
    """Run this file over the package of `folder` in another process, and return what it prints."""
    path = os.pathsep.join([str(folder), str(folder / "tools")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    script = [*under, sys.executable, str(Path(__file__).resolve()), "--rounds", str(rounds)]
    done = subprocess.run(
        script, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout


def time_of(folder: Path) -> float:
    """Return the CPU time of a turn, in microseconds."""
    return float(run_in(folder, ROUNDS).split()[0])


def count_of(folder: Path) -> float:
    """Return the instructions of a turn, in thousands: what five further rounds cost."""
    few, many = (
        int(re.search(r"Collected : (\d+)", run_in(folder, rounds, under=(*VALGRIND,)))[1]) for rounds in (1, 6)
    )
    return (many - few) / (5 * TURNS) / 1e3


def main() -> None:
    """Print the figure of this checkout, and its ratio to another one's."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--beside", type=Path)
    options.add_argument("--count", action="store_true")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--functions", action="store_true")
    given = options.parse_args()
    if given.functions:
        print("{} functions in {} files before the tool's first line".format(*count_functions()))
        return
    if given.beside is None:
        print(f"{measure(given.rounds):.0f} us of CPU a turn")
        return
    figure, unit, times = (count_of, "thousand instructions", 1) if given.count else (time_of, "us", 5)
    pairs = [(figure(HERE), figure(given.beside)) for _ in range(times)]
    own, other = (min(column) for column in zip(*pairs, strict=True))
    print(f"{own:.0f} {unit} here, {other:.0f} beside: {own / other:.2f}")


if __name__ == "__main__":
    main()
