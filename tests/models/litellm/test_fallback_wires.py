"""One conversation, continued by one provider after the other in the middle of a tool loop."""

import asyncio
import itertools
import json
from typing import Any

import pytest
from wire_providers import KEY

from agentkit import JsonAgent
from agentkit.engine.model import ModelReplied
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.policies.retries import FallenBack, fallback
from agentkit.testing.server import ModelServer

OPENAI = "openai/gpt-4o-mini"
ANTHROPIC = "anthropic/claude-sonnet-4-5"
GEMINI = "gemini/gemini-3-pro-preview"
GROQ = "groq/llama-3.1-8b-instant"
OLLAMA = "ollama_chat/llama3.1"
THOUGHT = {"type": "thinking", "thinking": "one and two", "signature": "U0lHTkFUVVJF"}
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}
NAMES = {OPENAI: "openai", ANTHROPIC: "anthropic", GEMINI: "gemini", GROQ: "groq", OLLAMA: "ollama"}
LONG = "call." + "x" * 50


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


def add_calls(*more: dict[str, Any]) -> dict[str, Any]:
    """Calls that differ from all others."""
    return {"tool_calls": [{"name": "add", "arguments": {"a": next(NUMBERS), "b": 1}, **each} for each in more]}


NUMBERS = itertools.count()
END = {"tool_calls": [{"name": "final_answer", "id": "functions.final_answer:9", "arguments": {"text": "done"}}]}


@pytest.fixture(params=["sync", "async"])
def world(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def events_of(agent: JsonAgent, world: str, *, stream: bool) -> list[Any]:
    """All events, also of a run that is not streamed."""
    seen: list[Any] = []
    agent.listeners = (seen.append,)

    async def gathered() -> None:
        if stream:
            assert [event async for event in agent.astream("Add.")]
        else:
            await agent.arun("Add.")

    if world == "async":
        asyncio.run(gathered())
    elif stream:
        list(agent.stream("Add."))
    else:
        agent.run("Add.")
    return seen


def test_each_takes_the_conversation_over_as_it_is(world: str, stream: bool) -> None:
    script = [
        add_calls({"id": "functions.add:0"}, {"id": LONG}),
        {"status": 503, "message": "busy"},
        {"parts": [THOUGHT, REDACTED], **add_calls({"id": "toolu_1"})},
        {"status": 529, "message": "Overloaded"},
        add_calls({"signature": "R2VtaW5p"}, {}),
        {"status": 401, "message": "no"},
        add_calls({"id": "fc_1"}),
        {"status": 500, "message": "oh"},
        add_calls({"id": "1"}),
        {"status": 503, "message": "busy"},
        add_calls({"id": "call_2"}),
        {"status": 500, "message": "oh"},
        {"parts": [THOUGHT], **add_calls({"id": "toolu_2"})},
        END,
    ]
    with ModelServer(script) as server:
        models = [LiteLLMModel(name, api_base=server.api_base(NAMES[name]), api_key=KEY) for name in NAMES]
        agent = JsonAgent(add, model=models[0], policies=[fallback(models[1:])], retries=0)
        events = events_of(agent, world, stream=stream)
        assert server.violations == []
        bodies = [request.body for request in server.requests]
    fallen = [(event.error.status, event.model) for event in events if isinstance(event, FallenBack)]
    assert fallen == [(503, ANTHROPIC), (529, GEMINI), (401, GROQ), (500, OLLAMA), (503, OPENAI), (500, ANTHROPIC)]
    assert sum(isinstance(event, ModelReplied) for event in events) == 8
    told = json.dumps(agent.history)
    assert told.count('"role": "tool"') == 2 + 1 + 2 + 1 + 1 + 1 + 1 + 1, "each call ran once"

    to_anthropic, to_gemini, to_groq, to_ollama, to_openai = bodies[2:11:2]
    uses = [
        block["id"] for turn in to_anthropic["messages"] for block in turn["content"] if block["type"] == "tool_use"
    ]
    assert len(set(uses)) == 2
    assert "signature" not in json.dumps(to_anthropic)
    for word in ("thinking", "c2VjcmV0", "U0lHTkFUVVJF"):
        assert word not in json.dumps(to_gemini["contents"])
        for body in (to_groq, to_ollama, to_openai):
            assert word not in json.dumps(body)
    for body in (to_groq, to_ollama, to_openai):
        assert "R2VtaW5p" not in json.dumps(body)
        for turn in body["messages"]:
            own = {"images", "tool_name"} if body is to_ollama else set()
            assert turn.keys() - own <= {"role", "content", "tool_calls", "tool_call_id"}
    assert max(len(call["id"]) for turn in to_openai["messages"] for call in turn.get("tool_calls") or ()) <= 40
    assert "R2VtaW5p" not in json.dumps(bodies[-1]), "nor do Gemini's signatures go to Anthropic"
    back = [turn["content"][:2] for turn in bodies[-1]["messages"] if turn["content"][0]["type"] == "thinking"]
    assert back[0] == [THOUGHT, REDACTED], "its own thinking comes back to Anthropic"
