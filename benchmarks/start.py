"""What it takes until something happens: imports, the first answer of a cold process, the memory of idle agents.

`python benchmarks/start.py [--rounds N]` runs each program in processes of its own, in turn in every round, and prints
the least that each took, in milliseconds of CPU and of wall time: the least is what the machine's other work spoils
least.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
UNIT = "import pydantic (and use a BaseModel)"
TOOL = 'def add(a: int, b: int) -> int:\n    """Adds two numbers."""\n    return a + b\n'
RAW = """
import sys, json
sys.path.insert(0, {here!r})
from adapters.{name} import Agent
from worker import tools_of
print(Agent({url!r}, "turns=1", tools_of(1)).run("Go on."))
"""
IDLE = (
    "from agentkit import JsonAgent\n"
    + TOOL
    + """
import tracemalloc
agents = [JsonAgent(add, model="openai/gpt-4o-mini")]
tracemalloc.start()
agents += [JsonAgent(add, model="openai/gpt-4o-mini") for _ in range(200)]
print(tracemalloc.get_traced_memory()[0] / 200 / 1000)
"""
)


def programs(url: str) -> dict[str, list[str]]:
    """The programs by name, as commands."""
    sources = {
        UNIT: "from pydantic import BaseModel",
        "import pydantic": "import pydantic",
        "import agentkit": "import agentkit",
        "import agentkit and make an agent": f"from agentkit import JsonAgent\n{TOOL}JsonAgent(add, model='offline')",
        "first answer, offline model": f"from agentkit import JsonAgent\n{TOOL}print(JsonAgent(add)('Add 2 and 3'))",
        "first answer, agentkit over litellm": RAW.format(here=str(HERE), url=url, name="agentkit_"),
        "first answer, litellm by hand, tuned": RAW.format(here=str(HERE), url=url, name="litellm_tuned"),
    }
    commands = {name: [sys.executable, "-W", "ignore", "-c", source] for name, source in sources.items()}
    return {
        "python alone": [sys.executable, "-c", ""],
        **commands,
        "agentkit --help": [sys.executable, "-m", "agentkit", "--help"],
    }


def took(command: list[str]) -> tuple[float, float]:
    """The CPU and the wall time of a program, in milliseconds; raises if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = time.perf_counter() - begun
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu * 1000, wall * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", AGENTKIT_MODEL="", PYTHONDONTWRITEBYTECODE="")
    server = subprocess.Popen([sys.executable, str(HERE / "server.py")], stdout=subprocess.PIPE, text=True)
    assert server.stdout
    try:
        commands = programs(f"http://127.0.0.1:{server.stdout.readline().strip()}/v1")
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(rounds + 1):
            for name, command in commands.items():
                if number:  # the first time bytecode is written
                    figures[name].append(took(command))
                else:
                    took(command)
    finally:
        server.kill()
    unit = min(cpu for cpu, _ in figures[UNIT])
    print(f"| program | CPU ms | wall ms | CPU of {UNIT!r} |\n|---|---|---|---|")
    for name, all_of_them in figures.items():
        cpu, wall = (min(column) for column in zip(*all_of_them, strict=True))
        print(f"| {name} | {cpu:.0f} | {wall:.0f} | {cpu / unit:.2f} |")
    idle = subprocess.run([sys.executable, "-c", IDLE], check=True, capture_output=True, text=True).stdout
    print(f"| memory of an idle agent with one tool | {json.loads(idle):.1f} kB | | |")


if __name__ == "__main__":
    main()
