"""What real servers do beside the providers: refuse connections or images, sit behind a proxy, lack a scheme."""

import socket
from pathlib import Path
from typing import Any

import pytest
import respx
from internet import Server, certificate, tls_server
from ports import free_port
from raw_server import Line, SlowServer
from wire_providers import Play, Provider

from agentkit import ModelError
from agentkit.core.messages import ToolCall, assistant, tool_message, user
from agentkit.models import LiteLLMModel
from agentkit.testing.server import ModelServer

__all__ = ["certificate", "tls_server"]  # fixtures

HI = [user("hi")]


@pytest.mark.parametrize("name", ["ollama_chat/llama3.1", "openai/m", "groq/m"])
def test_a_refused_connection_names_the_address_and_asks_whether_the_server_runs(
    name: str, play: Play, stream: bool
) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ModelError) as caught:
        play(LiteLLMModel(name, api_base=f"http://{address}", api_key="k"), HI, stream=stream)
    assert f"{address}: is it running?" in str(caught.value)
    assert (caught.value.kind, caught.value.transient) == ("connection", True)


@pytest.mark.parametrize("name", ["ollama_chat/llama3.1", "openai/m", "anthropic/m"])
def test_an_unknown_host_is_named_and_the_question_is_whether_the_machine_is_online(
    name: str, play: Play, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(ModelError) as caught:
        play(LiteLLMModel(name, api_base="https://shop.example", api_key="k"), HI, stream=stream)
    assert str(caught.value).endswith(
        "shop.example:443 was not found: is this machine online, and is the address right?"
    )
    assert "ssl:" not in str(caught.value)
    assert (caught.value.kind, caught.value.transient) == ("connection", True)


@pytest.mark.parametrize("name", ["ollama_chat/llama3.1", "openai/m", "anthropic/m"])
def test_a_certificate_that_is_not_trusted_is_refused_for_good_and_the_remedy_is_named(
    name: str, play: Play, stream: bool, tls_server: Server
) -> None:
    with pytest.raises(ModelError, match="set SSL_CERT_FILE to the file of its authority") as caught:
        play(LiteLLMModel(name, api_base=f"https://{tls_server.host}", api_key="k"), HI, stream=stream)
    assert f"https://{tls_server.host}" in str(caught.value)
    assert (caught.value.kind, caught.value.transient) == ("connection", False)


@pytest.mark.parametrize("name", ["ollama_chat/llama3.1", "openai/m", "anthropic/m"])
def test_an_address_with_https_of_a_server_without_tls_is_refused_for_good(name: str, play: Play, stream: bool) -> None:
    with ModelServer() as server, pytest.raises(ModelError, match="answers without TLS") as caught:
        play(LiteLLMModel(name, api_base=server.url.replace("http:", "https:"), api_key="k"), HI, stream=stream)
    assert (caught.value.kind, caught.value.transient) == ("connection", False)


@pytest.mark.parametrize("name", ["openai/m", "anthropic/m"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_does_not_run_is_named_and_not_the_server(
    scheme: str, name: str, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://me:secret-of-mine@{proxy}/")
    with pytest.raises(ModelError) as caught:
        play(LiteLLMModel(name, api_base=f"{scheme}://shop.example", api_key="k"), HI)
    assert f"No server accepts connections at the proxy {proxy} ({scheme.upper()}_PROXY) for" in str(caught.value)
    assert "secret-of-mine" not in str(caught.value)
    assert (caught.value.kind, caught.value.transient) == ("connection", True)


PROXY_ANSWERS = [
    (407, "authentication", False, r"Write the login of the proxy [\d.:]+ \(HTTPS?_PROXY\) into its address"),
    (403, "connection", False, "Set NO_PROXY=shop.example to go past it"),
    (503, "connection", True, "Set NO_PROXY=shop.example to go past it"),
]


@pytest.mark.parametrize(("status", "kind", "transient", "remedy"), PROXY_ANSWERS)
@pytest.mark.parametrize("name", ["openai/m", "anthropic/m"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_answer_of_a_proxy_is_distinguished_from_one_of_the_server(
    scheme: str,
    name: str,
    status: int,
    kind: str,
    transient: bool,
    remedy: str,
    play: Play,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(line: Line) -> None:
        line.say(
            f"HTTP/1.1 {status} No\r\nContent-Type: text/html\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>"
        )

    with SlowServer(refuse) as proxy:
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", proxy.api_base("anthropic"))
        with pytest.raises(ModelError, match=remedy) as caught:
            play(LiteLLMModel(name, api_base=f"{scheme}://shop.example", api_key="k"), HI)
    assert caught.value.transient == transient
    if scheme == "https":
        assert (caught.value.kind, caught.value.status) == (kind, None)
    else:
        assert caught.value.status == status


@pytest.mark.parametrize("base", ["localhost:8000/v1", "127.0.0.1:11434"])
@pytest.mark.parametrize("name", ["openai/m", "ollama_chat/m"])
def test_an_address_without_a_scheme_is_refused_for_good(name: str, base: str, play: Play) -> None:
    with pytest.raises(ModelError) as caught:
        play(LiteLLMModel(name, api_base=base, api_key="k"), HI)
    assert f"has no scheme. Write api_base='http://{base}'" in str(caught.value)
    assert (caught.value.kind, caught.value.transient) == ("bad_request", False)


def test_an_address_without_a_scheme_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch, play: Play) -> None:
    monkeypatch.setenv("OLLAMA_API_BASE", "localhost:11434")
    with pytest.raises(ModelError, match="has no scheme"):
        play(LiteLLMModel("ollama_chat/m"), HI)


@pytest.mark.parametrize(
    "base",
    [
        " http://127.0.0.1/v1",
        "http://127.0.0.1/v1\n",
        '"http://127.0.0.1/v1"',
        "http://127.0.0.1:port/v1",
        "http://127.0.0.1:99999/v1",
        "http://http://127.0.0.1/v1",
        "http:///v1",
        "http://[::1/v1",
        "ws://127.0.0.1/v1",
    ],
)
def test_an_address_that_is_no_url_is_refused_for_good(base: str, play: Play) -> None:
    with pytest.raises(ModelError, match=r"is not one\. Write it as") as caught:
        play(LiteLLMModel("openai/m", api_base=base, api_key="k"), HI)
    assert repr(base) in str(caught.value)
    assert (caught.value.kind, caught.value.transient) == ("bad_request", False)


@pytest.mark.parametrize("name", ["custom_openai/m", "hosted_vllm/m", "litellm_proxy/m", "lm_studio/m"])
def test_a_conversation_with_a_server_without_an_address_does_not_go_to_openai(
    name: str, play: Play, stream: bool, internet: respx.MockRouter
) -> None:
    model = LiteLLMModel(name)
    with pytest.raises(ModelError, match="no address of the server: pass api_base=") as caught:
        play(model, HI, stream=stream)
    assert (caught.value.kind, caught.value.transient) == ("bad_request", False)
    assert not internet.calls


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("custom_openai/m", "OPENAI_BASE_URL"),
        ("hosted_vllm/m", "HOSTED_VLLM_API_BASE"),
        ("litellm_proxy/m", "LITELLM_PROXY_API_BASE"),
        ("lm_studio/m", "LM_STUDIO_API_BASE"),
    ],
)
def test_the_address_of_a_server_may_stand_in_the_environment(
    name: str, variable: str, play: Play, keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer("hello", strict=False) as server:  # the route to a proxy sends a key of litellm's own
        monkeypatch.setenv(variable, server.api_base("openai"))
        assert play(LiteLLMModel(name), HI)[1].message["content"] == "hello"


NO_PATH = [
    ("hosted_vllm/m", 404, {"detail": "Not Found"}),
    ("hosted_vllm/m", 405, {"detail": "Method Not Allowed"}),
    ("ollama_chat/m", 404, "404 page not found"),
    ("openai/m", 404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}),
    ("lm_studio/m", 200, {"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
]


@pytest.mark.parametrize(("name", "status", "body"), NO_PATH)
def test_a_server_without_the_path_of_the_request_asks_whether_the_address_is_right(
    name: str, status: int, body: Any, play: Play, stream: bool
) -> None:
    with ModelServer({"status": status, "body": body}) as server:
        with pytest.raises(ModelError, match="The server has no such path: is api_base right") as caught:
            play(LiteLLMModel(name, api_base=server.api_base("openai"), api_key="k"), HI, stream=stream)
        assert len(server.requests) == 1
    assert (caught.value.kind, caught.value.transient) == ("not_found", False)


def test_an_unknown_model_of_a_server_is_no_fault_of_the_address(play: Play, stream: bool) -> None:
    body = {"object": "error", "message": "The model `m` does not exist.", "type": "NotFoundError", "code": 404}
    with ModelServer({"status": 404, "body": body}) as server, pytest.raises(ModelError) as caught:
        play(Provider("openai").at(server), HI, stream=stream)
    assert str(caught.value).endswith("The model `m` does not exist. (HTTP 404)")


def test_tools_that_llama_cpp_takes_with_an_option_alone_are_refused_for_good(play: Play, stream: bool) -> None:
    body = {"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}}
    with ModelServer({"status": 500, "body": body}) as server, pytest.raises(ModelError, match="--jinja") as caught:
        play(Provider("openai").at(server), HI, stream=stream)
    assert (caught.value.kind, caught.value.transient) == ("bad_request", False)


def test_an_unknown_key_of_gemini_is_one_of_authentication(play: Play, stream: bool) -> None:
    reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    body = {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": [reason]}}
    with ModelServer({"status": 400, "body": body}) as server, pytest.raises(ModelError) as caught:
        play(Provider("gemini").at(server), HI, stream=stream)
    assert (caught.value.kind, caught.value.transient, caught.value.status) == ("authentication", False, 400)


@pytest.mark.parametrize("content", [None, "not JSON"])
def test_a_file_of_credentials_of_vertex_that_cannot_be_read_is_refused_for_good(
    content: str | None, play: Play, stream: bool, tmp_path: Path
) -> None:
    file = tmp_path / "account.json"
    if content is not None:
        file.write_text(content)
    model = LiteLLMModel("vertex_ai/gemini-2.5-flash", vertex_project="p", vertex_credentials=str(file))
    with pytest.raises(ModelError, match="vertex credentials") as caught:
        play(model, HI, stream=stream)
    assert (caught.value.kind, caught.value.transient) == ("authentication", False)


def test_a_bare_name_that_litellm_takes_for_vertex_names_the_gemini_api(
    play: Play, stream: bool, tmp_path: Path
) -> None:
    model = LiteLLMModel("gemini-2.5-flash", vertex_project="p", vertex_credentials=str(tmp_path / "account.json"))
    with pytest.raises(ModelError, match="vertex credentials") as caught:
        play(model, HI, stream=stream)
    assert str(caught.value).endswith("With a key of the Gemini API: 'gemini/gemini-2.5-flash'.")


@pytest.mark.parametrize(
    "message",
    [
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        "some-model is not a multimodal model",
        "No endpoints found that support image input",
    ],
)
def test_a_refusal_of_images_is_permanent_and_names_the_remedy(message: str, play: Play, stream: bool) -> None:
    with ModelServer({"status": 500, "message": message}) as server, pytest.raises(ModelError) as caught:
        play(Provider("openai").at(server), HI, stream=stream)
    assert "choose a model with vision" in str(caught.value)
    assert (caught.value.kind, caught.value.transient) == ("bad_request", False)


def test_groq_gets_no_stream_options_and_its_usage_is_read(play: Play) -> None:
    with ModelServer("hello") as server:
        _, reply = play(Provider("groq").at(server), HI, stream=True)
    assert server.violations == []
    assert "stream_options" not in server.requests[0].body
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10, 5)


def test_ollama_gets_the_name_and_the_id_of_each_call(play: Play, stream: bool) -> None:
    calls = [ToolCall("call_1", "add", '{"a": 1, "b": 2}'), ToolCall("call_2", "now", "{}")]
    results = [tool_message(calls[1], "noon"), tool_message(calls[0], "3")]
    with ModelServer("done") as server:
        play(Provider("ollama").at(server), [*HI, assistant(None, calls), *results], stream=stream)
    _, made, *sent = server.requests[0].body["messages"]
    assert [call["id"] for call in made["tool_calls"]] == ["call_1", "call_2"]
    assert [(one["tool_name"], one["tool_call_id"], one["content"]) for one in sent] == [
        ("now", "call_2", "noon"),
        ("add", "call_1", "3"),
    ]


def test_the_cost_that_a_litellm_proxy_reports_counts(play: Play) -> None:
    with ModelServer({"body": WHOLE, "headers": {"x-litellm-response-cost": "0.0125"}}) as server:
        _, reply = play(LiteLLMModel("openai/some-alias", api_base=server.api_base("openai"), api_key="k"), HI)
    assert reply.usage.cost == 0.0125


WHOLE: dict[str, Any] = {
    "id": "1", "object": "chat.completion", "created": 1, "model": "some-alias",
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
}  # fmt: skip


STREAM = """\
data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795331511,"model":"shop-alias","service_tier":"default","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795331511,"model":"shop-alias","service_tier":"default","choices":[{"index":0,"delta":{"content":"hello"}}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795331511,"model":"shop-alias","service_tier":"default","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"chatcmpl-1","created":1795331511,"model":"shop-alias","object":"chat.completion.chunk","choices":[{"index":0,"delta":{}}],"usage":{"completion_tokens":100,"prompt_tokens":1000,"total_tokens":1100,"completion_tokens_details":{"reasoning_tokens":0,"text_tokens":100},"cost":0.00021},"service_tier":"default"}

data: [DONE]

"""
"""What the proxy of litellm 1.105.3 sent for a stream with `include_usage`."""


@pytest.mark.parametrize("name", ["openai/shop-alias", "openrouter/shop/alias", "hosted_vllm/shop-alias"])
def test_the_cost_in_the_usage_of_a_stream_counts(name: str, play: Play) -> None:
    with ModelServer({"body": STREAM, "headers": {"Content-Type": "text/event-stream"}}, strict=False) as server:
        _, reply = play(LiteLLMModel(name, api_base=server.api_base("openai"), api_key="k"), HI, stream=True)
    assert (reply.message["content"], reply.usage.cost) == ("hello", 0.00021)


@pytest.mark.parametrize("name", ["openai/shop-alias", "openrouter/shop/alias"])
def test_the_cost_in_the_usage_of_a_whole_reply_counts(name: str, play: Play) -> None:
    body = {**WHOLE, "usage": {**WHOLE["usage"], "cost": 0.5, "cost_details": {"upstream_inference_cost": None}}}
    with ModelServer({"body": body}, strict=False) as server:
        _, reply = play(LiteLLMModel(name, api_base=server.api_base("openai"), api_key="k"), HI)
    assert reply.usage.cost == 0.5


def test_the_wait_that_a_litellm_proxy_passes_on_is_respected(play: Play, stream: bool) -> None:
    refusal = {"status": 429, "headers": {"llm_provider-retry-after": "7"}}
    with ModelServer(refusal) as server, pytest.raises(ModelError) as caught:
        play(Provider("openai").at(server), HI, stream=stream)
    assert caught.value.retry_after == 7
