"""The reasoning of servers in OpenAI's form and of Ollama comes back to them with the results of the calls."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import respx
from wire_providers import KEY, Play

from agentkit import JsonAgent, ModelError, Session
from agentkit.core.messages import Message, ToolCall, calls_of, tool_message, user
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing import ModelServer, answer

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
CONTENT = {"reasoning_content": "one and two"}
REASONING = {"reasoning": "one and two"}
DETAILS = [
    {"type": "reasoning.text", "text": "one and two", "signature": "U0lH", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.encrypted", "data": "c2VjcmV0", "id": "rs_1", "format": "openai-responses-v1", "index": 1},
    {"type": "reasoning.encrypted", "data": "bW9yZQ==", "id": "rs_2", "format": "openai-responses-v1", "index": 2},
    {"type": "reasoning.summary", "summary": "a sum", "format": "openai-responses-v1", "index": 3},
]
BOTH = {**CONTENT, **REASONING}
SENT = {
    "hosted_vllm/qwen": [(CONTENT, BOTH), (REASONING, BOTH)],
    "openai/mine": [(CONTENT, BOTH), (REASONING, BOTH)],
    "lm_studio/mine": [(CONTENT, BOTH)],
    "groq/openai/gpt-oss-20b": [(REASONING, REASONING)],
    "zai/glm-4.6": [(CONTENT, CONTENT)],
    "minimax/MiniMax-M2": [
        (CONTENT, CONTENT),
        ({"reasoning_details": DETAILS[:1]}, {"reasoning_details": DETAILS[:1]}),
    ],
    "deepseek/deepseek-reasoner": [(CONTENT, CONTENT)],
    "openrouter/anthropic/claude-sonnet-4.5": [
        ({**REASONING, "reasoning_details": DETAILS}, {"reasoning_details": DETAILS})
    ],
    "together_ai/mine": [(CONTENT, {})],
}
ROWS = [(name, *row) for name, rows in SENT.items() for row in rows]
BASE = "http://127.0.0.1:9/v1"


def split_details(details: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the entries as a stream has them: texts in pieces, the signature behind them."""
    for entry in details:
        kind = {"reasoning.text": "text", "reasoning.summary": "summary"}.get(entry["type"])
        if kind is None:
            yield [entry]
            continue
        rest = {key: value for key, value in entry.items() if key not in (kind, "signature")}
        yield [{**rest, kind: entry[kind][:4], "signature": None}]
        yield [{**rest, kind: entry[kind][4:]}]
        if "signature" in entry:
            yield [{**rest, "signature": entry["signature"]}]


