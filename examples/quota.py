"""What each user may spend in a day, in all processes that share a journal, and what the runs cost.

It runs without a key and without a network, as a server on the loopback plays the provider. With a key and without
`api_base`, model="openai/gpt-4o-mini" asks a real one.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from agentkit import JsonAgent, LimitExceeded, Quota, tool
from agentkit.journal import costs
from agentkit.testing import ModelServer, answer, call


@tool(effect="read")
def stock_of(item: str) -> int:
    """Return how many there are in stock."""
    return {"tea": 12, "coffee": 3}[item]


def reply(body: dict) -> dict:
    """Return the reply of the provider to one request of 10,000 tokens."""
    last = body["messages"][-1]
    made = answer(f"There are {last['content']}.") if last["role"] == "tool" else call("stock_of", item="tea")
    return {**made, "usage": {"input_tokens": 10_000, "output_tokens": 20}}


with ModelServer([reply] * 20) as server, TemporaryDirectory() as folder:
    journal = Path(folder) / "shop.db"
    agent = JsonAgent(
        stock_of,
        model="openai/gpt-4o-mini",
        api_base=server.api_base("openai"),
        api_key="none",
        max_tokens=200,
        journal=journal,
        quota=Quota(owner=lambda run: run.deps["user"], dollars=0.01, per="day"),
    )
    for user in ("ada", "ada", "ada", "ada", "bob"):
        try:
            print(f"{user}: {agent.run('How much tea is there?', deps={'user': user}).answer}")
        except LimitExceeded as error:
            print(f"{user}: stopped by the {error.reason}: {error}")
    print("\nagentkit runs --sum:")
    for one in costs(journal):
        print(f"  {one.kind:5}  {one.name:20}  {one.requests:g} requests  {one.cost:.4f} dollars")
