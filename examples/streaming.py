"""Streaming: the text as the model writes it, each call, the progress of a tool, and the result.

A script replaces the model, because the embedded one does not write word by word;
AGENTKIT_MODEL="openai/gpt-4o-mini", with its key, asks a real model.
"""

import asyncio
import os

from agentkit import JsonAgent, RunContext
from agentkit.events import AnswerForming, Event, Progress, RunFinished, TextDelta, ToolFinished, ToolStarted
from agentkit.testing import ScriptedModel, answer, call


def survey(street: str, run: RunContext) -> str:
    """Count the trees of a street."""
    for house in (10, 20, 30):
        run.emit(f"house {house}")
    return f"{street} has 84 trees"


def show(event: Event) -> None:
    match event:
        case TextDelta(text):
            print(text, end="", flush=True)
        case ToolStarted(bound) if not bound.is_answer:
            print(f"\n  -> {bound.call.name}({bound.call.arguments})")
        case Progress(_, value):
            print(f"     ... {value}")
        case ToolFinished(result) if not result.is_answer:
            print(f"  <- {result.content}")
        case AnswerForming(added=added):  # .value is the whole answer so far, data too
            print(added, end="|", flush=True)
        case RunFinished(result):
            print(f"\n  == after {result.steps} replies, in {result.seconds:.0f} s\n")


script = [
    {"content": "Let me count them.", **call("survey", street="Park Street")},
    answer("Park Street has 84 trees."),
]
agent = JsonAgent([survey], model=os.environ.get("AGENTKIT_MODEL") or ScriptedModel(script * 2))
for event in agent.stream("How many trees are there in Park Street?"):
    show(event)


async def main() -> None:
    async for event in agent.astream("Are you sure?"):
        show(event)


asyncio.run(main())
