"""The loopback server itself: what it plays, and what it refuses as the providers do."""

import copy
import json
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import httpx
import pytest
from waiting import HANGS, wait_until

from agentkit.testing.server import ModelServer

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
GENERATE = "/models/gemini-2.5-flash:generateContent"
STREAM = "/models/gemini-2.5-flash:streamGenerateContent"


def post(server: ModelServer, path: str, **body: object) -> httpx.Response:
    return httpx.post(server.url + path, json={**ASKED, **body}, headers={"X-Name": "me"}, timeout=60)


def reply_of(server: ModelServer, path: str, body: dict[str, Any]) -> Any:
    return httpx.post(server.url + path, json=body, timeout=60).json()


def choice(server: ModelServer, **body: object) -> Any:
    return post(server, CHAT, **body).json()["choices"][0]


def streamed(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def test_it_records_what_it_is_asked() -> None:
    with ModelServer(("hello",)) as server:
        post(server, "/v1/chat/completions?x=1")
        (request,) = server.requests
    assert (request.path, request.body, request.headers["x-name"]) == ("/v1/chat/completions?x=1", ASKED, "me")


def test_arguments_and_ids_may_be_given_or_left_out() -> None:
    calls = [{"name": "add", "arguments": "{broken", "id": "mine"}, {"name": "now"}]
    with ModelServer({"tool_calls": calls}) as server:
        message = choice(server)["message"]
    assert [(call["id"], call["function"]["arguments"]) for call in message["tool_calls"]] == [
        ("mine", "{broken"),
        ("call_1_2", "{}"),
    ]


def test_odd_calls_go_out_as_they_are_given() -> None:
    odd = [
        {"id": ..., "type": ..., "name": "add", "arguments": {"a": 1}, "raw": True},
        {"id": None, "name": "add"},
        {"id": "", "name": ""},
    ]
    with ModelServer({"tool_calls": odd, "finish_reason": None, "content": ""}) as server:
        found = choice(server)
    first, second, third = found["message"]["tool_calls"]
    assert first == {"function": {"name": "add", "arguments": {"a": 1}}}
    assert (second["id"], third["id"], third["function"]["name"]) == (None, "", "")
    assert (found["finish_reason"], found["message"]["content"]) == (None, "")


def test_a_number_is_an_error_and_a_dict_with_a_status_a_particular_one() -> None:
    with ModelServer(
        503, {"status": 429, "headers": {"Retry-After": "2"}, "message": "slow down"}, strict=False
    ) as server:
        assert post(server, MESSAGES).status_code == 503
        answer = post(server, MESSAGES)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert answer.json()["error"] == {"type": "rate_limit_error", "message": "slow down"}


def test_the_end_of_the_script_and_a_wrong_path_are_reported() -> None:
    with ModelServer() as server:
        assert "no provider has the path /elsewhere" in post(server, "/elsewhere").text
        answer = post(server, "/api/chat")
    assert (answer.status_code, "no reply is left for request 2" in answer.json()["error"]) == (400, True)


def test_the_script_can_be_replaced_and_can_react_to_the_request() -> None:
    with ModelServer("one", "two") as server:
        assert choice(server)["message"]["content"] == "one"
        server.play(lambda body: body["messages"][-1]["content"].upper(), lambda body: 503)
        assert choice(server)["message"]["content"] == "HI"
        assert post(server, CHAT).status_code == 503


def test_empty_replies() -> None:
    with ModelServer({"empty": True}, {"empty": True}, {"empty": True}, {}, {}, strict=False) as server:
        assert post(server, CHAT).json()["choices"] == []
        assert all(chunk["choices"] == [] for chunk in streamed(post(server, CHAT, stream=True).text))
        assert post(server, GENERATE).json()["candidates"] == []
        assert "parts" not in post(server, GENERATE).json()["candidates"][0]["content"]
        assert post(server, MESSAGES).json()["content"] == []


def test_thinking_signatures_blocked_prompts_and_figures() -> None:
    parts = [
        {"type": "thinking", "thinking": "well well", "signature": "S"},
        {"type": "redacted_thinking", "data": "D"},
    ]
    call = {"name": "add", "signature": "G"}
    replies = [
        {"parts": parts, "content": "hi", "usage": {"input_tokens": 7, "cached_tokens": 3}},
        {"parts": parts},
        {"tool_calls": [call]},
        {"block_reason": "SAFETY"},
        {"message": {"refusal": "no"}},
    ]
    with ModelServer(replies, strict=False) as server:
        whole = post(server, MESSAGES).json()
        assert whole["content"] == [*parts, {"type": "text", "text": "hi"}]
        assert whole["usage"] == {"input_tokens": 7, "output_tokens": 5, "cache_read_input_tokens": 3}
        deltas = [piece["delta"] for piece in streamed(post(server, MESSAGES, stream=True).text) if "delta" in piece]
        assert "".join(delta.get("thinking", "") for delta in deltas) == "well well"
        assert {"type": "signature_delta", "signature": "S"} in deltas
        (part,) = post(server, GENERATE).json()["candidates"][0]["content"]["parts"]
        assert part["thoughtSignature"] == "G"
        assert post(server, GENERATE).json()["promptFeedback"] == {"blockReason": "SAFETY"}
        assert choice(server)["message"]["refusal"] == "no"


@pytest.mark.parametrize("reset", [True, "halfway"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_reset_connection_has_no_whole_reply(reset: Any, stream: bool) -> None:
    with ModelServer({"content": "a b c d", "reset": reset}) as server, pytest.raises(httpx.TransportError):
        post(server, CHAT, stream=stream)


def test_a_stream_can_be_cut() -> None:
    reply = {"content": "hello", "tool_calls": [{"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}]}
    with ModelServer(reply, {**reply, "cut": True}, {**reply, "cut": True, "after": 1}) as server:
        whole, cut, short = [post(server, CHAT, stream=True).text for _ in range(3)]
    assert whole.endswith("data: [DONE]\n\n")
    assert whole.startswith(cut)
    assert cut.startswith(short)
    assert (len(streamed(short)), len(streamed(cut))) == (1, (len(streamed(whole)) + 1) // 2)
    assert 'finish_reason": "tool_calls' not in cut


def test_a_body_can_be_cut() -> None:
    with ModelServer({"content": "hello", "cut": True}) as server, pytest.raises(httpx.RemoteProtocolError):
        post(server, CHAT)


@pytest.mark.parametrize("path", [CHAT, MESSAGES, STREAM])
def test_an_error_can_come_with_status_200(path: str) -> None:
    with ModelServer({"content": "a b", "error": "upstream failed"}, strict=False) as server:
        answer = post(server, path, stream=True)
    assert answer.status_code == 200
    assert streamed(answer.text)[-1]["error"]["message"] == "upstream failed"


def test_an_error_can_come_in_a_whole_reply_and_any_body_as_it_is() -> None:
    with ModelServer({"error": "upstream failed"}, {"body": "<html>"}, {"status": 502, "body": b"bad"}) as server:
        assert post(server, CHAT).json()["error"]["message"] == "upstream failed"
        assert post(server, CHAT).text == "<html>"
        answer = post(server, CHAT)
    assert (answer.status_code, answer.text) == (502, "bad")


def test_it_can_be_silent_for_a_while_but_not_when_the_test_is_over() -> None:
    gate = threading.Event()
    with ModelServer({"content": "a b", "stall": 0.2}, {"wait": gate, "content": "c"}, {"delay": HANGS}) as server:
        start = time.perf_counter()
        assert choice(server)["message"]["content"] == "a b"
        assert time.perf_counter() - start > 0.19
        threading.Timer(0.1, gate.set).start()
        assert choice(server)["message"]["content"] == "c"
        threading.Timer(0.1, server.closing.set).start()
        choice(server)


def test_connections_are_refused_until_it_opens() -> None:
    with ModelServer("hello", opens_after=3600) as server, pytest.raises(httpx.ConnectError):
        post(server, CHAT)
    with ModelServer("hello", opens_after=0.2) as server:
        wait_until(lambda: is_open(server))
        assert choice(server)["message"]["content"] == "hello"


def is_open(server) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))):
        return True
    return False


# ----- the rules: a valid request, and what makes it invalid


PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
CALLS = [
    {"id": f"c{n}", "type": "function", "function": {"name": "add", "arguments": json.dumps({"a": n})}} for n in (1, 2)
]
OPENAI = {
    "model": "gpt-4o-mini",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {"role": "tool", "tool_call_id": "c1", "content": ""},
    ],
    "tools": [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS}}],
    "tool_choice": {"type": "function", "function": {"name": "add"}},
}
USES = [{"type": "tool_use", "id": f"t{n}", "name": "add", "input": {"a": n}} for n in (1, 2)]
RESULTS = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "1"} for n in (1, 2)]
ANTHROPIC = {
    "model": "claude",
    "max_tokens": 100,
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "well"}, *USES]},
        {"role": "user", "content": [*RESULTS, {"type": "text", "text": "go on"}]},
    ],
    "tools": [{"name": "add", "description": "Adds.", "input_schema": PARAMETERS}],
    "tool_choice": {"type": "tool", "name": "add"},
}
GEMINI = {
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"function_call": {"name": "add", "args": {"a": n}}} for n in (1, 2)]},
        {"role": "user", "parts": [{"functionResponse": {"name": "add", "response": {"r": 1}}} for n in (1, 2)]},
    ],
    "tools": [{"function_declarations": [{"name": "add", "description": "Adds.", "parameters": PARAMETERS}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowed_function_names": ["add"]}},
}
VALID = {CHAT: OPENAI, MESSAGES: ANTHROPIC, GENERATE: GEMINI}
NOTHING = object()
FAULTS: list[tuple[str, str, Any, str]] = [
    (CHAT, "thinking", {}, "Unrecognized request argument"),
    (CHAT, "messages", [], "empty array"),
    (CHAT, "messages.1.role", "person", "Supported values are"),
    (CHAT, "messages.1.content", None, "expected a string, got null"),
    (CHAT, "messages.1.content", [{"type": "image", "image": "x"}], "Invalid value: 'image'"),
    (CHAT, "messages.2.tool_calls", [], "empty array"),
    (CHAT, "messages.2.reasoning_content", "hm", "Unknown parameter: 'messages[2].reasoning_content'"),
    (CHAT, "messages.2.tool_calls.0.id", "", "empty string"),
    (CHAT, "messages.2.tool_calls.0.id", None, "expected a string, but got null"),
    (CHAT, "messages.2.tool_calls.0.id", "c" * 41, "maximum length 40"),
    (CHAT, "messages.2.tool_calls.0.id", "c2", "Duplicate value"),
    (CHAT, "messages.2.tool_calls.0.type", NOTHING, "Missing required parameter"),
    (CHAT, "messages.2.tool_calls.0.index", 0, "Unknown parameter"),
    (CHAT, "messages.2.tool_calls.0.function.name", "a.b", "does not match pattern"),
    (CHAT, "messages.2.tool_calls.0.function.name", "a" * 65, "maximum length 64"),
    (CHAT, "messages.2.tool_calls.0.function.arguments", {"a": 1}, "expected a string, but got object"),
    (CHAT, "messages.2.tool_calls.0.function.arguments", '{"a": NaN}', "not the text of a JSON object"),
    (CHAT, "messages.2.tool_calls.0.function.arguments", "[1]", "not the text of a JSON object"),
    (CHAT, "messages.3.tool_call_id", "c1", "must be a response to a preceeding message"),
    (CHAT, "messages.3.name", "add", "Unknown parameter"),
    (CHAT, "messages.4.content", [{"type": "image_url", "image_url": {"url": "x"}}], "only allowed for messages with role 'user'"),
    (CHAT, "messages.4", {"role": "user", "content": "hi"}, "did not have response messages: c1"),
    (CHAT, "messages.4", NOTHING, "did not have response messages: c1"),
    (CHAT, "tools", [], "empty array"),
    (CHAT, "tools", NOTHING, "only allowed when 'tools' are specified"),
    (CHAT, "tools.0.function.name", "größe", "does not match pattern"),
    (CHAT, "tools.0.function.parameters.type", "string", "schema must be a JSON Schema of 'type"),
    (CHAT, "tools.0.function.parameters.properties.a", {"type": "array"}, "array schema missing items"),
    (CHAT, "tools.0.function.strict", True, "'additionalProperties' is required"),
    (CHAT, "tools.1", OPENAI["tools"][0], "Duplicate function name"),  # type: ignore[index]
    (CHAT, "tool_choice.function.name", "other", "not in 'tools'"),
    (MESSAGES, "max_tokens", NOTHING, "max_tokens: Field required"),
    (MESSAGES, "stop", [], "Extra inputs are not permitted"),
    (MESSAGES, "messages.0.role", "assistant", "first message must use"),
    (MESSAGES, "messages.1.role", "user", "roles must alternate"),
    (MESSAGES, "messages.0.name", "me", "Extra inputs are not permitted"),
    (MESSAGES, "messages.0.content", "", "text content blocks must be non-empty"),
    (MESSAGES, "messages.0.content", [], "must have non-empty content"),
    (MESSAGES, "messages.1.content.0.text", " ", "must contain non-whitespace text"),
    (MESSAGES, "messages.1.content.1.id", "a.b", "String should match pattern"),
    (MESSAGES, "messages.1.content.1.id", "t2", "ids must be unique"),
    (MESSAGES, "messages.1.content.1.name", "", "String should match pattern"),
    (MESSAGES, "messages.1.content.1.input", "{}", "Input should be a valid dictionary"),
    (MESSAGES, "messages.1.content.1.index", 0, "Extra inputs are not permitted"),
    (MESSAGES, "messages.1.content.0", {"type": "thinking", "thinking": "x"}, "signature: Field required"),
    (MESSAGES, "messages.2.content.1", NOTHING, "were found without `tool_result` blocks immediately after: t2"),
    (MESSAGES, "messages.2", NOTHING, "were found without `tool_result` blocks immediately after: t1, t2"),
    (MESSAGES, "messages.2.content.0.tool_use_id", "t3", "unexpected `tool_use_id`"),
    (MESSAGES, "messages.2.content.0", {"type": "text", "text": "x"}, "must come first"),
    (MESSAGES, "messages.2.content.2", {"type": "tool_use"}, "does not match any of the expected tags"),
    (MESSAGES, "messages.3", {"role": "assistant", "content": "so "}, "cannot end with trailing whitespace"),
    (MESSAGES, "tools", NOTHING, "must define tools"),
    (MESSAGES, "tools.0.input_schema.type", NOTHING, "Input should be 'object'"),
    (MESSAGES, "tools.0.input_schema.properties.größe", {}, "Property keys should match"),
    (MESSAGES, "tools.0.input_schema.anyOf", [], "does not support oneOf"),
    (MESSAGES, "tools.1", ANTHROPIC["tools"][0], "must be unique"),  # type: ignore[index]
    (MESSAGES, "tool_choice.name", "other", "not found in provided tools"),
    (MESSAGES, "thinking", {"type": "enabled", "budget_tokens": 50}, "when tool_choice forces tool use"),
    (GENERATE, "messages", [], 'Unknown name "messages"'),
    (GENERATE, "contents", [], "contents is not specified"),
    (GENERATE, "contents.0.role", "model", "start and end with a user turn"),
    (GENERATE, "contents.0.role", "assistant", "valid role"),
    (GENERATE, "contents.0.parts", [], "contents.parts must not be empty"),
    (GENERATE, "contents.0.parts.0.text", "", "required oneof field"),
    (GENERATE, "contents.1.parts.0.id", 1, 'Unknown name "id"'),
    (GENERATE, "contents.1.role", "user", "alternate between user and model"),
    (GENERATE, "contents.1.parts.0.function_call.args", "{}", "Invalid value"),
    (GENERATE, "contents.1.parts.0.function_call.name", "", "Name cannot be empty"),
    (GENERATE, "contents.2.parts.1", NOTHING, "number of function response parts is equal"),
    (GENERATE, "contents.2", {"role": "user", "parts": [{"text": "?"}]}, "number of function response parts is equal"),
    (GENERATE, "contents.2.parts.1.functionResponse.name", "sub", "do not match"),
    (GENERATE, "contents.1", {"role": "model", "parts": [{"text": "?"}]}, "immediately after a function call turn"),
    (GENERATE, "contents.2.parts.2", {"text": "and?"}, "function responses only"),
    (GENERATE, "tools.0.function_declarations.0.name", "1a", "Invalid function name"),
    (GENERATE, "tools.0.function_declarations.0.strict", True, 'Unknown name "strict"'),
    (GENERATE, "tools.0.function_declarations.0.parameters.additionalProperties", False, "Cannot find field"),
    (GENERATE, "tools.0.function_declarations.0.parameters.properties.a", {"const": 1}, "Cannot find field"),
    (GENERATE, "tools.0.function_declarations.0.parameters.properties.a", {"type": "array"}, "items: missing field"),
    (GENERATE, "tools.0.function_declarations.0.parameters.properties.a.enum", [1], "only allowed for STRING type"),
    (GENERATE, "tools.0.function_declarations.0.parameters.properties.a.format", "uri", "are supported for INTEGER type"),
    (GENERATE, "tools.0.function_declarations.0.parameters.required", ["b"], "property b is not defined"),
    (GENERATE, "toolConfig.functionCallingConfig.allowed_function_names", ["other"], "should be a subset"),
]  # fmt: skip


def changed(body: Any, path: str, value: Any) -> Any:
    """A copy of `body` with `value` at `path`; `NOTHING` takes what is there away."""
    body = copy.deepcopy(body)
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place = body
    for step in way:
        place = place[step]
    if value is NOTHING:
        del place[last]
    elif isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return body


def test_mistral_has_rules_of_its_own() -> None:
    body = changed(OPENAI, "messages.5", {"role": "user", "content": "and?"})
    with ModelServer(["hello"] * 2) as server:
        assert "error" not in reply_of(server, CHAT, body)
        body["model"] = "mistral-large-latest"
        assert "with a length of 9" in reply_of(server, CHAT, body)["error"]["message"]
        body = json.loads(json.dumps(body).replace('"c1"', '"aaaaaaaa1"').replace('"c2"', '"aaaaaaaa2"'))
        assert reply_of(server, CHAT, body)["error"]["message"] == "Unexpected role 'user' after role 'tool'"
        body["messages"].insert(5, {"role": "assistant", "content": "Noted."})
        assert "error" not in reply_of(server, CHAT, body)


@pytest.mark.parametrize(("path", "body"), VALID.items())
def test_valid_requests_are_answered(path: str, body: Any) -> None:
    with ModelServer("hello") as server:
        assert "error" not in reply_of(server, path, body)
        assert server.violations == []


@pytest.mark.parametrize(("path", "where", "value", "words"), FAULTS, ids=[f"{f[0][-8:]}-{f[1]}" for f in FAULTS])
def test_what_a_provider_refuses_is_refused_with_its_words(path: str, where: str, value: Any, words: str) -> None:
    with ModelServer("hello") as server:
        answer = httpx.post(server.url + path, json=changed(VALID[path], where, value), timeout=60)
        assert (answer.status_code, words in answer.json()["error"]["message"]) == (400, True), answer.text
        (violation,) = server.violations
        assert violation.startswith("request 1: ")
        assert "error" not in reply_of(server, path, VALID[path])  # no reply was taken
    with ModelServer("hello", strict=False) as server:
        assert "error" not in reply_of(server, path, changed(VALID[path], where, value))


@pytest.mark.parametrize("data", [b'{"a": NaN}', b'{"a": "\\ud800"}', b"{", b"\xff"])
def test_a_body_that_is_not_json_is_refused(data: bytes) -> None:
    with ModelServer("hello") as server:
        answer = httpx.post(server.url + CHAT, content=data, timeout=60)
        assert (answer.status_code, len(server.violations)) == (400, 1)


THINKING = [{"type": "thinking", "thinking": "well", "signature": "S"}, {"type": "redacted_thinking", "data": "D"}]


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (THINKING, ""),
        ([], "Expected `thinking` or `redacted_thinking`, but found `tool_use`"),
        (THINKING[:1], "cannot be modified"),
        ([{**THINKING[0], "thinking": "ill"}, THINKING[1]], "Invalid `signature`"),
        ([*THINKING[::-1]], "cannot be modified"),
    ],
)
def test_thinking_must_come_back_unchanged_in_a_tool_loop(blocks: list[Any], words: str) -> None:
    with ModelServer({"parts": THINKING, "tool_calls": [{"id": "t1", "name": "add"}]}, "so", "yes") as server:
        reply_of(server, MESSAGES, changed(ANTHROPIC, "messages", ANTHROPIC["messages"][:1]))  # type: ignore[index]
        body = {
            **ANTHROPIC,
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [*blocks, USES[0]]},
                {"role": "user", "content": RESULTS[:1]},
            ],
        }
        answer = reply_of(server, MESSAGES, body)
        assert words in answer["error"]["message"] if words else answer["content"]
        body["messages"] += [{"role": "assistant", "content": "so"}, {"role": "user", "content": "and?"}]
        if not blocks:  # the loop is over: now it may be left out
            assert reply_of(server, MESSAGES, body)["content"]


