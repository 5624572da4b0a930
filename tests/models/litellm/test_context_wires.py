"""Conversations that outgrow a provider's window, which it tells in its own words, with its own status."""

import itertools
import json
from typing import Any

import pytest
from wire_providers import Provider

from agentkit import JsonAgent
from agentkit.core.flow import Event
from agentkit.engine.model import ModelAsked
from agentkit.events import Compacted
from agentkit.models import LiteLLMModel
from agentkit.testing.server import ModelServer

WINDOW = 2_000
SAID = {
    "openai": (400, "This model's maximum context length is {room} tokens. However, your messages resulted in {used}."),
    "anthropic": (400, "prompt is too long: {used} tokens > {room} maximum"),
    "gemini": (400, "The input token count ({used}) exceeds the maximum number of tokens allowed ({room})."),
    "groq": (413, "Please reduce the length of the messages or completion."),
    "ollama": (500, "request ({used} tokens) exceeds the available context size ({room} tokens)"),
}


def look(number: int) -> str:
    """Looks at a page."""
    return f"page {number}: " + "word " * 300


def test_a_run_continues_beyond_the_window(provider: Provider, world: Any, stream: bool) -> None:
    events: list[Event] = []
    pages = itertools.count()
    sizes = []
    status, words = SAID[provider.name]

    def answer(body: Any) -> Any:
        used = len(json.dumps(body)) // 4
        if used > WINDOW:
            return {"status": status, "message": words.format(used=used, room=WINDOW)}
        sizes.append(used)
        if (page := next(pages)) == 8:
            return {"tool_calls": [{"name": "final_answer", "id": "toolu_end", "arguments": {"text": "seen"}}]}
        return {"tool_calls": [{"name": "look", "id": f"toolu_{page}", "arguments": {"number": page}}]}

    with ModelServer([answer] * 40) as server:
        agent = JsonAgent(look, model=provider.at(server), retries=0, listeners=[events.append])
        (world.stream if stream else world.run)(agent, "Look around.")
        assert server.violations == []
        requests = [json.dumps(request.body) for request in server.requests]
    assert sum("page" in str(message["content"]) for message in agent.history if message["role"] == "tool") == 8
    assert all("word " * 300 in message["content"] for message in agent.history[3:-1:2]), "the history stays whole"
    shorter = [event for event in events if isinstance(event, Compacted)]
    assert shorter[0].error is not None
    assert shorter[0].error.kind == "context"
    assert len(sizes) == 9
    assert len(requests) == len(set(requests)), "none is made again as it was"
    assert len(requests) == sum(isinstance(event, ModelAsked) for event in events)
    if "room" in words:
        assert len(requests) <= 9 + 3, "the window is learnt"


@pytest.mark.parametrize(
    ("name", "options", "tokens"),
    [
        ("openai/gpt-4o-mini", {}, 128_000),
        ("ollama_chat/llama3.1", {"num_ctx": 8_000}, 8_000),
        ("openai/own", {}, None),
    ],
)
def test_the_window_is_that_of_the_models_entry_or_num_ctx_with_and_without_a_key(
    name: str, options: dict[str, Any], tokens: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert LiteLLMModel(name, api_key="x", **options).context_window == tokens
    assert LiteLLMModel(name, **options).context_window == tokens
