"""What comes in: calls, text, thinking and figures, whole and streamed, in both worlds."""

import json
from typing import Any

import pytest
from wire_providers import MODELS, Play, Provider

from agentkit.core.messages import Usage, calls_of, tool_message, user
from agentkit.engine.model import TextDelta, ThinkingDelta, ToolCallDelta
from agentkit.models.litellm.importing import load_litellm
from agentkit.testing.server import ModelServer

HI = [user("hi")]
CALLS = {"content": "let me see", "tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}, {"name": "now"}]}


def test_parallel_calls_are_kept_apart(provider: Provider, play: Play, stream: bool) -> None:
    with ModelServer(CALLS) as server:
        deltas, reply = play(provider.at(server), HI, stream=stream)
    first, second = calls_of(reply.message)
    assert (first.name, json.loads(first.arguments)) == ("add", {"a": 1, "b": 2})
    assert (second.name, json.loads(second.arguments)) == ("now", {})
    assert first.id != second.id
    assert reply.message["content"] == "let me see"
    if stream:
        assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "let me see"
        calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
        assert [delta.name for delta in calls] == sorted(delta.name for delta in calls)
        assert json.loads("".join(delta.arguments for delta in calls if delta.index == 0)) == {"a": 1, "b": 2}
    else:
        assert deltas == []


def test_an_answer_is_plain_json_that_names_its_writer(provider: Provider, play: Play, stream: bool) -> None:
    with ModelServer("grüß dich") as server:
        _, reply = play(provider.at(server), HI, stream=stream)
    wrote = MODELS[provider.name].partition("/")[0]
    known = {"ends_turn": True} if provider.name in ("anthropic", "gemini") else {}  # that it calls tools
    assert reply.message == {"role": "assistant", "content": "grüß dich", "provider": wrote, **known}
    assert json.loads(json.dumps(reply.message)) == reply.message
    assert (reply.finish_reason, reply.model) == ("stop", MODELS[provider.name].partition("/")[2])


def test_tokens_are_counted_and_priced_where_the_price_is_known(provider: Provider, play: Play, stream: bool) -> None:
    with ModelServer("hello") as server:
        _, reply = play(provider.at(server), HI, stream=stream)
    prices = {"openai": (0.15, 0.6), "anthropic": (3, 15), "gemini": (0.3, 2.5)}.get(provider.name)
    if provider.name == "groq" and MODELS["groq"] in load_litellm().model_cost:  # in old tables
        prices = (0.05, 0.08)
    if provider.name == "ollama" and reply.usage.cost is not None:  # newer versions know that it costs nothing
        prices = (0, 0)
    cost = prices and pytest.approx((10 * prices[0] + 5 * prices[1]) / 1e6)
    assert reply.usage == Usage(requests=1, input_tokens=10, output_tokens=5, cost=cost)


def test_cached_and_reasoning_tokens_are_counted_and_cached_ones_are_cheaper(play: Play) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    usage |= {"prompt_tokens_details": {"cached_tokens": 800}, "completion_tokens_details": {"reasoning_tokens": 60}}
    with ModelServer({"body": openai_body({"content": "hello"}, usage=usage)}) as server:
        _, reply = play(Provider("openai").at(server), HI)
    cost = (200 * 0.15 + 800 * 0.075 + 100 * 0.6) / 1e6
    assert reply.usage == Usage(1, 1000, 100, cached_tokens=800, reasoning_tokens=60, cost=pytest.approx(cost))


def test_anthropic_s_cache_is_priced_for_reading_and_for_writing(play: Play, stream: bool) -> None:
    counts = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 1000,
    }
    with ModelServer({"body": anthropic_body([{"type": "text", "text": "hello"}], counts)}) as server:
        _, reply = play(Provider("anthropic").at(server), HI)
    cost = (10 * 3 + 100 * 0.3 + 1000 * 3.75 + 5 * 15) / 1e6
    tokens = {"cached_tokens": 100, "cache_creation_tokens": 1000}
    assert reply.usage == Usage(1, 1110, 5, cost=pytest.approx(cost), **tokens)
    assert reply.id


def test_groq_may_leave_the_usage_out(play: Play) -> None:
    body = openai_body({"content": "hello"}) | {"service_tier": "on_demand"}
    with ModelServer({"body": body}) as server:
        _, reply = play(Provider("groq").at(server), HI)
    assert reply.message["content"] == "hello"
    assert (reply.usage.requests, reply.usage.cost) == (1, None)


@pytest.mark.parametrize("arguments", [None, "", {"a": 1}])
def test_odd_arguments_become_text(arguments: Any, play: Play) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": arguments}}
    with ModelServer({"body": openai_body({"content": None, "tool_calls": [call]})}) as server:
        _, reply = play(Provider("openai").at(server), HI)
    (found,) = calls_of(reply.message)
    assert json.loads(found.arguments) == (arguments or {})


@pytest.mark.parametrize("name", [{}, {"name": None}])
def test_a_call_without_a_name_has_an_empty_one(name: Any, play: Play) -> None:
    call = {"id": "c1", "type": "function", "function": {"arguments": "{}", **name}}
    with ModelServer({"body": openai_body({"content": None, "tool_calls": [call]})}) as server:
        _, reply = play(Provider("openai").at(server), HI)
    assert [one.name for one in calls_of(reply.message)] == [""]


