"""An extension of your own: a shopping cart with its tools, its part of the instruction and a limit, in one object.

A script replaces the model; AGENTKIT_MODEL="openai/gpt-4o-mini" asks a real one.
"""

import os

from agentkit import JsonAgent, RunContext, Session, ToolError
from agentkit.extend import Extension
from agentkit.testing import ScriptedModel, answer, call

PRICES = {"tea": 4.5, "bread": 3.0, "caviar": 250.0}


class Cart(Extension):
    """A cart that belongs to the conversation."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.tools = [self.add_to_cart]

    def instruction(self, context: RunContext) -> str:
        goods = ", ".join(PRICES)
        return f"You serve {context.deps}. The shop sells {goods}. A cart may cost {self.limit:.2f} euros at most."

    def add_to_cart(self, item: str, run: RunContext) -> str:
        """Put an item into the cart.

        Args:
            item: The item.
        """
        cart = self.state(run)
        total = cart.get("total", 0.0) + PRICES[item]
        if total > self.limit:
            raise ToolError(f"{item} costs {PRICES[item]:.2f}, and the cart has {cart.get('total', 0.0):.2f} already.")
        cart["total"] = total
        return f"The cart costs {total:.2f} now."


script = [
    *(call("add_to_cart", item="tea"), answer("Tea is in your cart.")),
    *(call("add_to_cart", item="caviar"), call("add_to_cart", item="bread"), answer("Bread, for caviar is too much.")),
]
model = os.environ.get("AGENTKIT_MODEL") or ScriptedModel(*script)
agent = JsonAgent(model=model, extensions=[Cart(limit=20)], deps="Ada")
print(agent("I would like some tea."))
agent.session.save("cart.jsonl")  # tomorrow, or on another machine:

session = Session.load("cart.jsonl")
result = agent.run("And caviar, or bread if it is too much.", session=session)
for made in result.calls[:-1]:
    print(f"  {made.call.name}({made.call.arguments}): {made.content}")
print(result.answer)
print("in the cart:", session.session_state)
