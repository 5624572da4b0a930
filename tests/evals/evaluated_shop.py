"""A shop for evaluations: its tools, an agent of scripted replies, and cases."""

from typing import Any

from agentkit import JsonAgent, tool
from agentkit.testing import ScriptedModel, answer, call

PRICES = {"tea": 3.5, "coffee": 4.25}


@tool(effect="read")
def price_of(item: str, pieces: int = 1) -> float:
    """Look up the price of an item of the shop, in euros."""
    return PRICES[item] * pieces


@tool(effect="danger")
def refund(order: str, euros: float) -> str:
    """Pay the price of an order back."""
    return f"{euros} euros of {order}"


def make_agent(*replies: Any, **settings: Any) -> JsonAgent:
    model = ScriptedModel(*(replies or (call("price_of", item="tea"), answer("3.50 euros"))))
    return JsonAgent(price_of, refund, model=model, **settings)


def scripted(*scripts: list[Any], **settings: Any):
    """Return a function that returns an agent for each trial, the next one with the next script."""
    rest = list(scripts)
    return lambda: make_agent(rest.pop(0) if len(rest) > 1 else [*rest[0]], **settings)


TEA = {"query": "What does tea cost?", "calls": [{"price_of": {"item": "tea"}}], "answer": {"contains": "3.50"}}
RIGHT = [call("price_of", item="tea"), answer("3.50 euros")]
WRONG = [answer("I do not know.")]
