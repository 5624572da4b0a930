"""Your own policies: one changes what the model reads, one answers a request from a cache.

A script replaces the model, so that its requests can be printed; AGENTKIT_MODEL="openai/gpt-4o-mini" asks a real one.
"""

import json
import os
import re
from dataclasses import replace

from agentkit import JsonAgent, Session
from agentkit.policies import AskModel, around, ask
from agentkit.testing import ScriptedModel, answer, call


def hide_addresses(step):
    """Hide e-mail addresses from the model; the history and the tools keep them."""
    hidden = json.loads(re.sub(r"[\w.+-]+@[\w.-]+\w", "<address>", json.dumps(list(step.request.messages))))
    return (yield from ask(replace(step, request=replace(step.request, messages=hidden))))


def cache_replies(cache):
    """Answer a repeated request from `cache`, which may be any mapping, for example one on disk."""

    def handle(step):
        key = json.dumps([step.model.name, list(step.request.messages), step.request.tool_choice])
        if key in cache:
            print("  (this reply was cached)")
        else:
            cache[key] = yield from ask(step)
        return cache[key]

    return around(handle, AskModel)


def find_customer(name: str) -> str:
    """Look up a customer."""
    return f"{name}, customer since 2019, ada@example.org"


model = ScriptedModel(call("find_customer", name="Ada"), answer("Ada has been a customer since 2019."))
agent = JsonAgent(
    [find_customer],
    model=os.environ.get("AGENTKIT_MODEL") or model,
    policies=[around(hide_addresses, AskModel), cache_replies({})],
)
for time in ("first", "second"):
    result = agent.run("Since when is Ada a customer?", session=Session())
    print(f"the {time} time: {result.answer}")
print("the tool returned:", result.calls[0].content)
for request in model.requests[1:]:
    print("the model read:   ", request.messages[-1]["content"])