def test_half_a_surrogate_pair_is_replaced(play: Play) -> None:
    with ModelServer({"body": openai_body({"content": "a \ud83d b"})}) as server:
        _, reply = play(Provider("openai").at(server), HI)
    assert reply.message["content"] == "a \ufffd b"


CUT = {"openai": "length", "groq": "length", "ollama": "length", "anthropic": "max_tokens", "gemini": "MAX_TOKENS"}


@pytest.mark.parametrize("reply", [{"content": "let me s"}, CALLS], ids=["text", "calls"])
def test_a_reply_cut_by_the_limit_of_tokens_is_marked(
    provider: Provider, play: Play, stream: bool, reply: dict[str, Any]
) -> None:
    with ModelServer({**reply, "finish_reason": CUT[provider.name]}) as server:
        _, cut = play(provider.at(server), HI, stream=stream)
    assert cut.finish_reason == "length"


def test_a_reply_cut_by_the_end_of_the_window_is_marked(play: Play, stream: bool) -> None:
    with ModelServer({"content": "let me", "finish_reason": "model_context_window_exceeded"}) as server:
        _, cut = play(Provider("anthropic").at(server), HI, stream=stream)
    assert (cut.finish_reason, cut.message["content"]) == ("length", "let me")


@pytest.mark.parametrize("reason", [None, "weird", "stop"])
def test_calls_count_whatever_reason_the_model_stopped_for(
    provider: Provider, play: Play, stream: bool, reason: str | None
) -> None:
    said = {"gemini": "STOP", "anthropic": "end_turn"}.get(provider.name, reason) if reason == "stop" else reason
    with ModelServer({**CALLS, "finish_reason": said}) as server:
        _, reply = play(provider.at(server), HI, stream=stream)
    assert [call.name for call in calls_of(reply.message)] == ["add", "now"]
    assert reply.finish_reason in ("stop", "tool_calls")


THINKING = {"type": "thinking", "thinking": "one and two", "signature": "U0lHTkFUVVJF"}
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}}


def test_anthropic_s_thinking_survives_a_tool_turn_byte_for_byte(play: Play, stream: bool) -> None:
    blocks = [THINKING, REDACTED, USE]
    first = {"body": anthropic_stream(blocks), "headers": EVENTS} if stream else {"body": anthropic_body(blocks)}
    with ModelServer(first, "3") as server:
        model = Provider("anthropic").at(server, thinking={"type": "enabled", "budget_tokens": 1024})
        deltas, reply = play(model, HI, stream=stream)
        history = [*HI, json.loads(json.dumps(reply.message)), tool_message(calls_of(reply.message)[0], "3")]
        play(model, history)
        sent = server.requests[1].body["messages"]
    assert sent[1] == {"role": "assistant", "content": blocks}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}
    assert sent[2]["content"] == [{**result, "cache_control": {"type": "ephemeral"}}]
    thoughts = "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta))
    assert thoughts == ("one and two" if stream else "")


@pytest.mark.parametrize("name", ["gemini-2.5-flash", "gemini-3-pro-preview"])
def test_gemini_s_thought_signature_survives_a_tool_turn(name: str, play: Play, stream: bool) -> None:
    call = {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}, "thoughtSignature": "U0lHTkFUVVJF"}
    body = {
        "candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
    }
    first = {"body": f"data: {json.dumps(body)}\n\n", "headers": EVENTS} if stream else {"body": body}
    with ModelServer(first, "3") as server:
        from agentkit.models.litellm.model import LiteLLMModel

        model = LiteLLMModel(f"gemini/{name}", api_base=server.url, api_key="k", timeout=60)
        _, reply = play(model, HI, stream=stream)
        (found,) = calls_of(reply.message)
        assert len(found.id) <= 40
        play(model, [*HI, json.loads(json.dumps(reply.message)), tool_message(found, "3")])
        (part,) = server.requests[1].body["contents"][1]["parts"]
    assert part["thoughtSignature"] == "U0lHTkFUVVJF"
    assert part["function_call"].items() >= {"name": "add", "args": {"a": 1, "b": 2}}.items()


EVENTS = {"Content-Type": "text/event-stream"}


def openai_body(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    choices = [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, **more}


def anthropic_body(blocks: list[dict[str, Any]], usage: dict[str, int] | None = None) -> dict[str, Any]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_sequence": None}
    return {
        **head,
        "content": blocks,
        "stop_reason": "tool_use",
        "usage": usage or {"input_tokens": 1, "output_tokens": 1},
    }


def anthropic_stream(blocks: list[dict[str, Any]]) -> str:
    """The events of "Streaming Messages", "Streaming response with extended thinking"."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**anthropic_body([]), "stop_reason": None}}]
    for index, block in enumerate(blocks):
        deltas: list[dict[str, Any]] = []
        start = block
        if block["type"] == "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in ("one ", "and two")]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "tool_use":
            start = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}})
    events.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
