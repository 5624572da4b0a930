"""Every failure becomes one `ModelError` that says what failed and whether another try can help."""

import gc
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any

import aiohttp
import httpx
import pytest
import respx
from multidict import CIMultiDict, CIMultiDictProxy
from ports import free_port
from raw_server import Line, SlowServer
from wire_providers import KEY, Play, Provider
from yarl import URL

from agentkit.core.errors import ModelError
from agentkit.core.flow import ask, drive
from agentkit.core.messages import user
from agentkit.engine.model import AskModel, Request
from agentkit.models.litellm.errors import convert_error
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.policies.retries import raise_refusals
from agentkit.testing import ScriptedModel
from agentkit.testing.server import ModelServer
from agentkit.tools.registry import ToolRegistry

HI = [user("hi")]
FAULTS: list[tuple[Any, str, int | None, bool]] = [
    ({"status": 400, "message": "what is that?"}, "bad_request", 400, False),
    ({"status": 401, "message": "no such key"}, "authentication", 401, False),
    ({"status": 403, "message": "not for you"}, "authentication", 403, False),
    ({"status": 404, "message": "no such model"}, "not_found", 404, False),
    ({"status": 422, "message": "odd"}, "bad_request", 422, False),
    ({"status": 429, "message": "slow down"}, "rate_limit", 429, True),
    ({"status": 500, "message": "oh"}, "server", 500, True),
    ({"status": 502, "body": "<html>bad gateway</html>"}, "server", 502, True),
    ({"status": 503, "message": "overloaded"}, "server", 503, True),
    ({"status": 529, "message": "Overloaded"}, "server", 529, True),
    ({"status": 504, "message": "too slow"}, "timeout", 504, True),
    ({"status": 400, "message": "This model's maximum context length is 10 tokens"}, "context", 400, False),
    ({"status": 400, "message": "prompt is too long: 9 > 8"}, "context", 400, False),
    ({"reset": True}, "connection", None, True),
]


def failure(play: Play, model: LiteLLMModel, **asked: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        play(model, HI, **asked)
    return caught.value


def refusal(play: Play, model: LiteLLMModel, **asked: Any) -> ModelError:
    """The error that the policy raises for a reply that reports a refusal."""
    _, reply = play(model, HI, **asked)
    asking = ask(AskModel(ScriptedModel(reply), Request(HI, ToolRegistry())))
    with pytest.raises(ModelError) as caught:
        list(drive(raise_refusals()(asking)))
    return caught.value


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[1]}-{fault[2]}")
def test_a_fault_of_the_provider_is_classified(provider: Provider, play: Play, fault: tuple[Any, ...]) -> None:
    script, kind, status, transient = fault
    with ModelServer(script, script) as server:
        error = failure(play, provider.at(server))
        if not script.get("reset"):  # a client may silently dial again
            assert len(server.requests) == 1
    assert (error.kind, error.status, error.transient) == (kind, status, transient)
    assert str(error).startswith(provider.at(server).name + ": ")
    assert str(script.get("message", "")) in str(error)
    assert "\n" not in str(error)
    assert error.__cause__ is not None


@pytest.mark.parametrize(("script", "kind", "status", "transient"), FAULTS)
def test_before_a_stream_begins_faults_are_classified_alike(
    provider: Provider, play: Play, script: Any, kind: str, status: int | None, transient: bool
) -> None:
    with ModelServer(script, script) as server:  # a client may silently dial again after a reset
        error = failure(play, provider.at(server), stream=True)
    assert (error.kind, error.transient, error.status) == (kind, transient, status)


@pytest.mark.parametrize(("status", "kind", "transient"), [(400, "bad_request", False), (429, "rate_limit", True)])
def test_the_reply_on_a_second_connection_counts(
    provider: Provider, play: Play, stream: bool, status: int, kind: str, transient: bool
) -> None:
    def hang_up_once(line: Line) -> None:
        if len(server.lines) > 1:  # litellm dials again by itself
            line.say(f"HTTP/1.1 {status} Of course\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}")
        line.connection.shutdown(socket.SHUT_WR)
        while line.connection.recv(65536):  # unread bytes would reset the connection
            pass

    with SlowServer(hang_up_once) as server:
        error = failure(play, provider.at(server), stream=stream)
    assert len(server.lines) <= 2
    if len(server.lines) == 2:
        assert (error.kind, error.status, error.transient) == (kind, status, transient)
    else:
        assert (error.kind, error.status, error.transient) == ("connection", None, True)


