"""Streams that end early, fail halfway or are abandoned."""

import asyncio
import json
import re
import socket
from typing import Any

import pytest
from raw_server import Line, SlowServer
from waiting import wait_until, without_collector
from wire_providers import Play, Provider

from agentkit.core.errors import ModelError
from agentkit.core.messages import calls_of, user
from agentkit.engine.model import Request, TextDelta
from agentkit.models.litellm.importing import load_litellm
from agentkit.testing.server import ModelServer
from agentkit.testing.wires import drop_missing, find_wire
from agentkit.tools.registry import ToolRegistry

HI = [user("hi")]
PATHS = {"openai": "/chat/completions", "groq": "/chat/completions", "anthropic": "/v1/messages", "ollama": "/api/chat"}
EVENTS = {"Content-Type": "text/event-stream"}
CALLS = {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}, {"name": "now"}]}


@pytest.fixture(params=["unobserved", "observed"])
def _observed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a callback of the host, streams are read through litellm's wrapper, which invents a proper end."""
    if request.param == "observed":
        monkeypatch.setattr(load_litellm(), "success_callback", [lambda *_: None])


@pytest.mark.usefixtures("_observed")
@pytest.mark.parametrize("reply", [{"content": "hello to you"}, CALLS], ids=["text", "calls"])
def test_a_cut_stream_is_a_fault_of_the_connection(provider: Provider, play: Play, reply: dict[str, Any]) -> None:
    with ModelServer({**reply, "cut": True}) as server, pytest.raises(ModelError) as caught:
        play(provider.at(server), HI, stream=True)
    assert (caught.value.kind, caught.value.transient) == ("connection", True)


@pytest.mark.usefixtures("_observed")
@pytest.mark.parametrize("reply", [{"content": "hello to you"}, CALLS], ids=["text", "calls"])
def test_a_whole_stream_is_not_taken_for_a_cut_one(provider: Provider, play: Play, reply: dict[str, Any]) -> None:
    with ModelServer(reply) as server:
        _, answer = play(provider.at(server), HI, stream=True)
    assert answer.message["content"] == reply.get("content")
    assert [(call.name, json.loads(call.arguments)) for call in calls_of(answer.message)] == (
        [("add", {"a": 1, "b": 2}), ("now", {})] if reply is CALLS else []
    )
    assert answer.usage.input_tokens == 10


IN_BAND = {
    "openai": {"error": {"message": "upstream failed", "type": "server_error"}},
    "groq": {"error": {"message": "upstream failed", "type": "server_error"}},
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "upstream failed"}},
    "gemini": {"error": {"code": 503, "message": "upstream failed", "status": "UNAVAILABLE"}},
}


@pytest.mark.usefixtures("_observed")
@pytest.mark.parametrize("name", list(IN_BAND))
def test_an_error_within_a_stream_may_be_tried_again(name: str, play: Play) -> None:
    wire = find_wire(PATHS.get(name, "x:generateContent"))
    assert wire is not None
    begun = list(wire.build_pieces({"content": "hello to you"}, "m"))[:2]
    body = "".join([*begun, f"data: {json.dumps(IN_BAND[name])}\n\n"])
    with (
        ModelServer({"body": body, "headers": {"Content-Type": "text/event-stream"}}) as server,
        pytest.raises(ModelError) as caught,
    ):
        play(Provider(name).at(server), HI, stream=True)
    assert (caught.value.kind, caught.value.transient) == ("server", True)
    assert "upstream failed" in str(caught.value)


def openai_error(kind: str | None, code: Any = None) -> dict[str, Any]:
    return {"error": {"message": "said so", "type": kind, "param": None, "code": code}}


def anthropic_error(kind: str, message: str = "said so") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def gemini_error(code: int) -> dict[str, Any]:
    return {"error": {"code": code, "message": "said so", "status": "ANY"}}


