"""The agent in the pictures of the documentation."""

import time

from agentkit import JsonAgent, tool
from agentkit.testing import ScriptedModel, answer, call, calls

__all__ = ["convert", "price_of"]


def price_of(item: str) -> float:
    """Look up the price of an item of the shop, in euros.

    Args:
        item: The item, "tea" or "coffee".
    """
    time.sleep(0.1)
    return {"tea": 3.5, "coffee": 4.25}[item]


def convert(amount: float, currency: str) -> str:
    """Convert an amount of euros into another currency."""
    return f"{amount * {'USD': 1.1, 'INR': 97.0}[currency]:.2f} {currency}"


@tool(effect="danger")
def refund(customer: str, euros: float) -> str:
    """Pay money back to a customer."""
    time.sleep(0.2)
    return f"{euros} euros went to {customer}"


ANSWER = """Ada got her money back.

| item | paid | paid back |
|---|---|---|
| tea | 3.50 | **3.50** |
"""


def reply(request):
    """Look up the prices, pay back, and report; a model takes its time."""
    time.sleep(0.3)
    results = [message for message in request.messages if message["role"] == "tool"]
    if not results:
        return calls(call("price_of", item="tea"), call("price_of", item="cake"))
    return call("refund", customer="Ada", euros=3.5) if len(results) == 2 else answer(ANSWER)


def make_agent(**settings):
    """Return the agent of the shop."""
    model = ScriptedModel([reply] * 100, name="scripted")
    return JsonAgent(price_of, convert, refund, model=model, description="You work in a shop.", **settings)


agent = make_agent()