def test_the_time_that_the_provider_asks_for_is_kept(provider: Provider, play: Play, stream: bool) -> None:
    with ModelServer({"status": 429, "headers": {"Retry-After": "7"}}) as server:
        assert failure(play, provider.at(server), stream=stream).retry_after == 7.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_may_be_milliseconds_a_date_or_nonsense(headers: dict[str, str], seconds: float | None) -> None:
    class SlowDownError(Exception):
        litellm_response_headers = headers

    cause = SlowDownError("slow down")
    assert convert_error(cause, model="m").retry_after == seconds


def test_a_gemini_retry_delay_is_read_from_the_body(play: Play) -> None:
    body = {"error": {"code": 429, "message": "quota", "details": [{"@type": "RetryInfo", "retryDelay": "12.5s"}]}}
    with ModelServer({"status": 429, "body": body}) as server:
        assert failure(play, Provider("gemini").at(server)).retry_after == 12.5


def test_an_empty_account_is_not_asked_again(play: Play) -> None:
    body = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota", "type": "insufficient_quota"}}
    with ModelServer({"status": 429, "body": body}) as server:
        error = failure(play, Provider("openai").at(server))
    assert (error.kind, error.transient) == ("rate_limit", False)


def test_a_body_that_is_not_json_is_a_fault_of_the_server(provider: Provider, play: Play) -> None:
    for body in ("<html>hello</html>", '{"half": '):
        with ModelServer({"status": 200, "body": body}) as server:
            error = failure(play, provider.at(server))
        assert (error.kind, error.transient) == ("server", True), str(error)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "Bad Gateway"),
        ("upstream is gone", "upstream is gone"),
        ("кот", "кот"),
        ("<!DOCTYPE html>\n<h1>Gone</h1>", "Bad Gateway"),
    ],
)
def test_the_error_has_the_plain_text_of_a_body(
    provider: Provider, play: Play, stream: bool, body: str, words: str
) -> None:
    with ModelServer({"status": 502, "body": body}) as server:
        error = failure(play, provider.at(server), stream=stream)
    assert str(error).partition(": ")[2] == f"{words} (HTTP 502)"


def test_a_body_cut_short_is_a_fault_of_the_connection(provider: Provider, play: Play) -> None:
    with ModelServer({"content": "hello", "cut": True}, {"content": "hello", "cut": True}) as server:
        error = failure(play, provider.at(server))
    assert (error.kind, error.transient) == ("connection", True)


def test_a_response_that_is_no_http_is_a_fault_of_the_connection_in_the_words_of_aiohttp() -> None:
    request = aiohttp.RequestInfo(URL("http://127.0.0.1"), "POST", CIMultiDictProxy(CIMultiDict()))
    cause = aiohttp.ClientResponseError(request, (), status=400, message="Invalid character in Content-Length")
    told = convert_error(cause, model="m")
    assert (told.kind, told.transient) == ("connection", True)


@pytest.mark.parametrize(("status", "transient"), [(403, False), (407, False), (502, True)])
def test_a_refusal_of_a_proxy_has_no_status_of_the_provider_in_the_words_of_aiohttp(
    status: int, transient: bool
) -> None:
    class InternalServerError(Exception):
        status_code = 500

    request = aiohttp.RequestInfo(URL("http://127.0.0.1:1"), "CONNECT", CIMultiDictProxy(CIMultiDict()))
    headers = CIMultiDict({"Server": "proxy"})
    cause = InternalServerError("no")
    cause.__cause__ = aiohttp.ClientHttpProxyError(request, (), status=status, message="No", headers=headers)
    told = convert_error(cause, model="m")
    assert (told.transient, told.status) == (transient, None)


def test_an_unanswered_request_times_out(provider: Provider, play: Play, stream: bool) -> None:
    with ModelServer({"delay": 20}) as server:
        error = failure(play, provider.at(server, timeout=0.1), stream=stream)
    assert (error.kind, error.transient) == ("timeout", True)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a connection that was being made when the event loop closed
