"""Evaluate an agent: cases with expected calls and answers, trials, a report, and a baseline that CI compares with.

It runs without a key; a real model is asked with AGENTKIT_MODEL=groq/llama-3.1-8b-instant, and takes the place of the
script below.  `agentkit eval examples/evaluated_agent.py:CASES examples/evaluated_agent.py:make_clerk` does the same.
"""

import os

from agentkit import JsonAgent, tool
from agentkit.evals import Case, evaluate
from agentkit.testing import ScriptedModel, answer, call

CASES = [
    Case("What does tea cost?", calls=[{"price_of": {"item": "tea"}}], answer={"contains": "3.50"}),
    Case("How much are coffee and cake?", calls=["price_of", {"price_of": {"item": {"pattern": "cake"}}}]),
    Case("Is there any soup?", answer={"judge": lambda value: "no soup" in value.lower()}, limits={"tool_calls": 1}),
]
SCRIPTS = {
    "What does tea cost?": [call("price_of", item="tea"), answer("Tea costs 3.50 euros.")],
    "How much are coffee and cake?": [call("price_of", item="coffee"), answer("4.25 euros, and the cake is good.")],
    "Is there any soup?": [call("price_of", item="soup"), answer("There is no soup today.")],
}
"""What the model of this example replies: it forgets the cake."""


@tool(effect="read")
def price_of(item: str) -> float:
    """Look up the price of an item of the shop, in euros."""
    return {"tea": 3.5, "coffee": 4.25, "cake": 3.0}[item]


def make_clerk(case: Case, scripts: dict = SCRIPTS) -> JsonAgent:
    """Return the agent for a trial."""
    return JsonAgent(price_of, model=os.environ.get("AGENTKIT_MODEL") or ScriptedModel(scripts[case.name]))


if __name__ == "__main__":
    before = evaluate(make_clerk, CASES, trials=2)
    print(before)

    both = [call("price_of", item="coffee"), call("price_of", item="cake"), answer("7.25 euros together.")]
    better = {**SCRIPTS, "How much are coffee and cake?": both}
    now = evaluate(lambda case: make_clerk(case, better), CASES, trials=2)
    for model, change in now.compare(before).items():
        print(f"another model, {model}: {change}")
