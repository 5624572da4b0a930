"""Replies in a form of their own: they are read as they are meant, or fail with an error that says so."""

import json
import math
from typing import Any

import pytest
from wire_providers import KEY, Play, Provider

from agentkit import JsonAgent
from agentkit.core.errors import ModelError
from agentkit.core.messages import calls_of, user
from agentkit.models.litellm.errors import convert_error
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing.server import ModelServer
from agentkit.testing.wires import drop_missing, find_wire

HI = [user("hi")]
EVENTS = {"Content-Type": "text/event-stream"}
GEMINI = "x:streamGenerateContent"
ADD = {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}


def frame(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def stream_of(*frames: dict[str, Any]) -> dict[str, Any]:
    lines = [*map(json.dumps, frames), "[DONE]"]
    return {"body": "".join(f"data: {line}\n\n" for line in lines), "headers": EVENTS}


def piece(arguments: str, **more: Any) -> dict[str, Any]:
    """Return a frame with a piece of a call; `name` belongs to its function."""
    name = {"name": more.pop("name")} if "name" in more else {}
    return frame({"tool_calls": [{**more, "function": {**name, "arguments": arguments}}]})


def played(wire: str, reply: dict[str, Any]) -> tuple[str, str]:
    """Return the body of a streamed reply, and its type."""
    found = find_wire(wire)
    assert found is not None
    return "".join(found.build_pieces(reply, "m")), found.content_type


def found(reply: Any) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in calls_of(reply.message)]


SUM = ("add", {"a": 1, "b": 2})
OTHER = ("add", {"a": 3, "b": 4})
PIECES = {
    "each with the id of its call": (
        [
            piece("", id="c1", name="add"),
            piece("", id="c2", name="add"),
            piece('{"a": 1, ', id="c1"),
            piece('{"a": 3, "b": 4}', id="c2"),
            piece('"b": 2}', id="c1"),
        ],
        [SUM, OTHER],
    ),
    "each with a new id": ([piece('{"a": 1, ', index=0, id="x", name="add"), piece('"b": 2}', index=0, id="y")], [SUM]),
    "the name at the end": ([piece('{"a": 1, "b": 2}', index=0, id="c1"), piece("", index=0, name="add")], [SUM]),
    "ids that are numbers": (
        [piece('{"a": 1, "b": 2}', index=0, id=1, name="add"), piece('{"a": 3, "b": 4}', index=1, id=2, name="add")],
        [SUM, OTHER],
    ),
}


@pytest.mark.parametrize(("pieces", "calls"), PIECES.values(), ids=PIECES)
def test_pieces_of_calls_are_put_together(pieces: list[Any], calls: list[Any], play: Play) -> None:
    with ModelServer(stream_of(*pieces, frame({}, "tool_calls"))) as server:
        _, reply = play(Provider("openai").at(server), HI, stream=True)
    assert found(reply) == calls


@pytest.mark.parametrize("key", ["content", "reasoning_content", "refusal"])
def test_a_text_in_parts_is_streamed_as_text(key: str, play: Play) -> None:
    parts = [{"type": "text", "text": "It is "}, {"type": "text", "text": "3."}]
    with ModelServer(stream_of(frame({key: parts}), frame({}, "stop"))) as server:
        deltas, reply = play(Provider("openai").at(server), HI, stream=True)
    assert reply.message[key] == "It is 3."
    assert [delta.text for delta in deltas] == ([] if key == "refusal" else ["It is 3."])


def test_a_text_in_parts_does_not_break_a_stream_of_events() -> None:
    parts = [{"type": "text", "text": "It is 3."}]
    fault = frame({"tool_calls": [None]})  # what cannot be read, behind a part of a text
    with ModelServer(stream_of(frame({"content": parts}), fault)) as server:
        agent = JsonAgent(sum, model=Provider("openai").at(server), retries=0)
        with pytest.raises(ModelError, match="the reply cannot be read: ") as caught:
            list(agent.stream("What?"))
    assert caught.value.partial == "It is 3."


USAGES: list[tuple[Any, tuple[int, int]]] = [
    ("12", (0, 0)),
    ([{"prompt_tokens": 1}], (0, 0)),
    ({"prompt_tokens": 12.0, "completion_tokens": 3.0}, (12, 3)),
    ({"prompt_tokens": -1, "completion_tokens": 3}, (0, 3)),
    ({"prompt_tokens": "9" * 5_000, "completion_tokens": "3"}, (0, 3)),
]