@pytest.mark.parametrize("play", ["async"], indirect=True)
def test_a_request_that_times_out_while_litellm_prepares_it_leaves_no_warning(provider: Provider, play: Play) -> None:
    with ModelServer() as server:
        for microseconds in range(500, 20_000, 1_500):
            with suppress(ModelError):
                play(provider.at(server, timeout=microseconds / 1_000_000), HI)
            load_litellm().in_memory_llm_clients_cache.flush_cache()  # it may hold such a connection
            gc.collect()  # what was never awaited warns now


def test_a_closed_port_is_a_fault_of_the_connection(provider: Provider, play: Play, stream: bool) -> None:
    with ModelServer() as server:
        path = server.api_base(provider.name).removeprefix(server.url)
        error = failure(play, provider.at(server, api_base=f"http://127.0.0.1:{free_port()}{path}"), stream=stream)
    assert (error.kind, error.transient, error.status) == ("connection", True, None)


@pytest.mark.parametrize(
    "key", [f"{KEY}\n", f"{KEY[:9]}\n{KEY[9:]}", f"\u201c{KEY}\u201d"], ids=["end", "middle", "quotes"]
)
@pytest.mark.parametrize("name", ["openai", "groq", "gemini"])  # newer ones strip that of Anthropic
def test_a_key_that_no_header_can_hold_is_named_and_not_sent_again(
    name: str, key: str, play: Play, stream: bool
) -> None:
    with ModelServer("never asked") as server:
        error = failure(play, Provider(name).at(server, api_key=key), stream=stream)
        assert not server.requests
    assert (error.kind, error.transient) == ("authentication", False)
    assert "a header cannot be sent: the API key, or one of extra_headers, is empty, or holds a line break" in str(
        error
    )
    assert KEY[:9] not in str(error)


def test_an_empty_key_in_the_environment_is_named(play: Play, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    with ModelServer("never asked") as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.api_base("openai"))
        error = failure(play, LiteLLMModel("openai/gpt-4o"), stream=stream)
    assert (error.kind, error.transient) == ("authentication", False)


@pytest.mark.parametrize("name", ["openai", "groq", "gemini"])
def test_a_reply_without_choices_may_be_asked_for_again(name: str, play: Play) -> None:
    empty = {"choices": [], "candidates": [], "service_tier": None, "id": "1", "created": 1, "model": "m"}
    with ModelServer({"body": empty}) as server:
        error = failure(play, Provider(name).at(server))
    assert (error.kind, error.transient) == ("server", True)


def test_an_error_in_a_reply_with_status_200_may_be_asked_for_again(play: Play) -> None:
    with ModelServer({"body": {"error": {"message": "upstream failed", "code": 502}}}) as server:
        error = failure(play, Provider("openai").at(server))
    assert (error.kind, error.transient) == ("server", True)


UNREADABLE = ["", "null", "[1]", '"hello"', "{}", "<html>hello</html>"]


@pytest.mark.parametrize("body", UNREADABLE)
def test_a_reply_that_cannot_be_read_may_be_asked_for_again(
    provider: Provider, play: Play, stream: bool, body: str
) -> None:
    with ModelServer(
        {"body": body, "headers": {"Content-Type": "text/event-stream" if stream else "text/html"}}
    ) as server:
        error = failure(play, provider.at(server), stream=stream)
    assert error.kind in ("server", "connection")
    assert error.transient


def test_an_error_in_a_reply_of_status_200_has_the_provider_s_text(
    provider: Provider, play: Play, stream: bool
) -> None:
    with ModelServer({"error": "upstream failed"}) as server:
        error = failure(play, provider.at(server), stream=stream)
    assert (error.kind, error.transient) == ("server", True)
    assert "upstream failed" in str(error)


@pytest.mark.parametrize("name", ["openai", "groq", "gemini"])
def test_a_stream_without_choices_may_be_asked_for_again(name: str, play: Play, stream: bool) -> None:
    with ModelServer({"empty": True}) as server:
        error = failure(play, Provider(name).at(server), stream=stream)
    assert error.transient
    assert error.kind in ("server", "connection")


