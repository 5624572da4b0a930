"""Images, documents and audio on every wire: where they stand in a request, what is refused, and what is noted."""

import asyncio
import json
import re
from typing import Any

import httpx
import pytest
from files import PDF, PNG, WAV
from pydantic import TypeAdapter
from wire_providers import KEY

from agentkit import Audio, Document, Image, JsonAgent
from agentkit.core.errors import ModelError
from agentkit.core.parts import describe_part
from agentkit.models.litellm.errors import find_refused_parts
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


def note_of(kind: str) -> str:
    """Return what a model reads in the place of a part that it does not take."""
    return describe_part(PARTS[kind].as_part())[:-1] + ": this model cannot see it]"


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
def test_a_part_arrives_or_is_refused_in_a_query_and_noted_in_a_result(
    wire: str, kind: str, mode: str, from_tool: bool
) -> None:
    row = load_litellm().model_cost.get("gemini/gemini-2.5-flash", {})
    if (wire, kind) == ("gemini", "audio") and not row.get("supports_audio_input"):
        pytest.skip("the table of this litellm does not tell that Gemini takes audio")
    replies = [call("show", kind=kind), answer("ok"), answer("ok")] if from_tool else [answer("ok")]
    with ModelServer(*replies) as server:
        agent = JsonAgent(show, model=model(server, wire), retries=0)
        query = "Show it" if from_tool else ["What is this?", PARTS[kind]]
        if kind in TAKEN[wire]:
            assert run_in_mode(agent, mode, query).answer == "ok"
            assert DATA[kind] in json.dumps(server.requests[-1].body)
        elif from_tool:
            assert run_in_mode(agent, mode, query).answer == "ok"
            assert run_in_mode(agent, mode, "And now?").answer == "ok"  # the session continues
            for request in server.requests[1:]:
                assert note_of(kind) in json.dumps(request.body)
                assert DATA[kind] not in json.dumps(request.body)
        else:
            with pytest.raises(ModelError) as caught:
                run_in_mode(agent, mode, query)
            assert caught.value.kind == "bad_request"
            names = {"document": "documents", "audio": "audio"}[kind]
            assert f"{NAMES[wire]}: the model takes no {names}, and a message has [" in str(caught.value)
            assert f"choose a model that takes {names}" in str(caught.value)
            assert DATA[kind] not in str(caught.value)
            assert server.requests == []
        assert server.violations == []


def test_a_model_without_vision_is_known_and_can_be_declared_otherwise() -> None:
    with ModelServer(answer("ok")) as server:
        query = ["What?", PARTS["image"]]
        with pytest.raises(ModelError, match=r"takes no images.*model_info=\{'supports_vision': True\}"):
            JsonAgent(show, model=model(server, "openai", "openai/gpt-3.5-turbo")).run(query)
        declared = model(server, "openai", "openai/gpt-3.5-turbo", model_info={"supports_vision": True})
        assert JsonAgent(show, model=declared).run(query).answer == "ok"


def test_a_note_stands_in_the_place_of_the_label() -> None:
    with ModelServer(call("show", kind="image"), answer("ok")) as server:
        JsonAgent(show, model=model(server, "openai", "openai/gpt-3.5-turbo")).run("Show it")
        assert server.requests[-1].body["messages"][-1]["content"] == note_of("image")


REFUSALS = {
    "OpenAI": (400, "Invalid content type. image_url is only supported by certain models."),
    "llama.cpp": (500, "image input is not supported - hint: you may need to provide the mmproj"),
    "llama.cpp without": (500, 'Failed to parse messages: Unsupported content part type: "image_url"; messages = []'),
    "vLLM": (400, "facebook/opt-125m is not a multimodal model None"),
    "vLLM with limits": (400, "At most 0 image(s) may be provided in one request."),
    "Groq": (400, "messages[1].content must be a string"),
    "DeepSeek": (400, "Failed to deserialize: messages[1]: unknown variant `image_url`, expected `text`"),
    "OpenRouter": (404, "No endpoints found that support image input"),
    "Bedrock": (400, "This model doesn't support the image content block that you provided."),
    "Gemini": (400, "Image input modality is not enabled for models/gemma-3-1b-it"),
    "Ollama": (400, "this model does not support image input (ref: b8bd630e)"),
}


def refuses_images(status: int, text: str) -> Any:
    """Return a reply that refuses images, as a server of a model without vision does."""

    def reply(body: Any) -> Any:
        seen = DATA["image"] in json.dumps(body)
        return {"status": status, "message": text} if seen else answer("ok")

    return reply


