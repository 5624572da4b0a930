"""One contestant in a process of its own: reads commands as JSON lines, does each once, prints what it took.

`python worker.py NAME URL`; commands are `{"do": METHOD, ...}`, answers `{"cpu": s, "wall": s, "rss": MiB, ...}`.
"""

import asyncio
import importlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any


def tools_of(number: int) -> list[Any]:
    """`add`, and others like it up to `number`."""
    source = (
        "def add{0}(a: int, b: int) -> int:\n"
        '    """Adds two numbers and returns their sum, for tests of the speed of a loop.\n\n'
        "    Args:\n        a: The first number to be added.\n        b: The second number to be added.\n"
        '    """\n    return a + b\n'
    )
    space: dict[str, Any] = {}
    names = ["", *(f"_{place}" for place in range(1, number))]
    for name in names:
        exec(source.format(name), space)
    return [space[f"add{name}"] for name in names]


def sleeping_tools(*, coroutine: bool = False) -> list[Any]:
    """`add` that takes 50 ms, in a thread or on the event loop."""

    def add(a: int, b: int) -> int:
        """Adds two numbers, slowly.

        Args:
            a: The first number.
            b: The second number.
        """
        time.sleep(0.05)
        return a + b

    async def add_meanwhile(a: int, b: int) -> int:
        await asyncio.sleep(0.05)
        return a + b

    add_meanwhile.__name__ = add.__name__
    add_meanwhile.__doc__ = add.__doc__
    return [add_meanwhile if coroutine else add]


class Worker:
    """The measures; each returns what is to be reported besides the time."""

    def __init__(self, name: str, url: str) -> None:
        self.adapter: Any = importlib.import_module(f"adapters.{name}")
        self.url = url
        self.made: dict[tuple[Any, ...], Any] = {}

    def agent(self, model: str, tools: int | str = 1, **options: Any) -> Any:
        """The agent for a model and a number of tools ("slow", "async": one slow tool), made once."""
        key = (model, tools, *options.items())
        if key not in self.made:
            given = tools_of(tools) if isinstance(tools, int) else sleeping_tools(coroutine=tools == "async")
            self.made[key] = self.adapter.Agent(self.url + "/v1", model, given, **options)
        return self.made[key]

    def run(self, *, model: str, tools: int | str = 1, world: str = "sync", times: int = 1, **options: Any) -> None:
        """A run, `times` times, one after the other."""
        agent = self.agent(model, tools, **options)
        if world == "sync":
            for _ in range(times):
                agent.run("Go on.")
            return

        async def all_of_them() -> None:
            for _ in range(times):
                await agent.arun("Go on.")

        asyncio.run(all_of_them())

    def parallel(self, *, world: str, tools: str) -> dict[str, Any]:
        """How much longer a run of two model turns takes with eight slow calls at once than with a quick one."""
        plain = {"model": "turns=1"}
        slow = {"model": "turns=1,calls=8", "tools": tools}
        took: list[list[float]] = [[], []]
        for _ in range(6):
            for seconds, what in zip(took, (plain, slow), strict=True):
                begun = time.perf_counter()
                self.run(world=world, **what)
                seconds.append(time.perf_counter() - begun)
        return {"beyond": min(took[1]) - min(took[0])}

    def crowd(self, *, model: str, agents: int) -> None:
        """Many agents at once on one event loop."""

        async def all_of_them() -> None:
            crowd = [self.adapter.Agent(self.url + "/v1", model, tools_of(1)) for _ in range(agents)]
            await asyncio.gather(*(agent.arun("Go on.") for agent in crowd))

        asyncio.run(all_of_them())

    def stream(self, *, model: str) -> dict[str, Any]:
        """A streamed run, read to its end; tells how many pieces came, and when the first."""
        agent = self.agent(model)

        async def read() -> tuple[int, float]:
            begun = time.perf_counter()
            first = 0.0
            number = 0
            async for _ in agent.astream("Go on."):
                first = first or time.perf_counter() - begun
                number += 1
            return number, first

        number, first = asyncio.run(read())
        return {"pieces": number, "first": first}


def main() -> None:
    name, url = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).parent))
    worker = Worker(name, url)
    print(json.dumps({"version": worker.adapter.version()}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        cpu = time.process_time()
        wall = time.perf_counter()
        try:
            more = getattr(worker, command.pop("do"))(**command) or {}
        except Exception as error:  # a contestant that cannot do this is shown with a dash
            more = {"error": f"{type(error).__name__}: {error}"[:300]}
        took = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**took, "rss": rss, **more}), flush=True)


if __name__ == "__main__":
    main()