@pytest.mark.parametrize("reason", ["PROHIBITED_CONTENT", "OTHER"])
def test_a_blocked_prompt_is_reported_with_its_reason(play: Play, stream: bool, reason: str) -> None:
    with ModelServer({"block_reason": reason}) as server:
        error = refusal(play, Provider("gemini").at(server), stream=stream)
    assert (error.kind, error.transient) == ("refused", False)
    assert reason in str(error)


@pytest.mark.parametrize("name", ["openai/mine", "openai/gpt-4o-mini", "azure/mine", "hosted_vllm/mine", "groq/mine"])
@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_a_request_that_a_filter_stopped_is_refused(name: str, code: str, play: Play, stream: bool) -> None:
    text = "The response was filtered due to the prompt triggering the content management policy."
    with ModelServer({"status": 400, "message": text, "code": code}) as server:
        options = {"api_base": server.api_base("openai"), "api_key": KEY, "api_version": "2024-06-01"}
        error = failure(play, LiteLLMModel(name, **options), stream=stream)
        assert (error.kind, error.transient, error.status) == ("refused", False, 400)
        assert text in str(error)
        assert len(server.requests) == 1


OWN_WORDS = [
    (
        {"message": "The provided model identifier is invalid."},
        400,
        "not_found",
        "The provided model identifier is invalid. (HTTP 400)",
    ),
    (
        {"error": {"message": "The requested model 'x' does not exist.", "code": "model_not_found", "param": "model"}},
        400,
        "not_found",
        "'x' does not exist. (HTTP 400)",
    ),
    (
        {"error": {"message": "Provider returned error", "metadata": {"raw": "x:free is rate-limited upstream."}}},
        429,
        "rate_limit",
        "Provider returned error: x:free is rate-limited upstream. (HTTP 429)",
    ),
    (
        {"error": {"message": "Provider returned error", "metadata": {"raw": '{"error": {"message": "Too hot"}}'}}},
        400,
        "bad_request",
        "Provider returned error: Too hot (HTTP 400)",
    ),
]
"""Bedrock and OpenAI's Responses API have status 400 for an unknown model; OpenRouter has the words of the provider in `raw`."""


@pytest.mark.parametrize(("body", "status", "kind", "text"), OWN_WORDS)
def test_an_error_is_read_as_the_provider_means_it(
    body: dict[str, Any], status: int, kind: str, text: str, play: Play, stream: bool
) -> None:
    with ModelServer({"status": status, "body": body}) as server:
        error = failure(play, Provider("openai").at(server), stream=stream)
    assert (error.kind, error.status) == (kind, status)
    assert str(error).endswith(text)


def test_a_logger_of_the_user_s_own_is_called_as_well(play: Play) -> None:
    heard: list[Any] = []
    with ModelServer("hello") as server:
        play(Provider("openai").at(server, logger_fn=heard.append), HI)
    assert any("hello" in str(details.get("original_response")) for details in heard)


REFUSALS = [
    ("openai", {"finish_reason": "content_filter"}),
    ("groq", {"finish_reason": "content_filter"}),
    ("anthropic", {"finish_reason": "refusal", "content": "I cannot do that."}),
    ("gemini", {"finish_reason": "SAFETY"}),
]


@pytest.mark.parametrize(("name", "reply"), REFUSALS)
def test_a_refusal_carries_the_provider_s_words(name: str, reply: dict[str, Any], play: Play, stream: bool) -> None:
    with ModelServer(reply) as server:
        error = refusal(play, Provider(name).at(server), stream=stream)
    assert (error.kind, error.transient) == ("refused", False)
    assert reply.get("content", "content filter") in str(error)
    assert (name != "gemini") or "(SAFETY)" in str(error)


def test_a_refusal_in_openai_s_own_field_carries_its_words(play: Play) -> None:
    message = {"role": "assistant", "content": None, "refusal": "I'm sorry, no."}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
    with ModelServer({"body": body}) as server:
        error = refusal(play, Provider("openai").at(server))
    assert (error.kind, "I'm sorry, no." in str(error)) == ("refused", True)


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "groq"])
def test_a_missing_key_is_named_before_anything_is_sent(name: str, play: Play, stream: bool) -> None:
    with respx.mock() as nothing_mocked:
        error = failure(play, Provider(name).at_home(), stream=stream)
        assert not nothing_mocked.calls
    assert (error.kind, error.transient) == ("authentication", False)
    assert f"{name.upper()}_API_KEY" in str(error)
    assert "api_key=" in str(error)


