"""Check an installed wheel outside the checkout: two functions answer questions, called from a script, a loop, a thread."""

import asyncio
import threading
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path

import agentkit
import agentkit_tools
from agentkit import JsonAgent

here = Path(__file__).resolve().parent
for package in (agentkit, agentkit_tools):
    assert (here / "venv") in Path(package.__file__).resolve().parents, f"{package.__name__} is not the installed one"
    assert (files(package) / "py.typed").is_file()
assert (files(agentkit) / "__init__.pyi").is_file()
metadata = distribution("agentkit")
assert metadata.metadata["License-Expression"] == "MIT"
assert any(file.name == "LICENSE" for file in metadata.files or ())


def price_of(item: str) -> float:
    """Looks up the price of an item of the shop, in euros.

    Args:
        item: The item, "tea" or "coffee".
    """
    return {"tea": 3.5, "coffee": 4.25}[item]


async def opening_hours(weekday: str) -> str:
    """Tells the opening hours of the shop on a weekday.

    Args:
        weekday: The day of the week.
    """
    return f"{weekday}: 9 to 17"


agent = JsonAgent([price_of, opening_hours], model="offline")
answers = {"script": agent("What is the price of coffee?")}


async def handler() -> None:
    answers["event loop"] = agent("What is the price of coffee?")
    answers["await"] = (await agent.arun("What is the price of coffee?")).answer


asyncio.run(handler())
thread = threading.Thread(target=lambda: answers.update(thread=agent("What is the price of coffee?")))
thread.start()
thread.join()
assert len(answers) == 4
assert all("4.25" in answer for answer in answers.values()), answers
assert "9 to 17" in agent("What are the opening hours on Monday?")