@pytest.mark.parametrize(("usage", "counted"), USAGES, ids=lambda value: f"{value!s:.40}")
def test_an_odd_usage_does_not_cost_the_reply(usage: Any, counted: tuple[int, int], play: Play) -> None:
    with ModelServer(stream_of(frame({"content": "3"}), frame({}, "stop", usage=usage))) as server:
        _, reply = play(Provider("openai").at(server), HI, stream=True)
    tokens = (reply.usage.input_tokens, reply.usage.output_tokens)
    assert (reply.message["content"], tokens, [*map(type, tokens)]) == ("3", counted, [int, int])


@pytest.mark.parametrize(("name", "wire"), [("anthropic", "/v1/messages"), ("ollama", "/api/chat")])
def test_tokens_that_are_texts_are_counted_in_streams(name: str, wire: str, play: Play) -> None:
    body, kind = played(wire, {"content": "hello"})
    for number in (10, 5):
        body = body.replace(f'_tokens": {number}', f'_tokens": "{number}"').replace(
            f'nt": {number}', f'nt": "{number}"'
        )
    with ModelServer({"body": body, "headers": {"Content-Type": kind}}) as server:
        _, reply = play(Provider(name).at(server), HI, stream=True)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10, 5)


@pytest.mark.parametrize(
    ("name", "wire"),
    [("openai", "/chat/completions"), ("gemini", GEMINI), ("ollama", "/api/chat"), ("anthropic", "/v1/messages")],
)
@pytest.mark.parametrize("begin", ["\ufeff", ": keep-alive\n\n", "event: message\nid: 1\nretry: 9\n"])
def test_a_stream_may_begin_with_what_is_no_data(name: str, wire: str, begin: str, play: Play) -> None:
    body, kind = played(wire, ADD)
    with ModelServer({"body": begin + body, "headers": {"Content-Type": kind}}) as server:
        _, reply = play(Provider(name).at(server), HI, stream=True)
    assert (found(reply), reply.usage.input_tokens) == ([SUM], 10)


def test_a_reply_that_gemini_s_filter_stopped_has_no_calls_to_run(play: Play, stream: bool) -> None:
    wire = find_wire(GEMINI)
    assert wire is not None
    text = json.dumps(drop_missing(wire.build_reply({**ADD, "finish_reason": "SAFETY"}, "m")))
    reply_in_one_piece = {"body": f"data: {text}\n\n", "headers": EVENTS} if stream else {"body": text}
    with ModelServer(reply_in_one_piece) as server:
        _, reply = play(Provider("gemini").at(server), HI, stream=stream)
    assert reply.finish_reason == "content_filter"


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_a_reply_that_the_server_aborted_may_be_asked_for_again(reason: str, play: Play, stream: bool) -> None:
    with (
        ModelServer({"content": "It is", "finish_reason": reason}) as server,
        pytest.raises(ModelError, match="aborted") as caught,
    ):
        play(Provider("openai").at(server), HI, stream=stream)
    assert (caught.value.kind, caught.value.transient) == ("server", True)


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "ollama"])
def test_an_argument_that_reads_like_an_aborted_reply_is_an_argument(name: str, play: Play, stream: bool) -> None:
    given = {"finish_reason": "error"}
    with ModelServer({"tool_calls": [{"name": "log", "arguments": given}]}) as server:
        _, reply = play(Provider(name).at(server), HI, stream=stream)
    assert found(reply) == [("log", given)]


@pytest.mark.parametrize("status", ["cancelled", "failed", "in_progress", "queued"])
def test_a_response_that_is_not_completed_has_no_calls_to_run(status: str, play: Play) -> None:
    wire = find_wire("/v1/responses")
    assert wire is not None
    body = {**drop_missing(wire.build_reply({**ADD, "request": {}}, "m")), "status": status}
    with ModelServer({"body": body}) as server, pytest.raises(ModelError, match="aborted") as caught:
        play(LiteLLMModel("openai/responses/gpt-5-mini", api_base=server.api_base("openai"), api_key=KEY), HI)
    assert (caught.value.kind, caught.value.transient) == ("server", True)


