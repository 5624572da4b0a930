"""Two agents: the clerk has the shop's expert, an agent with its own tools, as a tool.

It runs without a key and without a network; AGENTKIT_MODEL="openai/gpt-4o-mini", with its key, asks a real model.
"""

from agentkit import JsonAgent
from agentkit.events import Event, SubRun, ToolFinished
from agentkit_tools import calculate


def price_of(item: str) -> float:
    """Look up the price of an item, in euros.

    Args:
        item: The item, "tea" or "coffee".
    """
    return {"tea": 3.5, "coffee": 4.25}[item]


def stock_of(item: str) -> int:
    """Count the pieces of an item in stock.

    Args:
        item: The item, "tea" or "coffee".
    """
    return {"tea": 140, "coffee": 12}[item]


def show(event: Event, depth: int = 0) -> None:
    """Print each call, indented for the inner agent, whose events arrive inside `SubRun`."""
    match event:
        case SubRun(_, _, inner):
            show(inner, depth + 1)
        case ToolFinished(result) if not result.is_answer:
            print(f"{'    ' * depth}{result.call.name}({result.call.arguments}) -> {result.content!r}")


expert = JsonAgent([price_of, stock_of], description="Knows the prices and the stock of the shop.")
clerk = JsonAgent([expert.as_tool("ask_shop"), calculate], listeners=[show])

result = clerk.run('Ask the shop "What is the price of tea, and what is the stock of coffee?" and calculate 12 * 3.5.')
print(f"\n{result.answer}\n\n{result.usage.requests} requests, the expert's among them; the clerk made {result.steps}")