@pytest.mark.parametrize(
    ("signatures", "words"),
    [(["S", None], ""), ([None, None], "missing a thought_signature"), (["T", None], "Corrupted")],
)
def test_thought_signatures_must_come_back_in_a_tool_loop(signatures: list[Any], words: str) -> None:
    calls = [{"name": "add", "arguments": {"a": 1}, "signature": "S"}, {"name": "add", "arguments": {"a": 2}}]
    with ModelServer({"tool_calls": calls}, "so", "yes") as server:
        reply_of(server, GENERATE, changed(GEMINI, "contents", GEMINI["contents"][:1]))  # type: ignore[index]
        body = copy.deepcopy(GEMINI)
        for part, signature in zip(body["contents"][1]["parts"], signatures, strict=True):  # type: ignore[index]
            part |= {"thoughtSignature": signature} if signature else {}
        answer = reply_of(server, GENERATE, body)
        assert words in answer["error"]["message"] if words else answer["candidates"]


def test_each_line_of_a_batch_gets_the_next_reply() -> None:
    with ModelServer("hello", 429, {"reset": True}) as server, httpx.Client(base_url=server.api_base("openai")) as http:
        bodies = [{"model": "m", "messages": [{"role": "user", "content": text}]} for text in "abcd"]
        bodies[3] = {"model": "m", "unknown": 1}
        lines = [
            {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": body}
            for number, body in enumerate(bodies)
        ]
        content = "\n".join(map(json.dumps, lines)).encode()
        file = http.post("/files", files={"file": ("lines.jsonl", content)}, data={"purpose": "batch"}).json()
        wanted = {"input_file_id": file["id"], "endpoint": lines[0]["url"], "completion_window": "24h"}
        made = http.post("/batches", json={**wanted, "metadata": {"own": "1"}}).json()
        assert made == http.get(f"/batches/{made['id']}").json() == http.get("/batches").json()["data"][0]
        assert made["request_counts"] == {"total": 4, "completed": 1, "failed": 3}
        assert made["metadata"] == {"own": "1"}
        done = http.get(f"/files/{made['output_file_id']}/content").json()
        assert (done["custom_id"], done["response"]["body"]["choices"][0]["message"]["content"]) == ("0", "hello")
        failed = [json.loads(row) for row in http.get(f"/files/{made['error_file_id']}/content").text.splitlines()]
        assert [row["response"] and row["response"]["status_code"] for row in failed] == [429, None, 400]
        assert failed[1]["error"]["code"] == "batch_expired"
        assert http.get("/batches/none").status_code == 404