@pytest.mark.parametrize("mode", ["sync", "async", "stream"])
@pytest.mark.parametrize("server_name", list(REFUSALS))
def test_an_unknown_model_is_asked_once_and_its_refusal_is_remembered(server_name: str, mode: str) -> None:
    reply = refuses_images(*REFUSALS[server_name])
    with ModelServer(call("show", kind="image"), *[reply] * 5) as server:
        agent = JsonAgent(show, model=model(server, "other"), retries=0)
        assert run_in_mode(agent, mode, "Show it").answer == "ok"
        assert len(server.requests) == 3
        assert run_in_mode(agent, mode, "And now?").answer == "ok"
        assert len(server.requests) == 4
        assert all(note_of("image") in json.dumps(request.body) for request in server.requests[2:])
        with pytest.raises(
            ModelError, match=r"takes no images, and a message has \[image/png, \d+ bytes\]\. Remove it"
        ) as e:
            run_in_mode(agent, mode, ["What?", PARTS["image"]])
        assert "declare" not in str(e.value)
        assert len(server.requests) == 4


def test_a_model_that_takes_texts_and_images_alone_is_known_by_its_refusal() -> None:
    text = "Invalid 'messages[3]'. Content blocks are expected to be either text or image_url type."
    assert find_refused_parts(text) == {"file", "input_audio"}


@pytest.mark.parametrize(
    "text",
    ["Could not process image", "The image format is not supported", "image exceeds 5 MB maximum", "Invalid image URL"],
)
def test_an_error_about_one_image_is_not_remembered(text: str) -> None:
    with ModelServer(call("show", kind="image"), {"status": 400, "message": text}) as server:
        with pytest.raises(ModelError, match=text):
            JsonAgent(show, model=model(server, "other"), retries=0).run("Show it")
        assert len(server.requests) == 2


def test_a_query_with_a_part_that_an_unknown_model_refuses_fails_with_the_words_of_its_server() -> None:
    with ModelServer(refuses_images(*REFUSALS["vLLM"]), answer("ok")) as server:
        agent = JsonAgent(show, model=model(server, "other"), retries=0)
        with pytest.raises(ModelError, match=r"not a multimodal model.*The model takes no images"):
            agent.run(["What?", PARTS["image"]])
        assert agent.run("Then without.").answer == "ok"
        assert len(server.requests) == 2


@pytest.mark.parametrize("tool_mode", ["text", "schema"])
def test_results_that_are_written_as_text_have_notes_too(tool_mode: Any) -> None:
    def text(name: str, **arguments: Any) -> str:
        one = {"name": name, "arguments": arguments}
        return f"<tool_call>{json.dumps(one)}</tool_call>" if tool_mode == "text" else json.dumps({"calls": [one]})

    with ModelServer(text("show", kind="image"), text("final_answer", text="ok")) as server:
        blind = model(server, "openai", "openai/gpt-3.5-turbo")
        assert JsonAgent(show, model=blind, tool_mode=tool_mode, retries=0).run("Show it").answer == "ok"
        assert note_of("image") in json.dumps(server.requests[-1].body)
        assert server.violations == []


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
        content = [*read][-1]["content"] if wire == "responses" else read["content"]
        assert len([*content]) == 1 + len(parts)


UNTYPED = {
    "/v1/chat/completions": {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:;base64,iVBORw0KGgo="}}]}
        ]
    },
    "/v1/responses": {
        "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:;base64,iVBORw0KGgo="}]}]
    },
    "/v1/messages": {
        "max_tokens": 9,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "", "data": "iVBORw0KGgo="}},
                ],
            }
        ],
    },
    "/v1beta/models/gemini-2.5-flash:generateContent": {
        "contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "", "data": "iVBORw0KGgo="}}]}]
    },
}


@pytest.mark.parametrize("path", list(UNTYPED))
def test_the_server_refuses_an_image_without_a_media_type(path: str) -> None:
    body = UNTYPED[path] if "gemini" in path else {"model": "mine", **UNTYPED[path]}
    typed = json.loads(json.dumps(body).replace("data:;", "data:image/png;").replace('ype": ""', 'ype": "image/png"'))
    with ModelServer(answer("ok")) as server:
        refused = httpx.post(server.url + path, json=body)
        assert httpx.post(server.url + path, json=typed).status_code == 200
    assert refused.status_code == 400
    assert re.search("MIME type|media_type", refused.text)


def test_data_is_not_in_an_error_of_the_provider() -> None:
    def refuse(body: Any) -> Any:
        return {"status": 400, "message": f"bad: {body['messages'][1]['content'][1]['image_url']['url']}"}

    big = Image.from_bytes(PNG + bytes(9_000))
    with ModelServer(refuse) as server, pytest.raises(ModelError) as caught:
        JsonAgent(show, model=model(server, "openai"), retries=0).run(["What?", big])
    assert "characters of data)" in str(caught.value)
    assert len(str(caught.value)) < 400
