"""Questions about a table, answered with a number and the rows behind it: a tool over the csv module, a typed answer.

It runs without a key and without a network; AGENTKIT_MODEL="openai/gpt-4o-mini", with its key, asks a real model.
"""

import csv
import io
from dataclasses import dataclass
from statistics import mean
from typing import Literal

from agentkit import JsonAgent, ToolError, tool

ORDERS = """\
day,city,item,pieces,euros
2026-03-02,Rome,tea,12,42.00
2026-03-02,Pune,coffee,5,21.25
2026-03-09,Rome,coffee,8,34.00
2026-03-16,Oslo,tea,30,105.00
2026-03-16,Pune,tea,7,24.50
2026-04-06,Rome,tea,4,14.00
2026-04-13,Oslo,coffee,11,46.75
"""
ROWS = list(csv.DictReader(io.StringIO(ORDERS)))
FIGURES = {"sum": sum, "average": mean, "largest": max, "smallest": min}


@dataclass
class Figure:
    value: float
    rows: int


@tool(effect="read")
def figure(
    kind: Literal["sum", "average", "largest", "smallest"],
    column: Literal["pieces", "euros"],
    city: Literal["Rome", "Pune", "Oslo"] | None = None,
    item: Literal["tea", "coffee"] | None = None,
) -> Figure:
    """Calculate one figure of a column of the orders, over all of them or those from a city or of an item."""
    wanted = {"city": city, "item": item}
    rows = [row for row in ROWS if all(value in (None, row[key]) for key, value in wanted.items())]
    if not rows:
        raise ToolError("no order matches")
    return Figure(round(FIGURES[kind](float(row[column]) for row in rows), 2), len(rows))


agent = JsonAgent([figure], answer=Figure)
for question in (
    "What is the sum of euros for tea in Rome?",
    "What is the average of the pieces in Oslo?",
    "Give me the largest order of coffee, in euros.",
    "How many euros did we take in total?",
):
    result = agent.run(question)
    asked = result.calls[0].call.arguments
    print(f"{question}\n    figure({asked})\n    {result.answer.value:g}, from {result.answer.rows} orders")
