"""The agent loop under the policies that bring every run to an end, driven in either world."""

import json
from dataclasses import dataclass
from time import monotonic
from typing import Any

from agentkit import ToolRegistry
from agentkit.core.flow import Event, Flow, apply_policies
from agentkit.core.messages import Message, ToolCall, assistant, user
from agentkit.engine.loop import agent_loop
from agentkit.engine.model import ModelAsked, Reply, Request
from agentkit.policies.final_request import FinalRequest, request_final_answer
from agentkit.policies.limits import limit
from agentkit.policies.loop_detection import detect_loops
from agentkit.policies.retries import raise_refusals, retry_incomplete_replies
from agentkit.tools.final_answer import make_answer_tool


@dataclass
class Ran:
    """The outcome of a run."""

    answer: Any
    stopped: str
    history: list[Message]
    events: list[Event]

    @property
    def requests(self) -> list[Request]:
        return [event.request for event in self.events if isinstance(event, ModelAsked)]


def flow_of(
    model, *tools, answer=str, limits=None, max_steps=50, stream=False, history=None, inner=(), clock=monotonic
) -> Flow[Any]:
    """The loop under its policies, those of `inner` the nearest to it."""
    policies = (
        *inner,
        request_final_answer(),
        detect_loops(),
        retry_incomplete_replies(),
        raise_refusals(),
        limit(limits, max_steps, clock=clock),
    )
    registry = ToolRegistry(*tools, answer=make_answer_tool(answer))
    history = [user("go")] if history is None else history
    loop = agent_loop(model, registry, history, text_ends=answer is str, stream=stream)
    return apply_policies(loop, policies)


def run_stacked(world, model, *tools, history=None, **settings) -> Ran:
    """Drive the loop under its policies in one of the two worlds."""
    history = [user("go")] if history is None else history
    answer, events = world.drive(flow_of(model, *tools, history=history, **settings))
    landed = [event.reason for event in events if isinstance(event, FinalRequest)]
    return Ran(answer.value, landed[0] if landed else answer.stopped, history, events)


def cut(content: str | None = None, *calls: ToolCall) -> Reply:
    """A reply that the token limit cut."""
    return Reply(assistant(content, calls), finish_reason="length")


class Endless:
    """A model that makes the same reply, or several by turns, for ever; `last` is what it says when it must answer."""

    name = "endless"

    def __init__(self, *replies: Any, last: Any = None) -> None:
        self.replies = replies
        self.last = last
        self.asked = 0

    def ask(self, request: Request):
        entry = self.replies[self.asked % len(self.replies)]
        if self.last is not None and request.tool_choice == "final_answer":
            entry = self.last
        self.asked += 1
        yield entry if isinstance(entry, Reply) else Reply(_message(entry, self.asked))

    async def aask(self, request: Request):
        for piece in self.ask(request):
            yield piece


def _message(entry: Any, place: int) -> Message:
    if isinstance(entry, str):
        return assistant(entry)
    calls = [
        {"id": f"c{place}_{number}", "type": "function", "function": {"name": one["name"], "arguments": _text(one)}}
        for number, one in enumerate(entry["tool_calls"])
    ]
    return {**assistant(entry.get("content")), "tool_calls": calls}


def _text(one: dict[str, Any]) -> str:
    arguments = one["arguments"]
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
