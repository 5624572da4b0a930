"""The cost of a framework, measured against a loop by hand and the peers in one interleaved run.

`python benchmarks/run.py [--rounds N] [--only agentkit_,litellm_tuned] [--peers PYTHON]` runs every contestant in a
process of its own, in turn in every round, and prints medians as a table.  PYTHON is an interpreter that has the peers
installed; without it they are left out.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

HERE = Path(__file__).parent
OURS = ["agentkit_", "litellm_tuned", "litellm_raw", "httpx_"]
PEERS = ["pydantic_ai_", "openai_agents", "agno_", "langchain_", "strands_"]
FRAMEWORKS = ("agentkit_", *PEERS)


class Measure(NamedTuple):
    """One row: the command for a worker, how its answer becomes a figure, and the figure's unit."""

    name: str
    command: dict[str, Any]
    per: float
    unit: str
    of: str = "cpu"
    only: tuple[str, ...] = ()


def _turns(turns: int, **more: Any) -> dict[str, Any]:
    return {"do": "run", "model": f"turns={turns}", **more}


MEASURES = [
    Measure("20 turns, sync", _turns(20, times=5), 105, "ms"),
    Measure("20 turns, async", _turns(20, times=5, world="async"), 105, "ms"),
    Measure("200 turns, sync", _turns(200), 201, "ms"),
    Measure("200 turns, async", _turns(200, world="async"), 201, "ms"),
    Measure("20 turns, 20 tools", _turns(20, times=3, tools=20, world="async"), 63, "ms"),
    Measure("20 turns, 200 tools", _turns(20, times=3, tools=200, world="async"), 63, "ms"),
    Measure("20 turns at INFO", _turns(20, times=5, shown=True), 105, "ms", only=("agentkit_",)),
    Measure("8 calls of 50 ms at once", {"do": "parallel", "world": "sync", "tools": "slow"}, 1, "ms", "beyond"),
    Measure("... on an event loop", {"do": "parallel", "world": "async", "tools": "slow"}, 1, "ms", "beyond"),
    Measure("... coroutines", {"do": "parallel", "world": "async", "tools": "async"}, 1, "ms", "beyond", FRAMEWORKS),
    Measure(
        "100 agents x 5 turns, 20 ms latency",
        {"do": "crowd", "model": "turns=4,latency=0.02", "agents": 100},
        1,
        "ms",
        "wall",
    ),
    Measure("2,000 chunks, per chunk", {"do": "stream", "model": "turns=0,chunks=2000"}, 2000, "us"),
    Measure("first event of a stream", {"do": "stream", "model": "turns=0,chunks=2000"}, 1, "ms", "first"),
    Measure("request bytes, 20 tools, 20 turns", _turns(20, tools=20, times=1), 21, "bytes", "bytes"),
]


class Contestant:
    """A worker process and what it said."""

    def __init__(self, name: str, python: str, url: str) -> None:
        self.name = name
        self.url = url
        command = [python, "-W", "ignore", str(HERE / "worker.py"), name, url]
        quiet = subprocess.DEVNULL if name in PEERS else None  # some complain at length
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True)
        self.version = self.read().get("version", "?")
        self.figures: dict[str, list[float]] = defaultdict(list)

    def read(self) -> dict[str, Any]:
        assert self.process.stdout
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                return dict(json.loads(line))
        return {"error": "the process ended"}

    def measure(self, row: Measure) -> None:
        assert self.process.stdin
        if self.process.poll() is not None or (row.only and self.name not in row.only):
            return
        with urlopen(f"{self.url}/seen"):
            self.process.stdin.write(json.dumps(row.command) + "\n")
            self.process.stdin.flush()
        told = self.read()
        with urlopen(f"{self.url}/seen") as seen:
            told["bytes"] = json.load(seen)["bytes"]
        if "error" in told:
            print(f"  {self.name}: {row.name}: {told['error']}", file=sys.stderr)
            return
        scale = {"ms": 1e3, "us": 1e6, "bytes": 1}[row.unit]
        self.figures[row.name].append(told[row.of] * scale / row.per)


def table(contestants: list[Contestant], rows: list[Measure]) -> str:
    """The medians, as Markdown; in brackets the ratio to the tuned loop."""
    head = "| measure | " + " | ".join(f"{one.name.strip('_')} {one.version}" for one in contestants) + " |"
    lines = [head, "|---" * (len(contestants) + 1) + "|"]
    floor = next((one for one in contestants if one.name == "litellm_tuned"), contestants[0])
    for row in rows:
        cells = []
        for one in contestants:
            base = floor.figures.get(row.name)
            ours = one.figures.get(row.name)
            if not ours:
                cells.append("-")
                continue
            ratios = [a / b for a, b in zip(ours, base, strict=False)] if base else []
            ratio = f" ({statistics.median(ratios):.2f})" if ratios and one is not floor else ""
            cells.append(f"{statistics.median(ours):,.{0 if row.unit == 'bytes' else 2}f}{ratio}")
        lines.append(f"| {row.name} ({row.unit}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of contestants, with commas")
    parser.add_argument("--rows", default="", help="only the measures that hold this text")
    parser.add_argument("--peers", default="", help="an interpreter with the peers installed")
    given = parser.parse_args()
    server = subprocess.Popen([sys.executable, str(HERE / "server.py")], stdout=subprocess.PIPE, text=True)
    assert server.stdout
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    pythons = {**dict.fromkeys(OURS, sys.executable), **(dict.fromkeys(PEERS, given.peers) if given.peers else {})}
    chosen = [name for name in pythons if not given.only or name in given.only.split(",")]
    rows = [row for row in MEASURES if given.rows in row.name]
    contestants = []
    try:
        contestants = [Contestant(name, pythons[name], url) for name in chosen]
        for number in range(given.rounds + 1):
            for row in rows:
                for one in contestants:
                    one.measure(row)
            if number == 0:  # to warm up
                for one in contestants:
                    one.figures.clear()
    finally:
        print(table(contestants, rows))
        for one in contestants:
            one.process.kill()
        server.kill()


if __name__ == "__main__":
    main()
