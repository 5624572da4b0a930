"""A client of AG-UI and an agent: the run pauses for a decision, which the client sends with its next request.

It runs without a key and without a network: the model is a script, model="openai/gpt-4o-mini" is a real one.  It needs
`pip install "starlette>=0.45" "uvicorn>=0.30" httpx`.  A page in the browser: `agentkit web examples/ag_ui.py:agent`.
"""

import json
from collections.abc import Iterator

from starlette.testclient import TestClient

from agentkit import JsonAgent, tool
from agentkit.testing import ScriptedModel, answer, call
from agentkit.web import agui


@tool(effect="danger")
def refund(customer: str, euros: float) -> str:
    """Pay money back to a customer."""
    return f"{euros} euros went to {customer}"


script = ScriptedModel(call("refund", customer="Ada", euros=4), answer("Ada has her money."))
agent = JsonAgent(refund, model=script, description="You help at the desk of a shop.")


def post(client: TestClient, run: str, **body: object) -> Iterator[dict]:
    """Send a request as a client of AG-UI does, and yield the events of the response."""
    response = client.post("/", json={"threadId": "desk", "runId": run, "messages": [], **body})
    for line in response.text.splitlines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def main() -> None:
    """Ask, look at what the run waits for, and allow it."""
    client = TestClient(agui(agent))
    query = {"id": "1", "role": "user", "content": "Ada wants her 4 euros back."}
    *_, end = post(client, "run-1", messages=[query])
    (interrupt,) = end["outcome"]["interrupts"]
    print("it waits:", interrupt["message"])

    decision = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    for event in post(client, "run-2", resume=[decision]):
        if event["type"] == "TOOL_CALL_RESULT":
            print("the tool:", event["content"])
        if event["type"] == "RUN_FINISHED":
            print("answer:", event["result"])


if __name__ == "__main__":
    main()
