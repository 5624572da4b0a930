"""Agents for workers in processes of their own: each query tells the model what to call, so it has no state."""

import os
import time
from collections.abc import AsyncGenerator

from agentkit import JsonAgent, ModelError, Usage, ask_question, tool
from agentkit.engine.model import Reply, Request


class QueryModel:
    """Calls the tool that the query names, so often: "effect 20 0.05 label"; then answers."""

    name = "query"

    async def aask(self, request: Request) -> AsyncGenerator[Reply, None]:
        query = [message["content"] for message in request.messages if message["role"] == "user"][-1]
        begun = max(place for place, message in enumerate(request.messages) if message["role"] == "user")
        results = [message["content"] for message in request.messages[begun:] if message["role"] == "tool"]
        done = sum("not run" not in result.casefold() for result in results)  # it calls again what was not made
        name, number, seconds, label = query.split()
        if name == "fail":
            raise ModelError("the provider is away", transient=True)
        if done >= int(number):
            name = "final_answer"
            arguments = f'{{"text": "done {label}"}}'
        else:
            arguments = f'{{"label": "{label}/{done}", "seconds": {seconds}}}'
        call = {"id": f"call_{done}", "type": "function", "function": {"name": name, "arguments": arguments}}
        yield Reply({"role": "assistant", "content": None, "tool_calls": [call]}, Usage(1, 10, 5, cost=0.001))


def note(text: str) -> None:
    """Append a line to the file of effects, in one write."""
    with open(os.environ["EFFECTS"], "a") as file:
        file.write(f"{text}\n")


@tool(effect="write")
def effect(label: str, seconds: float) -> str:
    """Has an effect, slowly."""
    time.sleep(seconds / 2)
    note(label)
    time.sleep(seconds / 2)
    return "ok"


@tool(effect="danger")
def delete(label: str, seconds: float) -> str:
    """Deletes something."""
    note(label)
    return "deleted"


@tool(effect="read")
def ask(label: str, seconds: float) -> str:
    """Asks the person."""
    return str(ask_question(f"Which {label}?"))


@tool(effect="read")
def ask_number(label: str, seconds: float) -> str:
    """Asks the person for a number."""
    return str(ask_question(f"Which {label}?", int))


@tool(effect="read")
def die(label: str, seconds: float) -> str:
    """Ends the worker."""
    time.sleep(seconds)
    os.kill(os.getpid(), 9)
    return ""


tools = [effect, delete, ask, ask_number, die]
agent = JsonAgent(*tools, model=QueryModel(), retries=0)
changed = JsonAgent(*tools, model=QueryModel(), retries=0, description="A new version.")
