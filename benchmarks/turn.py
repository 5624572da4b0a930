"""CPU of a turn in the engine alone: scripted replies, one plain tool, no network.

`python benchmarks/turn.py` prints one figure; `python benchmarks/turn.py --beside CHECKOUT` measures this checkout and
another one in turn, in fresh processes, and prints the ratio of the least times.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

TURNS, ROUNDS = 60, 25
HERE = Path(__file__).resolve().parents[1]


def measure() -> float:
    """Return the least CPU time of a turn, in microseconds."""
    from agentkit import JsonAgent
    from agentkit.testing import ScriptedModel

    def add(a: int, b: int) -> int:
        """Adds two integers."""
        return a + b

    calls = [{"tool_calls": [{"name": "add", "arguments": {"a": turn, "b": 2}}]} for turn in range(TURNS)]
    last = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "3"}}]}
    times = []
    for _ in range(ROUNDS):
        agent = JsonAgent(add, model=ScriptedModel([*calls, last]), max_steps=TURNS + 2)
        begin = time.process_time()
        agent("What is 1 + 2?")
        times.append((time.process_time() - begin) / TURNS * 1e6)
    return min(times)


def measure_checkout(folder: Path) -> float:
    """Return the figure of another process, which runs the package of `folder`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(folder / "tools")])}
    script = [sys.executable, str(Path(__file__).resolve())]
    return float(subprocess.run(script, env=environment, check=True, capture_output=True, text=True).stdout.split()[0])


def main() -> None:
    """Print the figure of this checkout, and its ratio to another one's."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--beside", type=Path)
    beside = options.parse_args().beside
    if beside is None:
        print(f"{measure():.0f} us of CPU a turn")
        return
    pairs = [(measure_checkout(HERE), measure_checkout(beside)) for _ in range(5)]
    own, other = (min(column) for column in zip(*pairs, strict=True))
    print(f"{own:.0f} us here, {other:.0f} us beside: {own / other:.2f}")


if __name__ == "__main__":
    main()
