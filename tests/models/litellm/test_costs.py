"""What a run costs, counted: schemas once, the same list of tools in every request, prefixes that caches can keep."""

import asyncio
import itertools
import json
import subprocess
import sys
from typing import Any

import pytest
from wire_providers import MODELS, Provider

from agentkit import JsonAgent
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing.server import ModelServer
from agentkit.tools.json_tool import JsonTool

TURNS = 6
KEYS = {"openai": "messages", "anthropic": "messages", "gemini": "contents", "groq": "messages", "ollama": "messages"}
SCRIPT = [{"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": number}}]} for number in range(TURNS)]
DONE = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "done"}}]}


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


def agent_at(server: ModelServer, provider: Provider, tool: Any = add) -> JsonAgent[str]:
    key = {} if provider.name == "ollama" else {"api_key": "k"}
    return JsonAgent(tool, model=MODELS[provider.name], api_base=server.api_base(provider.name), **key)


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
    litellm = load_litellm()
    handed = []
    made = []
    complete = litellm.completion

    def noted(**asked: Any) -> Any:
        handed.append(asked["tools"])
        return complete(**asked)

    class CountedTool(JsonTool[..., Any]):
        def schema(self, *args: Any, **named: Any) -> Any:
            made.append(self.name)
            return super().schema(*args, **named)

    monkeypatch.setattr(litellm, "completion", noted)
    with ModelServer(*SCRIPT, DONE, *SCRIPT, DONE) as server:
        agent = agent_at(server, Provider("openai"), CountedTool(add))
        agent.run("?")
        agent.run("And again?")
    assert len(handed) == 2 * (TURNS + 1)
    assert all(tools is handed[0] for tools in handed)
    assert made == ["add"]


def price(item: str, shop: str, number: int = 1) -> float:
    """Looks up what an item costs.

    Args:
        item: Its name, as on the label.
        shop: The town of the shop.
        number: How many.
    """
    return 1.0 * number


def written_by_hand(name: str, description: str, required: list[str], **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


@pytest.mark.parametrize("name", ["openai", "groq"])
def test_a_request_is_no_longer_than_one_written_by_hand(name: str) -> None:
    number = {"type": "integer", "description": "How many.", "default": 1}
    item = {"type": "string", "description": "Its name, as on the label."}
    shop = {"type": "string", "description": "The town of the shop."}
    answer = {"type": "string", "description": "The whole answer, as the person should read it."}
    with ModelServer(DONE) as server:
        agent = JsonAgent(price, model=MODELS[name], api_base=server.api_base(name), api_key="k")
        agent.run("What is a tea in Rome?")
        body: dict[str, Any] = server.requests[0].body
    about = {tool["function"]["name"]: tool["function"]["description"] for tool in body["tools"]}
    by_hand = {
        "model": MODELS[name].partition("/")[2],
        "messages": [
            {"role": "system", "content": agent.instruction},
            {"role": "user", "content": "What is a tea in Rome?"},
        ],
        "tools": [
            written_by_hand("price", about["price"], ["item", "shop"], item=item, shop=shop, number=number),
            written_by_hand("final_answer", about["final_answer"], ["text"], text=answer),
        ],
    }
    assert len(json.dumps(body)) <= len(json.dumps(by_hand))


def test_strict_tools_keep_what_strict_mode_wants() -> None:
    with ModelServer(DONE) as server:
        url = server.api_base("openai")
        JsonAgent(add, model=LiteLLMModel(MODELS["openai"], api_base=url, api_key="k", strict=True)).run("?")
    sealed = [tool["function"]["parameters"]["additionalProperties"] for tool in server.requests[0].body["tools"]]
    assert sealed == [False, False]


def test_tools_that_litellm_rewrites_are_copied_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = load_litellm()
    handed = []
    complete = litellm.completion

    def noted(**asked: Any) -> Any:
        handed.append(json.dumps(asked["tools"]))
        asked["tools"][0]["function"]["parameters"].clear()
        return complete(**asked)

    monkeypatch.setattr(litellm, "completion", noted)
    with ModelServer(*SCRIPT, DONE) as server:
        agent_at(server, Provider("gemini")).run("?")
    assert len(handed) == TURNS + 1
    assert set(handed) == {handed[0]}


@pytest.mark.parametrize(("own", "is_frozen"), [(0, True), (2_000_000, False)])
def test_what_litellm_loads_is_looked_through_no_more_where_it_is_most_of_all(own: int, is_frozen: bool) -> None:
    program = f"""
import gc
held = [[] for _ in range({own})]
from agentkit.models.litellm.importing import load_litellm
load_litellm()
assert gc.isenabled()
print(gc.get_freeze_count() > 100_000)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(is_frozen)
