"""Thinking in a tool loop: what comes back to its writer, and what does not go with it."""

import json
from typing import Any

import pytest
from wire_providers import KEY, Play, Provider

from agentkit import JsonAgent
from agentkit.core.messages import Message, ToolCall, assistant, tool_message, user
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing.server import ModelServer

ENABLED = {"type": "enabled", "budget_tokens": 4_000}
THOUGHT = {"type": "thinking", "thinking": "one and two", "signature": "U0lHTkFUVVJF"}
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


def add_call(**more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}, **more}]}


END = {"tool_calls": [{"name": "final_answer", "id": "toolu_9", "arguments": {"text": "3"}}]}


def test_anthropic_s_blocks_come_back_for_as_long_as_the_loop_lasts(world: Any, stream: bool) -> None:
    first = {"parts": [THOUGHT, REDACTED], **add_call(id="toolu_1")}
    second = {"parts": [{**THOUGHT, "thinking": "and then", "signature": "TkVYVA=="}], **add_call(id="toolu_2")}
    second["tool_calls"][0]["name"] = "functions.add"  # a mistake, which is repaired in the history
    with ModelServer(first, second, {"parts": [REDACTED], **END}, add_call(id="toolu_4"), END) as server:
        model = LiteLLMModel("anthropic/claude-sonnet-4-5", api_base=server.url, api_key=KEY, thinking=ENABLED)
        agent = JsonAgent(add, model=model, retries=0)
        ask = world.stream if stream else world.run
        ask(agent, "What is 1 + 2?")
        ask(agent, "What is 1 + 2?")
        assert server.violations == []
        sent = server.requests[2].body["messages"]
    assert sent[1]["content"][:2] == [THOUGHT, REDACTED]
    assert [block["type"] for block in sent[1]["content"]] == ["thinking", "redacted_thinking", "tool_use"]
    assert sent[3]["content"][0] == second["parts"][0]
    assert sent[3]["content"][1]["name"] == "add"


@pytest.mark.parametrize("name", ["gemini-2.5-flash", "gemini-3-pro-preview"])
def test_gemini_s_signatures_come_back_on_their_calls(world: Any, stream: bool, name: str) -> None:
    parallel = [
        {"name": "add", "arguments": {"a": 1, "b": 2}, "signature": "Rmlyc3Q="},
        {"name": "add", "arguments": {"a": 3, "b": 4}},
    ]
    second = {"name": "functions.add", "arguments": {"a": 5, "b": "6"}, "signature": "U2Vjb25k"}
    end = {"tool_calls": [{"name": "final_answer", "arguments": {"text": "3"}}]}
    with ModelServer({"tool_calls": parallel}, {"tool_calls": [second]}, end) as server:
        model = LiteLLMModel(f"gemini/{name}", api_base=server.url, api_key=KEY)
        ask = world.stream if stream else world.run
        ask(JsonAgent(add, model=model, retries=0), "What is 1 + 2?")
        assert server.violations == []
        turns = [turn["parts"] for turn in server.requests[2].body["contents"] if turn["role"] == "model"]
    signatures = [[part.get("thoughtSignature") for part in parts] for parts in turns]
    assert signatures[0][0] == "Rmlyc3Q="
    assert signatures[1] == ["U2Vjb25k"]
    assert len(signatures[0]) == 2


def sent(play: Play, history: list[Message], options: dict[str, Any], **asked: Any) -> dict[str, Any]:
    with ModelServer("hello", strict=False) as server:
        play(Provider("anthropic").at(server, **options), history, **asked)
        body = server.requests[0].body
    assert isinstance(body, dict)
    return body


HI = [user("hi")]


@pytest.mark.parametrize("options", [{"thinking": ENABLED}, {"reasoning_effort": "low"}])
def test_a_model_that_thinks_is_not_forced(play: Play, options: dict[str, Any]) -> None:
    for choice in ("add", "required"):
        body = sent(play, HI, options, tool_choice=choice)
        assert body["thinking"]["type"] == "enabled"
        assert body.get("tool_choice", {"type": "auto"}) == {"type": "auto"}
    assert sent(play, HI, options, tool_choice="none")["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize("off", [{}, {"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}])
def test_a_model_that_does_not_think_is_forced(play: Play, off: dict[str, Any]) -> None:
    assert sent(play, HI, off, tool_choice="add")["tool_choice"] == {"type": "tool", "name": "add"}


@pytest.mark.parametrize("options", [{"thinking": ENABLED}, {"reasoning_effort": "high"}])
@pytest.mark.parametrize("longest", [100, 3_000, 5_000, 50_000])
def test_a_reply_has_room_for_more_than_thinking(play: Play, options: dict[str, Any], longest: int) -> None:
    body = sent(play, HI, options, max_tokens=longest)
    assert body["max_tokens"] == longest
    if longest < 2_048:
        assert "thinking" not in body
    else:
        assert 1_024 <= body["thinking"]["budget_tokens"] < longest
    if longest > 8_192:
        assert body["thinking"]["budget_tokens"] >= 4_000


def test_a_loop_that_another_model_began_continues_without_thinking(play: Play) -> None:
    one = ToolCall("toolu_1", "add", '{"a": 1, "b": 2}')
    foreign = {**assistant(None, [one]), "provider": "openai"}
    own = {**assistant(None, [one]), "provider": "anthropic"}
    thought = {**own, "thinking_blocks": [THOUGHT]}
    for message, thinks in ((foreign, False), (own, False), (thought, True)):
        body = sent(play, [*HI, message, tool_message(one, "3")], {"thinking": ENABLED})
        assert ("thinking" in body) is thinks
        assert "thinking" in sent(play, [*HI, message, tool_message(one, "3"), *HI], {"thinking": ENABLED})
    assert "thinking" in sent(play, [*HI, own, tool_message(one, "3")], {"reasoning_effort": "low"})
    assert json.dumps(thought["thinking_blocks"]) == json.dumps([THOUGHT])


def test_options_of_others_are_not_touched(play: Play) -> None:
    with ModelServer("hello") as server:
        play(Provider("gemini").at(server, reasoning_effort="low"), HI, tool_choice="add", max_tokens=50)
        body = server.requests[0].body
    assert body["generationConfig"]["thinkingConfig"]["thinkingBudget"] > 0
    assert body["toolConfig"]["functionCallingConfig"]["mode"] == "ANY"
