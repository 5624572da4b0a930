"""What a run costs, counted: schemas once, the same list of tools in every request, prefixes that caches can keep."""

import asyncio
import itertools
import json
from typing import Any

import pytest
from wire_providers import MODELS, Provider

from agentkit import JsonAgent
from agentkit.json_tool import JsonTool
from agentkit.litellm_model import _litellm
from agentkit.testing.server import ModelServer

TURNS = 6
KEYS = {"openai": "messages", "anthropic": "messages", "gemini": "contents", "groq": "messages", "ollama": "messages"}
SCRIPT = [{"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": number}}]} for number in range(TURNS)]
DONE = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done"}}]}


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


def agent_at(server: ModelServer, provider: Provider) -> JsonAgent[str]:
    key = {} if provider.name == "ollama" else {"api_key": "k"}
    return JsonAgent(add, model=MODELS[provider.name], api_base=server.api_base(provider.name), **key)


def without_marks(data: Any) -> Any:
    """Requests without the marks of Anthropic's cache, which move on with the conversation."""
    if isinstance(data, dict):
        return {key: without_marks(value) for key, value in data.items() if key != "cache_control"}
    return [without_marks(value) for value in data] if isinstance(data, list) else data


@pytest.mark.parametrize("world", ["sync", "async"])
def test_each_request_begins_with_the_one_before(provider: Provider, world: str) -> None:
    with ModelServer(*SCRIPT, DONE) as server:
        agent = agent_at(server, provider)
        result = agent.run("?") if world == "sync" else asyncio.run(agent.arun("?"))
        bodies = [without_marks(sent.body) for sent in server.requests]
    assert result.steps == len(bodies) == TURNS + 1
    said = KEYS[provider.name]
    for before, after in itertools.pairwise(bodies):
        assert len(before[said]) < len(after[said])
        assert json.dumps(after[said]).startswith(json.dumps(before[said])[:-1]), "a prefix, to the letter"
        assert {**before, said: 0} == {**after, said: 0}
        assert json.dumps(before["tools"]) == json.dumps(after["tools"])


def test_schemas_are_made_once_and_the_same_list_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm, handed, made = _litellm(), [], []
    complete, schema = litellm.completion, JsonTool.schema

    def noted(**asked: Any) -> Any:
        handed.append(asked["tools"])
        return complete(**asked)

    def counted(self: JsonTool[..., Any], *args: Any, **named: Any) -> Any:
        made.append(self.name)
        return schema(self, *args, **named)

    monkeypatch.setattr(litellm, "completion", noted)
    monkeypatch.setattr(JsonTool, "schema", counted)
    with ModelServer(*SCRIPT, DONE, *SCRIPT, DONE) as server:
        agent = agent_at(server, Provider("openai"))
        agent.run("?")
        agent.run("And again?")
    assert len(handed) == 2 * (TURNS + 1)
    assert all(tools is handed[0] for tools in handed)
    assert sorted(made) == ["add", "final_answer"]