def respond(fields: dict[str, Any]) -> Any:
    """Return the function that replies with reasoning and a call, whole or streamed."""

    def reply(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        head = {"id": "c", "created": 1, "model": body["model"], "service_tier": "default"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not body.get("stream"):
            message = {"role": "assistant", "content": None, "tool_calls": [CALL], **fields}
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            return httpx.Response(200, json={**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        details = fields.get("reasoning_details", ())
        texts = {key: value for key, value in fields.items() if key != "reasoning_details"}
        deltas = [{"role": "assistant"}, {key: value[:4] for key, value in texts.items()}]
        deltas += [{key: value[4:] for key, value in texts.items()}]
        deltas += [{"reasoning_details": pieces} for pieces in split_details(list(details))]
        deltas += [{"tool_calls": [{"index": 0, **CALL}]}]
        choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
        choices += [[{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], []]
        chunks = [{**head, "object": "chat.completion.chunk", "choices": one} for one in choices]
        chunks[-1]["usage"] = usage
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        return httpx.Response(200, text=text + "data: [DONE]\n\n", headers={"content-type": "text/event-stream"})

    return reply


def model(name: str, **options: Any) -> LiteLLMModel:
    return LiteLLMModel(name, api_base=BASE, api_key=KEY, **options)


def extras_of(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key.startswith("reasoning")}


@pytest.mark.parametrize(("name", "given", "sent"), ROWS, ids=[f"{row[0]}-{'-'.join(row[1])}" for row in ROWS])
def test_reasoning_comes_back(play: Play, stream: bool, name: str, given: dict[str, Any], sent: dict[str, Any]) -> None:
    with respx.mock() as router:
        route = router.post(url__startswith=BASE).mock(side_effect=respond(given))
        backend = model(name)
        _, reply = play(backend, [user("hi")], stream=stream)
        assert reply.message.get("reasoning_content", "one and two") == "one and two"
        history: list[Message] = [user("hi"), reply.message, tool_message(calls_of(reply.message)[0], "3")]
        play(backend, history, stream=stream)
        again = json.loads(route.calls[-1].request.content)["messages"][1]
    assert extras_of(again) == sent


def test_reasoning_of_another_provider_stays_out(play: Play, stream: bool) -> None:
    with respx.mock() as router:
        route = router.post(url__startswith=BASE).mock(side_effect=respond({**REASONING, "reasoning_details": DETAILS}))
        _, reply = play(model("openrouter/z-ai/glm-4.6"), [user("hi")], stream=stream)
        history: list[Message] = [user("hi"), reply.message, tool_message(calls_of(reply.message)[0], "3")]
        for name in ("openai/mine", "zai/glm-4.6", "groq/openai/gpt-oss-20b"):
            play(model(name), history, stream=stream)
            assert extras_of(json.loads(route.calls[-1].request.content)["messages"][1]) == {}


REFUSALS = {
    "Groq": "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property "
    "'reasoning' is unsupported)]",
    "OpenAI": "Unknown parameter: 'messages[1].reasoning_content'.",
    "pydantic": "[{'type': 'extra_forbidden', 'loc': ('body', 'messages', 1, 'reasoning_content'), "
    "'msg': 'Extra inputs are not permitted'}]",
}


@pytest.mark.parametrize("text", list(REFUSALS.values()), ids=list(REFUSALS))
def test_a_server_without_such_a_field_gets_none(play: Play, stream: bool, text: str) -> None:
    def reply(request: httpx.Request) -> httpx.Response:
        if '"reasoning' in request.content.decode():
            return httpx.Response(400, json={"error": {"message": text, "type": "invalid_request_error"}})
        return respond(CONTENT)(request)

    with respx.mock() as router:
        route = router.post(url__startswith=BASE).mock(side_effect=reply)
        backend = model("openai/mine")
        _, first = play(backend, [user("hi")], stream=stream)
        history: list[Message] = [user("hi"), first.message, tool_message(calls_of(first.message)[0], "3")]
        for _ in range(2):
            _, again = play(backend, history, stream=stream)
            assert again.message["tool_calls"]
        assert len(route.calls) == 4  # the first request, a refused one, and two without reasoning


def test_other_errors_about_reasoning_are_not_repeated(play: Play, stream: bool) -> None:
    text = "Unsupported parameter: 'reasoning_effort' is not supported with this model."
    history: list[Message] = [user("hi"), {**respond_message(), "provider": "openai"}, tool_message(ONE, "3")]
    with respx.mock() as router:
        route = router.post(url__startswith=BASE).respond(400, json={"error": {"message": text}})
        with pytest.raises(ModelError, match="reasoning_effort"):
            play(model("openai/mine"), history, stream=stream)
        assert len(route.calls) == 1


ONE = ToolCall("call_1", "add", '{"a": 1, "b": 2}')


def respond_message() -> Message:
    return {"role": "assistant", "content": None, "tool_calls": [CALL], **CONTENT}


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


THINKS = {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}


@pytest.mark.parametrize(
    ("name", "wire", "fields", "key"),
    [
        ("openai/mine", "openai", CONTENT, "reasoning_content"),
        ("hosted_vllm/mine", "openai", REASONING, "reasoning"),
        ("groq/openai/gpt-oss-20b", "groq", REASONING, "reasoning"),
        ("openrouter/openai/gpt-5", "openai", {"reasoning_details": DETAILS}, "reasoning_details"),
        ("zai/glm-4.6", "openai", CONTENT, "reasoning_content"),
        ("ollama_chat/qwen3", "ollama", {"thinking": "one and two"}, "thinking"),
    ],
)
def test_in_a_session_the_servers_accept_it(
    world: Any, stream: bool, tmp_path: Any, name: str, wire: str, fields: dict[str, Any], key: str
) -> None:
    first = {**THINKS, "message": fields} if wire != "ollama" else {**THINKS, **fields}
    with ModelServer(first, answer("3"), answer("4")) as server:
        key_option = {} if wire == "ollama" else {"api_key": KEY}
        backend = LiteLLMModel(name, api_base=server.api_base(wire), **key_option)
        agent = JsonAgent(add, model=backend, retries=0, tool_mode="auto")
        ask = world.stream if stream else world.run
        ask(agent, "What is 1 + 2?")
        agent.session.save(tmp_path / "session.json")
        other = JsonAgent(add, model=backend, retries=0)
        ask(other, "And 2 + 2?", session=Session.load(tmp_path / "session.json"))
        assert server.violations == []
        for request in server.requests[1:]:
            written = next(message for message in request.body["messages"] if message["role"] == "assistant")
            assert written[key] == fields[key]