EVENT = {"code": "context_length_exceeded", "message": "said so"}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "sequence_number": 1, "param": None, **EVENT},
        {"type": "error", "sequence_number": 1, "error": {"type": "invalid_request_error", "param": None, **EVENT}},
        {"type": "response.failed", "sequence_number": 1, "response": {"status": "failed", "error": EVENT}},
    ],
)
def test_an_error_event_of_the_responses_api_has_its_code_and_its_text(event: dict[str, Any], play: Play) -> None:
    body, _ = played("/v1/responses", {"content": "hello"})
    begun = body.split("\n\n")[:2]
    with ModelServer({"body": "\n\n".join([*begun, f"data: {json.dumps(event)}", ""]), "headers": EVENTS}) as server:
        own = LiteLLMModel("openai/responses/gpt-5-mini", api_base=server.api_base("openai"), api_key=KEY)
        with pytest.raises(ModelError, match="said so") as caught:
            play(own, HI, stream=True)
    assert (caught.value.kind, caught.value.transient) == ("context", False)


def test_a_call_in_the_form_before_tools_is_a_call(play: Play, stream: bool) -> None:
    call = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
    whole = {"id": "1", "model": "m", "created": 1, "choices": [{"index": 0, "finish_reason": "function_call"}]}
    whole["choices"][0]["message"] = {"role": "assistant", "content": None, "function_call": call}
    pieces = [{"name": "add", "arguments": ""}, {"arguments": '{"a": 1, '}, {"arguments": '"b": 2}'}]
    frames = [frame({"function_call": piece}) for piece in pieces]
    with ModelServer(stream_of(*frames, frame({}, "function_call")) if stream else {"body": whole}) as server:
        _, reply = play(Provider("openai").at(server), HI, stream=stream)
    assert found(reply) == [SUM]
    assert "function_call" not in reply.message


WHOLE = {"id": "1", "object": "chat.completion", "model": "m", "created": 1}


def whole_reply(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "It is blue.", **message}
    return {"body": {**WHOLE, "choices": [{"index": 0, "finish_reason": "stop", "message": message}], **more}}


def test_a_reply_of_groq_needs_no_service_tier(play: Play) -> None:
    with ModelServer(whole_reply({})) as server:
        _, reply = play(Provider("groq").at(server), HI)
    assert reply.message["content"] == "It is blue."


@pytest.mark.parametrize("space", ["", "\n    "])
def test_a_citation_of_a_file_does_not_cost_the_reply(space: str, play: Play) -> None:
    link = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A", "start_index": 0}}
    link["url_citation"]["end_index"] = 3
    file = {"type": "file", "file": {"name": "a.pdf", "hash": "1", "content": [{"type": "text", "text": "blue"}]}}
    body = json.dumps(whole_reply({"annotations": [file, link]})["body"]).replace("[{", f"[{space}{{")
    with ModelServer({"body": body}) as server:
        _, reply = play(Provider("openai").at(server), HI)
    assert reply.message["content"] == "It is blue."
    assert [one["url"] for one in reply.message["citations"]] == ["https://a.example"]


def test_a_citation_of_a_file_by_the_responses_api_is_kept(play: Play) -> None:
    cited = {"type": "file_citation", "file_id": "file-1", "filename": "notes.txt", "index": 3}
    part = {"type": "output_text", "text": "It is blue.", "annotations": [cited]}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    body = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "usage": usage}
    with ModelServer({"body": {**body, "output": [item]}}) as server:
        own = LiteLLMModel("openai/responses/gpt-5-mini", api_base=server.api_base("openai"), api_key=KEY)
        _, reply = play(own, HI)
    assert reply.message["content"] == "It is blue."
    assert reply.message["citations"] == [{"title": "notes.txt"}]


@pytest.mark.parametrize("calls", [None, [{"id": "1", "type": "function", "function": {"name": "add"}}]])
def test_the_empty_fields_of_a_server_that_writes_each_one_are_no_calls(calls: Any, play: Play) -> None:
    """As Snowflake's Cortex does."""
    for call in calls or ():
        call["function"]["arguments"] = '{"a": 1, "b": 2}'
        call["custom"] = {"input": "", "name": ""}
    empty = {"function_call": {"arguments": "", "name": ""}, "refusal": ""}
    empty["audio"] = {"data": "", "expires_at": 0, "id": "", "transcript": ""}
    with ModelServer(whole_reply({**empty, "tool_calls": calls})) as server:
        _, reply = play(Provider("openai").at(server), HI)
    assert found(reply) == ([SUM] if calls else [])


