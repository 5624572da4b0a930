"""A tool as a class: for tools with state, such as a connection or a cache, or with settings.

It runs without a key and without a network.
"""

import sys
from dataclasses import dataclass

import agentkit
from agentkit import JsonAgent, ToolExecutor

agentkit.log.show(sys.stdout)


@dataclass
class CountStockArgs:
    """What to count.

    Attributes:
        item: The item of the shop, "tea" or "coffee" for example.
    """

    item: str


class CountStockTool(ToolExecutor[CountStockArgs]):
    """Count how many pieces of an item are in stock."""

    def __init__(self, shelves: dict[str, int]) -> None:
        self.shelves = shelves

    def execute(self, args: CountStockArgs) -> str:
        if args.item not in self.shelves:
            raise agentkit.ToolError(f"no item is called {args.item!r}. Items: {', '.join(self.shelves)}.")
        return f"{self.shelves[args.item]} pieces of {args.item}"


agent = JsonAgent(CountStockTool({"tea": 12, "coffee": 3}), description="You work in a shop.")
print(agent.tools["count_stock"].anthropic_schema)
print(agent(query='How many pieces of "tea" are in stock?'))