@pytest.mark.parametrize("name", ["nonsense", "foo/bar", ""])
def test_the_error_of_an_unknown_model_explains_how_models_are_named(name: str, play: Play) -> None:
    error = failure(play, LiteLLMModel(name))
    assert (error.kind, error.transient) == ("not_found", False)
    assert "provider/name" in str(error)
    assert "groq/llama-3.1-8b-instant" in str(error)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("opnai/gpt-4o", "openai"),
        ("OpenAI/gpt-4o", "openai"),
        (" openai/gpt-4o", "openai"),
        ("openai:gpt-4o", "openai"),
        ("google/gemini-2.5-flash", "gemini"),
        ("lmstudio/x", "lm_studio"),
        ("Offline", "offline"),
    ],
)
def test_the_error_of_a_misspelt_provider_names_the_one_that_may_be_meant(name: str, meant: str, play: Play) -> None:
    error = failure(play, LiteLLMModel(name))
    assert (error.kind, error.transient) == ("not_found", False)
    assert str(error).endswith(f". Did you mean {meant!r}?")


def test_the_error_of_a_model_without_a_provider_has_its_names_with_one(play: Play) -> None:
    error = failure(play, LiteLLMModel("mistral-small-latest"))
    assert str(error).endswith(". Did you mean 'mistral/mistral-small-latest'?")


def test_a_name_of_a_known_provider_in_another_form_has_the_error_of_that_form(play: Play) -> None:
    error = failure(play, LiteLLMModel("ragflow/mine"))
    assert "Invalid RAGFlow model format: ragflow/mine" in str(error)
    assert (error.kind, error.transient, error.status) == ("bad_request", False, None)


def test_the_name_of_a_model_of_a_vllm_server_is_explained(play: Play) -> None:
    error = failure(play, LiteLLMModel("vllm/mine", api_base="http://127.0.0.1:1/v1"))
    assert 'For a server of vLLM write "hosted_vllm/..."' in str(error)


@pytest.mark.parametrize("status", [401, 400, 500])
def test_the_key_is_nowhere_in_the_error(provider: Provider, play: Play, stream: bool, status: int) -> None:
    with ModelServer({"status": status, "message": f"Incorrect API key provided: {KEY}."}) as server:
        error = failure(play, provider.at(server, api_key=KEY), stream=stream)
    told = "".join(traceback.format_exception(error)) + repr(error) + str(vars(error))
    assert any(f"Incorrect API key provided: {mask}." in str(error) for mask in ("***", "REDACTED"))
    assert KEY not in told
    values = [repr(value) for frame, _ in traceback.walk_tb(error.__traceback__) for value in frame.f_locals.values()]
    assert not any(KEY in value for value in values if "Provider(" not in value and "MockRouter" not in value)


def test_the_causes_keep_their_class_and_lose_their_frames(internet: respx.MockRouter, play: Play) -> None:
    internet.post("https://api.openai.com/v1/chat/completions").mock(side_effect=httpx.ConnectError("no route"))
    error = failure(play, LiteLLMModel("openai/gpt-4o-mini"))
    assert error.kind == "connection"
    assert "no route" in str(error)
    link = error.__cause__
    names = []
    while link is not None:
        assert link.__traceback__ is None
        names.append(type(link).__name__)
        link = link.__cause__ or link.__context__
    assert "ConnectError" in names


def test_an_error_that_was_being_handled_already_is_not_a_cause(play: Play) -> None:
    with ModelServer({"status": 401, "message": "no"}) as server:
        try:
            raise httpx.ConnectError("an earlier failure")
        except httpx.ConnectError:
            assert sys.exception() is not None
            error = failure(play, Provider("openai").at(server))
    assert (error.kind, error.transient) == ("authentication", False)


def test_a_stream_without_an_end_is_a_fault_of_the_connection_in_the_words_of_newer_versions() -> None:
    class APIConnectionError(Exception):
        status_code = 500

    class MidStreamFallbackError(Exception):
        status_code = 500
        original_exception = APIConnectionError("OpenAIException - Stream ended before a finish_reason was received")

    told = convert_error(MidStreamFallbackError("x"), model="m", begun=True)
    assert (told.kind, told.transient) == ("connection", True)