def test_a_stream_that_litellm_cannot_read_comes_as_a_whole_reply(play: Play) -> None:
    function = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
    message = {"role": "assistant", "tool_plan": "I add.", "tool_calls": [{"id": "add_1", "type": "function"}]}
    message["tool_calls"][0]["function"] = function
    usage = {"tokens": {"input_tokens": 3, "output_tokens": 2}}
    with ModelServer({"body": {"id": "1", "finish_reason": "TOOL_CALL", "message": message, "usage": usage}}) as server:
        own = LiteLLMModel(
            "cohere_chat/command-r7b", api_base=f"{server.api_base('openai')}/chat/completions", api_key=KEY
        )
        deltas, reply = play(own, HI, stream=True)
    assert found(reply) == [SUM]
    assert "".join(delta.arguments for delta in deltas) == function["arguments"]
    assert not server.requests[0].body.get("stream")


def test_arguments_that_are_named_as_tokens_stay_texts(play: Play) -> None:
    given = {"output_tokens": "12", "eval_count": "3"}
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "log", "arguments": given}}]}
    counts = {"prompt_eval_count": 10, "eval_count": "5"}
    line = {"model": "m", "created_at": "", "message": message, "done": True, "done_reason": "stop", **counts}
    with ModelServer({"body": json.dumps(line) + "\n"}) as server:
        _, reply = play(Provider("ollama").at(server), HI, stream=True)
    assert found(reply) == [("log", given)]
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10, 5)


@pytest.mark.parametrize("page", ["<!DOCTYPE html>\n<title>Sign in</title>", "\n<html>\n<body>Welcome</body></html>"])
def test_a_web_page_in_place_of_a_reply_is_named(provider: Provider, page: str, play: Play, stream: bool) -> None:
    with (
        ModelServer({"body": page, "headers": {"Content-Type": "text/html"}}) as server,
        pytest.raises(ModelError, match="a web page, not a reply of a model") as caught,
    ):
        play(provider.at(server), HI, stream=stream)
    assert (caught.value.kind, caught.value.transient) == ("server", True)


def test_an_error_object_in_a_stream_is_an_error(play: Play) -> None:
    error = {"object": "error", "message": "engine died", "code": 500}
    with ModelServer(stream_of(frame({"content": "It is"}), error)) as server, pytest.raises(ModelError) as caught:
        play(Provider("openai").at(server), HI, stream=True)
    assert (caught.value.kind, caught.value.transient, "engine died" in str(caught.value)) == ("server", True, True)


@pytest.mark.parametrize("name", ["responses", "anthropic"])
def test_arguments_that_are_sent_as_a_whole_are_read(name: str, play: Play) -> None:
    body, kind = played("/v1/responses" if name == "responses" else "/v1/messages", ADD)
    events = [event for event in body.split("\n\n") if event and "arguments.delta" not in event]
    if name == "anthropic":
        events = [event.replace('"input": {}', '"input": {"a": 1, "b": 2}') for event in events]
        events = [event for event in events if "input_json_delta" not in event]
    with ModelServer({"body": "\n\n".join([*events, ""]), "headers": {"Content-Type": kind}}) as server:
        own = LiteLLMModel("openai/responses/gpt-5-mini", api_base=server.api_base("openai"), api_key=KEY)
        _, reply = play(own if name == "responses" else Provider(name).at(server), HI, stream=True)
    assert found(reply) == [SUM]


@pytest.mark.parametrize("message", [None, {"content": [{"type": "text", "text": "3"}]}])
def test_the_error_of_an_unreadable_reply_says_so(message: Any, play: Play) -> None:
    body = {"id": "1", "created": 1, "model": "m", "choices": [{"index": 0, "message": message}]}
    with ModelServer({"body": body}) as server, pytest.raises(ModelError) as caught:
        play(Provider("openai").at(server), HI)
    assert "the reply cannot be read: " in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("wait", ["nan", "inf", "-5"])
def test_a_wait_in_milliseconds_that_cannot_be_waited_is_ignored(wait: str) -> None:
    class SlowDownError(Exception):
        litellm_response_headers = {"retry-after-ms": wait, "retry-after": "7"}

    found = convert_error(SlowDownError("slow down"), model="m").retry_after
    assert found == 7
    assert math.isfinite(found)