ERRORS: list[tuple[str, dict[str, Any], str, bool]] = [
    ("openai", openai_error("invalid_request_error"), "bad_request", False),
    ("openai", openai_error("BadRequestError", "400"), "bad_request", False),
    ("openai", openai_error("invalid_request_error", "invalid_api_key"), "authentication", False),
    ("openai", openai_error("invalid_request_error", "model_not_found"), "not_found", False),
    ("openai", openai_error("invalid_request_error", "context_length_exceeded"), "context", False),
    ("openai", openai_error(None, "content_filter"), "refused", False),
    ("openai", openai_error("insufficient_quota", "insufficient_quota"), "rate_limit", False),
    ("openai", openai_error("requests", "rate_limit_exceeded"), "rate_limit", True),
    ("openai", openai_error("server_error"), "server", True),
    ("openai", openai_error("odd", "strange"), "server", True),
    ("groq", openai_error("invalid_request_error"), "bad_request", False),
    ("groq", openai_error("invalid_request_error", "tool_use_failed"), "server", True),
    ("anthropic", anthropic_error("invalid_request_error"), "bad_request", False),
    ("anthropic", anthropic_error("authentication_error"), "authentication", False),
    ("anthropic", anthropic_error("permission_error"), "authentication", False),
    ("anthropic", anthropic_error("request_too_large"), "context", False),
    (
        "anthropic",
        anthropic_error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        "context",
        False,
    ),
    (
        "anthropic",
        anthropic_error("invalid_request_error", "Output blocked by content filtering policy"),
        "refused",
        False,
    ),
    ("anthropic", anthropic_error("rate_limit_error"), "rate_limit", True),
    ("anthropic", anthropic_error("overloaded_error"), "server", True),
    ("gemini", gemini_error(400), "bad_request", False),
    ("gemini", gemini_error(403), "authentication", False),
    ("gemini", gemini_error(429), "rate_limit", True),
    ("ollama", {"error": "the input length exceeds the context length"}, "context", False),
    ("ollama", {"error": "model runner has unexpectedly stopped"}, "server", True),
]


@pytest.mark.usefixtures("_observed")
@pytest.mark.parametrize(("name", "error", "kind", "transient"), ERRORS)
def test_an_error_in_a_reply_of_status_200_is_classified_as_one_of_another_status(
    name: str, error: dict[str, Any], kind: str, transient: bool, play: Play, stream: bool
) -> None:
    wire = find_wire(PATHS.get(name, "x:generateContent"))
    assert wire is not None
    begun = "".join([*wire.build_pieces({"content": "hello to you"}, "m")][:2])
    line = json.dumps(error)
    body = begun + (f"{line}\n" if name == "ollama" else f"data: {line}\n\n")
    with (
        ModelServer({"body": body if stream else line, "headers": {"Content-Type": wire.content_type}}) as server,
        pytest.raises(ModelError) as caught,
    ):
        play(Provider(name).at(server), HI, stream=stream)
    assert (caught.value.kind, caught.value.transient) == (kind, transient)
    message = error["error"]["message"] if name != "ollama" else error["error"]
    assert message in str(caught.value)


def test_an_error_line_of_llama_cpp_is_an_error(play: Play) -> None:
    error = {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}
    with (
        ModelServer({"body": f"error: {json.dumps(error)}\n\n", "headers": EVENTS}) as server,
        pytest.raises(ModelError, match="Context size has been exceeded") as caught,
    ):
        play(Provider("openai").at(server), HI, stream=True)
    assert (caught.value.kind, caught.value.transient) == ("context", False)


def test_an_error_without_contents_is_no_error(play: Play) -> None:
    delta = {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}], "error": {"message": "", "code": None}}
    body = f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n"
    with ModelServer({"body": body, "headers": EVENTS}) as server:
        _, reply = play(Provider("openai").at(server), HI, stream=True)
    assert reply.message["content"] == "hi"


def test_a_connection_that_fails_behind_a_complete_reply_does_not_cost_it(provider: Provider, play: Play) -> None:
    wire = find_wire(PATHS.get(provider.name, "x:streamGenerateContent"))
    assert wire is not None
    body = "".join(wire.build_pieces({"content": "hello to you"}, "m"))

    def answer(line: Line) -> None:
        line.say(f"HTTP/1.1 200 OK\r\nContent-Type: {wire.content_type}\r\nTransfer-Encoding: chunked\r\n\r\n")
        line.chunk(body)  # and not the last chunk, of no bytes
        line.connection.shutdown(socket.SHUT_RDWR)

    with SlowServer(answer) as server:
        _, reply = play(provider.at(server), HI, stream=True)
        assert len(server.lines) == 1
    assert (reply.message["content"].split(), reply.usage.input_tokens) == (["hello", "to", "you"], 10)


