"""Many queries at half the price: the requests of a step of all runs go to the provider as one batch.

It runs without a key and without a network, as a server on the loopback plays the provider. With a key and without
`api_base`, model="openai/gpt-4o-mini" asks a real one, which may take a day.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from agentkit import Batch, JsonAgent, Result, tool
from agentkit.testing import ModelServer, answer, call

TICKETS = {1: "The kettle does not boil.", 2: "The lamp flickers.", 3: "The lamp hums.", 4: "The kettle leaks."}


@tool(effect="read")
def read_ticket(number: int) -> str:
    """Read a ticket of the help desk."""
    return TICKETS[number]


def reply(body: dict) -> dict:
    """Return the reply of the provider to one request: first it reads the ticket, then it answers."""
    *_, query, last = [{}, *(message for message in body["messages"] if message["role"] in ("user", "tool"))]
    if last["role"] == "user":
        return {**call("read_ticket", number=int(last["content"].split()[-1])), "usage": {"input_tokens": 10_000}}
    product = "kettle" if "kettle" in last["content"] else "lamp"
    return {**answer(f"{query['content'].split()[-1]} is about a {product}"), "usage": {"input_tokens": 10_000}}


expired = {"reset": True}  # a line that the provider did not get to, which is a line of the next batch
replies = [reply, reply, expired, *[reply] * 6]
with ModelServer(replies) as server, TemporaryDirectory() as folder:
    agent = JsonAgent(
        read_ticket,
        model="openai/gpt-4o-mini",
        api_base=server.api_base("openai"),
        api_key="none",
        journal=Path(folder) / "tickets.db",  # the same call after a crash continues its batches
    )
    queries = [f"Which product is this ticket about: {number}" for number in TICKETS]
    outcomes = agent.map(queries, batch=Batch(poll_seconds=0.1))

for outcome in outcomes:
    assert isinstance(outcome, Result), outcome
    print(f"{outcome.answer} ({outcome.usage.requests} requests, {outcome.usage.cost:.6f} dollars)")
