"""A program instead of 30 calls: the model writes Python, in which the tools are functions, and pauses before it pays.

A script replaces the model; AGENTKIT_MODEL="openai/gpt-4o-mini" asks a real one.  Needs the extra `code`.
"""

import os
from typing import TypedDict

from agentkit import CodeMode, JsonAgent, Paused, tool
from agentkit.testing import ScriptedModel, answer, call


class Bill(TypedDict):
    number: int
    supplier: str
    euros: float


def list_bills(month: str) -> list[Bill]:
    """List the bills of a month."""
    numbers = range(1, 11) if month == "May" else ()
    return [{"number": n, "supplier": "ABC"[n % 3], "euros": 10.0 * n} for n in numbers]


def is_delivered(number: int) -> bool:
    """Tell whether the goods of a bill have arrived."""
    return number % 5 != 0


@tool(effect="danger")
def pay(supplier: str, euros: float) -> str:
    """Pay a supplier."""
    return f"paid {euros:.2f} euros to {supplier}"


PROGRAM = """
import asyncio
bills = await list_bills("May")
arrived = await asyncio.gather(*[is_delivered(bill["number"]) for bill in bills])
totals = {}
for bill, is_there in zip(bills, arrived):
    if is_there:
        totals[bill["supplier"]] = totals.get(bill["supplier"], 0) + bill["euros"]
print(totals)
largest = max(totals, key=lambda supplier: totals[supplier])
print(await pay(largest, totals[largest]))
"""
model = os.environ.get("AGENTKIT_MODEL") or ScriptedModel(call("run_code", code=PROGRAM), answer("Supplier A is paid."))
agent = JsonAgent([list_bills, is_delivered, pay], model=model, extensions=[CodeMode()])
try:
    result = agent.run("Pay the supplier to whom we owe most for bills of May whose goods have arrived.")
except Paused as pause:  # in the middle of the program
    for waiting in pause.calls:
        print(f"waits: {waiting.name}({waiting.arguments})")
    result = agent.run(answers=dict.fromkeys(pause.calls, True))
for made in result.calls[:-1]:
    print(made.content)
print(result.answer)
