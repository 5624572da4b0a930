"""What an evaluation costs beside its runs: the CPU of 1,000 scripted cases of two steps, without and with a journal.

python benchmarks/evals.py [CASES]
"""

# ruff: noqa: ARG001 (the tools have fixed results)

import sys
import tempfile
import time
from pathlib import Path

from agentkit import JsonAgent, tool
from agentkit.evals import Case, evaluate
from agentkit.testing import ScriptedModel, answer, call


@tool(effect="read")
def price_of(item: str) -> float:
    """Look up the price of an item of the shop, in euros."""
    return 3.5


def make(case: Case | None = None) -> JsonAgent[str]:
    """Return an agent for a trial."""
    return JsonAgent(price_of, model=ScriptedModel(call("price_of", item="tea"), answer("3.50 euros")))


def main(count: str = "1000") -> None:
    """Print the CPU and the time of runs alone, of an evaluation, and of one with a journal."""
    expected = {"calls": [{"price_of": {"item": "tea"}}], "answer": {"contains": "3.50"}, "limits": {"steps": 2}}
    cases = [{"query": f"What does tea cost ({number})?", **expected} for number in range(int(count))]
    evaluate(make, cases[:10])  # imports
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "agent.run": lambda: [make().run(case["query"]) for case in cases],
            "evaluate": lambda: evaluate(make, cases),
            "evaluate, with a journal": lambda: evaluate(make, cases, journal=Path(folder, "evals.db")),
        }
        for name, run in ways.items():
            cpu = time.process_time()
            began = time.perf_counter()
            run()
            print(f"{name}: {time.process_time() - cpu:.2f} s of CPU, {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