@pytest.mark.usefixtures("_observed")
def test_a_carriage_return_ends_a_line(provider: Provider, play: Play) -> None:
    wire = find_wire(PATHS.get(provider.name, "x:streamGenerateContent"))
    assert wire is not None
    body = "".join(wire.build_pieces({"content": "hello to you"}, "m")).replace("\n", "\r")
    with ModelServer({"body": body, "headers": {"Content-Type": wire.content_type}}) as server:
        _, reply = play(provider.at(server), HI, stream=True)
    assert reply.message["content"].split() == ["hello", "to", "you"]


def test_calls_that_share_an_index_are_distinguished_by_their_ids(play: Play) -> None:
    pieces = [
        {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1'}},
        {"index": 0, "function": {"arguments": ', "b": 2}'}},
        {"index": 0, "id": "c2", "type": "function", "function": {"name": "now", "arguments": ""}},
    ]
    frame = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [{"index": 0, "delta": {"tool_calls": [piece]}, "finish_reason": None} for piece in pieces]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    body = "".join(f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n" for choice in choices) + "data: [DONE]\n\n"
    with ModelServer({"body": body, "headers": {"Content-Type": "text/event-stream"}}) as server:
        _, reply = play(Provider("openai").at(server), HI, stream=True)
    assert [(call.id, call.name, call.arguments) for call in calls_of(reply.message)] == [
        ("c1", "add", '{"a": 1, "b": 2}'),
        ("c2", "now", "{}"),
    ]


def test_an_abandoned_stream_is_closed_at_once(provider: Provider) -> None:
    request = Request(HI, ToolRegistry(), stream=True)
    endless = {"content": "hello " * 1000, "pace": 0.01}

    async def begin(server: ModelServer) -> None:
        stream = provider.at(server).aask(request)
        assert isinstance(await anext(stream), TextDelta)
        await stream.aclose()
        await asyncio.to_thread(wait_until, lambda: server.hung_up == 2)

    with ModelServer(endless, endless) as server, without_collector():
        pieces = provider.at(server).ask(request)
        assert isinstance(next(pieces), TextDelta)
        pieces.close()
        wait_until(lambda: server.hung_up == 1)
        asyncio.run(begin(server))


def test_a_cancelled_request_is_cancelled(provider: Provider, stream: bool) -> None:
    async def cancelled(server: ModelServer) -> None:
        asked = provider.at(server).aask(Request(HI, ToolRegistry(), stream=stream))
        task = asyncio.ensure_future(anext(asked))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with ModelServer({"content": "late", "delay": 0.5}) as server:
        asyncio.run(cancelled(server))


def test_what_other_servers_make_of_openai_s_stream_is_read(play: Play) -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2}}}
    frame = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    lines = [
        {**frame, "choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}}]},
        {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": "eos_token"}]},
        {**frame, "choices": None, "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}},
    ]
    body = "".join(f"data: {json.dumps(line)}\n\n" for line in lines) + "data: [DONE]\n\n"
    with ModelServer({"body": body, "headers": {"Content-Type": "text/event-stream"}}) as server:
        _, reply = play(Provider("openai").at(server), HI, stream=True)
    assert [(one.name, json.loads(one.arguments)) for one in calls_of(reply.message)] == [("add", {"a": 1, "b": 2})]
    assert (reply.finish_reason, reply.usage.input_tokens) == ("tool_calls", 10)


@pytest.mark.usefixtures("_observed")
def test_a_line_ends_at_a_newline_alone(provider: Provider, play: Play) -> None:
    text = "".join(f"one{mark}two " for mark in "\u2028\u2029\x85")
    wire = find_wire(PATHS.get(provider.name, "/models/gemini:streamGenerateContent"))
    body = "".join(wire.build_pieces({"content": text}, "m"))
    for mark in "\u2028\u2029\x85":
        body = body.replace(json.dumps(mark).strip('"'), mark)
    with ModelServer({"body": body, "headers": {"Content-Type": wire.content_type}}) as server:
        _, reply = play(provider.at(server), HI, stream=True)
    assert reply.message["content"].strip() == text.strip()


@pytest.mark.parametrize("identity", [{}, {"id": "c1"}])
def test_pieces_of_a_call_may_have_no_index(identity: dict[str, str], play: Play) -> None:
    pieces = [
        {"id": "c1", "function": {"name": "add", "arguments": '{"a": 1,'}},
        {**identity, "function": {"arguments": ' "b": 2}'}},
        {"id": "c2", "function": {"name": "now", "arguments": ""}},
        {"function": {"name": "now", "arguments": ""}},
    ]
    deltas = [{"delta": {"tool_calls": [piece]}} for piece in pieces]
    choices = [*deltas, {"delta": {}, "finish_reason": "tool_calls"}]
    lines = [json.dumps({"id": "1", "model": "m", "choices": [choice]}) for choice in choices]
    body = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
    with ModelServer({"body": body, "headers": {"Content-Type": "text/event-stream"}}) as server:
        _, reply = play(Provider("openai").at(server), HI, stream=True)
    found = [(one.name, json.loads(one.arguments)) for one in calls_of(reply.message)]
    assert found == [("add", {"a": 1, "b": 2}), ("now", {}), ("now", {})]


@pytest.mark.parametrize("usages", [[(10, 100), (0, 0)], [(10, 0), (0, 100)], [(10, 1), (0, 100)]])
def test_zeros_in_a_report_do_not_replace_the_usage(usages: list[tuple[int, int]], play: Play) -> None:
    frames: list[dict[str, Any]] = [{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}]
    for tokens_in, tokens_out in usages:
        figures = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
        frames.append({"choices": [], "usage": figures})
    lines = [json.dumps({"id": "1", "model": "m", **frame}) for frame in frames]
    body = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
    with ModelServer({"body": body, "headers": {"Content-Type": "text/event-stream"}}) as server:
        _, reply = play(Provider("openai").at(server), HI, stream=True)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10, 100)


@pytest.mark.usefixtures("_observed")
@pytest.mark.parametrize("name", ["openai", "groq"])
def test_tokens_that_are_texts_are_counted(name: str, play: Play) -> None:
    wire = find_wire("/openai/v1/chat/completions" if name == "groq" else "/chat/completions")
    usage = {"input_tokens": "12", "output_tokens": "3", "cached_tokens": "4"}
    body = "".join(wire.build_pieces({"content": "hello"}, "m"))
    figures = {"prompt_tokens": "12", "completion_tokens": "3", "total_tokens": "15"}
    figures["prompt_tokens_details"] = {"cached_tokens": "4"}
    body = re.sub(r'"usage": {[^}]*}', f'"usage": {json.dumps(figures)}', body)
    with ModelServer({"body": body, "headers": {"Content-Type": "text/event-stream"}}) as server:
        _, reply = play(Provider(name).at(server), HI, stream=True)
    counted = reply.usage.as_dict()
    assert {key: counted[key] for key in usage} == {key: int(value) for key, value in usage.items()}


@pytest.mark.usefixtures("_observed")
@pytest.mark.parametrize("name", ["openai", "groq", "gemini", "ollama"])
def test_a_whole_reply_to_a_streamed_request_is_read(name: str, play: Play) -> None:
    wire = find_wire({"gemini": "x:generateContent"}.get(name, PATHS.get(name, "")))
    body = json.dumps(drop_missing(wire.build_reply(CALLS, "m")))
    with ModelServer({"body": body, "headers": {"Content-Type": "application/json"}}) as server:
        _, reply = play(Provider(name).at(server), HI, stream=True)
    assert [(one.name, json.loads(one.arguments)) for one in calls_of(reply.message)] == [
        ("add", {"a": 1, "b": 2}),
        ("now", {}),
    ]
    assert reply.usage.input_tokens == 10
