"""Images, documents and audio on every wire: where they stand in a request, and what is refused before it."""

import asyncio
import json
from typing import Any

import pytest
from files import PDF, PNG, WAV
from pydantic import TypeAdapter
from wire_providers import KEY

from agentkit import Audio, Document, Image, JsonAgent
from agentkit.core.errors import ModelError
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing import ModelServer, answer, call

PARTS = {"image": Image.from_bytes(PNG), "document": Document.from_bytes(PDF), "audio": Audio.from_bytes(WAV)}
DATA = {
    kind: str(part.as_part()).partition("base64,")[2][:40] or part.as_part()["input_audio"]["data"]
    for kind, part in PARTS.items()
}
NAMES = {
    "openai": "openai/gpt-4o-mini",
    "responses": "openai/responses/gpt-5-mini",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama": "ollama_chat/llava",
    "groq": "groq/mine",
    "other": "openai/mine",
}
TAKEN = {
    "openai": {"image", "document"},
    "responses": {"image", "document"},
    "anthropic": {"image", "document"},
    "gemini": {"image", "document", "audio"},
    "ollama": {"image"},
    "groq": {"image"},
    "other": {"image", "document", "audio"},
}


def show(kind: str) -> Any:
    """Shows."""
    return PARTS[kind]


def model(server: ModelServer, wire: str, name: str = "", **options: Any) -> LiteLLMModel:
    key = {} if wire == "ollama" else {"api_key": KEY}
    base = server.api_base({"responses": "openai", "other": "openai"}.get(wire, wire))
    return LiteLLMModel(name or NAMES[wire], api_base=base, **key, **options)


def run_in_mode(agent: JsonAgent, mode: str, query: Any) -> Any:
    if mode == "async":
        return asyncio.run(agent.arun(query))
    return [*agent.stream(query)][-1].result if mode == "stream" else agent.run(query)


@pytest.mark.parametrize("mode", ["sync", "async", "stream"])
@pytest.mark.parametrize("kind", list(PARTS))
@pytest.mark.parametrize("wire", list(NAMES))
@pytest.mark.parametrize("from_tool", [False, True], ids=["query", "result"])
def test_a_part_arrives_or_is_refused_before_the_request(wire: str, kind: str, mode: str, from_tool: bool) -> None:
    row = load_litellm().model_cost.get("gemini/gemini-2.5-flash", {})
    if (wire, kind) == ("gemini", "audio") and not row.get("supports_audio_input"):
        pytest.skip("the table of this litellm does not tell that Gemini takes audio")
    replies = [call("show", kind=kind), answer("ok")] if from_tool else [answer("ok")]
    with ModelServer(*replies) as server:
        agent = JsonAgent(show, model=model(server, wire), retries=0)
        query = "Show it" if from_tool else ["What is this?", PARTS[kind]]
        if kind in TAKEN[wire]:
            assert run_in_mode(agent, mode, query).answer == "ok"
            assert DATA[kind] in json.dumps(server.requests[-1].body)
        else:
            with pytest.raises(ModelError) as caught:
                run_in_mode(agent, mode, query)
            assert caught.value.kind == "bad_request"
            names = {"document": "documents", "audio": "audio"}[kind]
            where = "the result of show" if from_tool else "a message"
            assert f"{NAMES[wire]}: the model takes no {names}, and {where} has [" in str(caught.value)
            assert f"choose a model that takes {names}" in str(caught.value)
            assert DATA[kind] not in str(caught.value)
            assert len(server.requests) == from_tool
        assert server.violations == []


def test_a_model_without_vision_is_known_and_can_be_declared_otherwise() -> None:
    with ModelServer(answer("ok")) as server:
        query = ["What?", PARTS["image"]]
        with pytest.raises(ModelError, match=r"takes no images.*model_info=\{'supports_vision': True\}"):
            JsonAgent(show, model=model(server, "openai", "openai/gpt-3.5-turbo")).run(query)
        declared = model(server, "openai", "openai/gpt-3.5-turbo", model_info={"supports_vision": True})
        assert JsonAgent(show, model=declared).run(query).answer == "ok"


def test_a_fallback_model_that_takes_it_is_asked() -> None:
    with ModelServer(answer("ok")) as server:
        blind = model(server, "openai", "openai/gpt-3.5-turbo")
        seeing = model(server, "openai")
        agent = JsonAgent(show, model=blind, fallback_models=[seeing], retries=0)
        assert agent.run(["What?", PARTS["image"]]).answer == "ok"
        assert [request.body["model"] for request in server.requests] == ["gpt-4o-mini"]


def test_an_address_is_sent_as_it_is() -> None:
    with ModelServer(answer("ok")) as server:
        JsonAgent(show, model=model(server, "openai")).run(["What?", Image.from_url("https://example.com/a.png")])
        assert server.requests[0].body["messages"][1]["content"][1]["image_url"] == {"url": "https://example.com/a.png"}


def test_what_a_result_may_not_hold_follows_it_as_a_message() -> None:
    calls = {"tool_calls": [{"name": "show", "arguments": {"kind": kind}} for kind in ("document", "image")]}
    with ModelServer(calls, answer("ok")) as server:
        JsonAgent(show, model=model(server, "openai")).run("Show it")
        assert server.violations == []
        roles = [message["role"] for message in server.requests[-1].body["messages"]]
        body = json.dumps(server.requests[-1].body)
    assert roles[:5] == ["system", "user", "assistant", "tool", "tool"]
    assert "[Output of the tool show:]" in body
    assert DATA["image"] in body
    assert DATA["document"] in body


def test_an_image_of_a_result_never_follows_it_directly_where_a_template_is_rendered() -> None:
    with ModelServer(call("show", kind="image"), answer("ok")) as server:
        JsonAgent(show, model=model(server, "openai")).run("Show it")
        roles = [message["role"] for message in server.requests[-1].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_the_sdk_s_types_take_them() -> None:
    chat = pytest.importorskip("openai.types.chat")
    anthropic = pytest.importorskip("anthropic.types")
    responses = pytest.importorskip("openai.types.responses")
    adapters = {
        "other": TypeAdapter(chat.ChatCompletionUserMessageParam),
        "anthropic": TypeAdapter(anthropic.MessageParam),
        "responses": TypeAdapter(responses.ResponseInputParam),
    }
    for wire, adapter in adapters.items():
        with ModelServer(answer("ok")) as server:
            parts = [PARTS[kind] for kind in PARTS if kind in TAKEN[wire]]
            JsonAgent(show, model=model(server, wire)).run(["What?", *parts])
            body = server.requests[0].body
        read = adapter.validate_python(body["input"] if wire == "responses" else body["messages"][-1])
        content = read[0]["content"] if wire == "responses" else read["content"]
        assert len([*content]) == 1 + len(parts)


def test_data_is_not_in_an_error_of_the_provider() -> None:
    def refuse(body: Any) -> Any:
        return {"status": 400, "message": f"bad: {body['messages'][1]['content'][1]['image_url']['url']}"}

    big = Image.from_bytes(PNG + bytes(9_000))
    with ModelServer(refuse) as server, pytest.raises(ModelError) as caught:
        JsonAgent(show, model=model(server, "openai"), retries=0).run(["What?", big])
    assert "characters of data)" in str(caught.value)
    assert len(str(caught.value)) < 400
