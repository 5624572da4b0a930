"""Policies of one's own: one changes what the model sees, one answers a request without asking.

A script stands in for the model, so that all it saw can be shown; AGENTKIT_MODEL="openai/gpt-4o-mini" asks a real one.
"""

import json
import os
import re
from dataclasses import replace

from agentkit import JsonAgent, Session
from agentkit.core.flow import around, ask
from agentkit.engine.model import AskModel
from agentkit.testing import ScriptedModel


def discreet(effect):
    """Hides e-mail addresses from the model; the conversation itself, and what the tools get, keep them."""
    hidden = json.loads(re.sub(r"[\w.+-]+@[\w.-]+\w", "<address>", json.dumps(list(effect.request.messages))))
    return (yield from ask(replace(effect, request=replace(effect.request, messages=hidden))))


def remembered(known):
    """Gives the reply to a request that was made before; `known` may be any mapping, one on disk for example."""

    def handle(effect):
        key = json.dumps([effect.model.name, list(effect.request.messages), effect.request.tool_choice])
        if key in known:
            print("  (this reply was known)")
        else:
            known[key] = yield from ask(effect)
        return known[key]

    return around(handle, AskModel)


def customer(name: str) -> str:
    """Looks up a customer."""
    return f"{name}, customer since 2019, ada@example.org"


model = ScriptedModel(
    {"tool_calls": [{"name": "customer", "arguments": {"name": "Ada"}}]},
    {"tool_calls": [{"name": "final_answer", "arguments": {"text": "Ada has been a customer since 2019."}}]},
)
agent = JsonAgent(
    [customer], model=os.environ.get("AGENTKIT_MODEL") or model, policies=[around(discreet, AskModel), remembered({})]
)
for time in ("first", "second"):
    result = agent.run("Since when is Ada a customer?", session=Session())
    print(f"the {time} time: {result.answer}")
print("the tool said:    ", result.calls[0].content)
for request in model.requests[1:]:
    print("the model read:   ", request.messages[-1]["content"])
