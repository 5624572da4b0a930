"""The loopback server itself."""

import json

import httpx
import pytest

from agentkit.testing.server import ModelServer

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def post(server: ModelServer, path: str, **body: object) -> httpx.Response:
    return httpx.post(server.url + path, json={**ASKED, **body}, headers={"X-Name": "me"}, timeout=5)


def test_it_records_what_it_is_asked() -> None:
    with ModelServer(["hello"]) as server:
        post(server, "/v1/chat/completions?x=1")
        (request,) = server.requests
    assert (request.path, request.body, request.headers["x-name"]) == ("/v1/chat/completions?x=1", ASKED, "me")


def test_arguments_and_ids_may_be_given_or_left_out() -> None:
    calls = [{"name": "add", "arguments": "{broken", "id": "mine"}, {"name": "now"}]
    with ModelServer({"tool_calls": calls}) as server:
        message = post(server, "/v1/chat/completions").json()["choices"][0]["message"]
    assert [(call["id"], call["function"]["arguments"]) for call in message["tool_calls"]] == [
        ("mine", "{broken"),
        ("call_2", "{}"),
    ]


def test_a_number_is_an_error_and_a_dict_with_a_status_a_particular_one() -> None:
    with ModelServer(503, {"status": 429, "headers": {"Retry-After": "2"}, "message": "slow down"}) as server:
        assert post(server, "/v1/messages").status_code == 503
        answer = post(server, "/v1/messages")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert answer.json()["error"]["message"] == "slow down"


def test_the_end_of_the_script_and_a_wrong_path_are_told() -> None:
    with ModelServer("hello") as server:
        assert "no provider listens" in post(server, "/elsewhere").text
        answer = post(server, "/api/chat")
    assert (answer.status_code, "no reply is left for request 2" in answer.json()["error"]) == (400, True)


def test_a_reset_connection_has_no_reply() -> None:
    with ModelServer({"reset": True}) as server, pytest.raises(httpx.TransportError):
        post(server, "/v1/chat/completions")


def test_a_stream_can_be_cut() -> None:
    with ModelServer("hello", {"content": "hello", "cut": True}) as server:
        whole, cut = [post(server, "/v1/chat/completions", stream=True).text for _ in range(2)]
    assert whole.endswith("data: [DONE]\n\n")
    assert whole.startswith(cut)
    assert 'finish_reason": "stop' not in cut
    assert json.loads(cut.split("\n\n")[0].removeprefix("data: "))["model"] == "m"
