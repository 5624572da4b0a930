"""Our server, with the SDK's own client in both eras of the protocol, over memory, HTTP and standard input and output."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from typing import Literal

import mcp_types as types
import pytest
from fastapi import FastAPI
from loguru import logger
from mcp import Client, MCPError
from mcp.server.auth.provider import AccessToken
from pydantic import BaseModel
from servers import over_http, wait_until_nothing_is_left
from starlette.applications import Starlette
from starlette.testclient import TestClient
from waiting import HANGS

from agentkit import (
    DefinitionError,
    Injected,
    InputRequired,
    JsonAgent,
    JsonTool,
    Question,
    RunContext,
    ToolRegistry,
    ask_question,
    tool,
)
from agentkit.core.threads import count_abandoned
from agentkit.extend import list_conversations, name_conversations, opened_store
from agentkit.mcp import MCPServer, make_app, make_server, serve
from agentkit.mcp.server import ROUND_NAME, UsedRounds, _new_round, to_protocol
from agentkit.testing import ScriptedModel, answer, call

RED_DOT = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx"
    b"\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82"
)
deleted: list[str] = []
ROUNDS = 10


class Point(BaseModel):
    x: int


class Route(BaseModel):
    name: str
    start: Point
    stops: list[Point]
    kind: Literal["walk", "ride"]
    hours: int | None


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="danger")
def delete(path: str) -> str:
    """Delete a file."""
    deleted.append(path)
    return f"deleted {path}"


def greet() -> str:
    """Greet the person."""
    return f"Hi {ask_question('Your name?')}, {ask_question('How old?', int)}"


async def report(run: RunContext, steps: int) -> Point:
    """Report steps."""
    for number in range(steps):
        run.emit(f"step {number}")
    return Point(x=steps)


def plan() -> str:
    """Plan a route."""
    return str(ask_question("Which route?", Route))


def draw() -> bytes:
    """Draw a dot."""
    return RED_DOT


def fail() -> str:
    """Fail."""
    raise ValueError("no ink")


TOOLS = [add, delete, greet, report, draw, fail]


@pytest.fixture(params=["auto", "legacy"])
def talk(request):
    """Run what a client does with our server, in one era of the protocol; the person gives the answers in `forms`."""

    def start(work, tools=TOOLS, forms=None, **options):
        async def respond(_, params):
            asked.append(params.message)
            for text, content in (forms or {}).items():
                if text in params.message:
                    action = "accept" if content is not None else "decline"
                    return types.ElicitResult(action=action, content=content)
            return types.ElicitResult(action="cancel")

        async def use():
            callback = {"elicitation_callback": respond} if forms is not None else {}
            async with Client(make_server(tools, **options), mode=request.param, **callback) as client:
                return await work(client)

        asked: list[str] = []
        return asyncio.run(use()), asked

    deleted.clear()
    return start


def called(name, **arguments):
    return lambda client: client.call_tool(name, arguments)


def text_of(result) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def test_what_no_field_of_a_form_can_hold_is_entered_as_json(talk):
    entered = {"name": "Ring", "start": '{"x": 1}', "stops": '[{"x": 2}, {"x": 3}]', "kind": "walk"}
    result, _ = talk(called("plan"), tools=[plan], forms={"Which route?": entered})
    assert text_of(result) == "name='Ring' start=Point(x=1) stops=[Point(x=2), Point(x=3)] kind='walk' hours=None"
    wrong, _ = talk(called("plan"), tools=[plan], forms={"Which route?": {**entered, "start": "here"}})
    assert wrong.is_error
    assert "start: 'here' is not of type 'object'" in text_of(wrong)


def test_a_value_of_any_type_is_entered_as_json(talk):
    def choose() -> str:
        """Choose a value."""
        return str(ask_question("Which?", {"type": "object", "properties": {"value": True}}))

    for entered, value in (('{"x": 1}', {"x": 1}), ("green", "green"), (True, True)):
        result, _ = talk(called("choose"), tools=[choose], forms={"Which?": {"value": entered}})
        assert text_of(result) == str({"value": value})


def test_tools_are_listed_with_schemas_and_hints(talk):
    listed, _ = talk(lambda client: client.list_tools())
    tools = {each.name: each for each in listed.tools}
    assert tools["add"].input_schema["required"] == ["a", "b"]
    assert tools["add"].output_schema["properties"]["result"]["type"] == "integer"
    assert tools["report"].output_schema["properties"]["x"]["type"] == "integer"
    assert "run" not in tools["report"].input_schema["properties"]
    hints = {name: (each.annotations.read_only_hint, each.annotations.destructive_hint) for name, each in tools.items()}
    assert hints["add"] == (True, False)
    assert hints["delete"] == (False, True)
    assert hints["fail"] == (None, None), "an effect that is not declared is no hint"


@pytest.mark.parametrize("given", ["false", "no", "true", 1, ["x"], None])
def test_only_true_allows_a_dangerous_call(talk, given):
    """A client may show the field as a text, and send what was typed."""
    result, _ = talk(called("delete", path="a"), forms={"Allow this call?": {"allow": given}})
    assert (result.is_error, deleted) == (True, [])
    assert "a person refused it" in text_of(result)


def test_a_client_that_fails_to_ask_gets_a_result_and_no_dangerous_call_runs():
    """The handshake era asks in the middle of the call."""

    async def fail_to_ask(_, params):
        return types.ErrorData(code=types.INVALID_PARAMS, message="no forms")

    async def use():
        async with Client(make_server(TOOLS), mode="legacy", elicitation_callback=fail_to_ask) as client:
            return [await client.call_tool("delete", {"path": "a"}), await client.call_tool("greet", {})]

    deleted.clear()
    found = asyncio.run(use())
    assert ([result.is_error for result in found], deleted) == ([True, True], [])
    assert "this client cannot ask one" in text_of(found[0])
    assert "this client cannot" in text_of(found[1])


def test_a_client_that_only_opens_addresses_is_not_asked_for_a_form():
    with TestClient(make_app([delete]), base_url="http://127.0.0.1:8000") as client:
        told = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
        }
        params = {"name": "delete", "arguments": {"path": "a"}, "_meta": told}
        headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "delete"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        result = client.post("/mcp", json=body, headers=headers).json()["result"]
    assert result["isError"]
    assert "this client cannot ask one" in result["content"][0]["text"]


def average() -> float:
    """Average nothing."""
    return float("nan")


def count() -> int:
    """Count."""
    return "many"


def nest() -> dict[str, object]:
    """Nest."""
    inside: dict[str, object] = {}
    inside["again"] = inside
    return inside


@pytest.mark.parametrize(("function", "text"), [(average, "NaN"), (count, "many"), (nest, "a cycle")])
def test_a_result_that_does_not_match_the_output_schema_is_an_error_that_says_what_was_done(talk, function, text):
    result, _ = talk(called(function.__name__), [function])
    assert (result.is_error, result.structured_content) == (True, None)
    assert text in text_of(result)
    assert "The call was carried out, but its result does not match the output schema" in text_of(result)


def test_numbers_without_a_form_in_json_are_null_where_the_schema_allows_it_and_texts_are_unicode(talk):
    def measure() -> list[float | None]:
        """Measure."""
        return [1.5, float("nan")]

    def list_files() -> list[str]:
        """List files, as the operating system names them."""
        return ["b\udcff.txt"]

    assert talk(called("measure"), [measure])[0].structured_content == {"result": [1.5, None]}
    assert talk(called("list_files"), [list_files])[0].structured_content == {"result": ["b\ufffd.txt"]}


class File(BaseModel):
    name: str
    content: bytes


@pytest.mark.parametrize(
    ("value", "structured"),
    [
        (b"a line\n", {"result": "a line\n"}),
        (b"\xff\xfe", {"result": "[binary data, 2 bytes]"}),
        (RED_DOT, {"result": f"[image/png, {len(RED_DOT)} bytes]"}),
        ([b"a", b"\xff"], {"result": ["a", "[binary data, 1 bytes]"]}),
        (File(name="a", content=b"\xff"), {"name": "a", "content": "[binary data, 1 bytes]"}),
    ],
    ids=["text", "binary", "image", "list", "model"],
)
def test_bytes_are_the_same_in_structured_content_and_in_the_text(talk, value, structured):
    def read():
        """Read."""
        return value

    read.__annotations__["return"] = list[bytes] if isinstance(value, list) else type(value)
    result, _ = talk(called("read"), tools=[read])
    shown = structured.get("result", structured)
    assert result.structured_content == structured
    assert text_of(result) == (shown if isinstance(shown, str) else json.dumps(shown, separators=(",", ":")))


def test_results_are_text_structured_content_and_images(talk):
    result, _ = talk(called("add", a="2", b=3))
    assert (text_of(result), result.structured_content, result.is_error) == ("5", {"result": 5}, False)
    result, _ = talk(called("report", steps=2))
    assert result.structured_content == {"x": 2}
    result, _ = talk(called("draw"))
    (image,) = [block for block in result.content if block.type == "image"]
    assert image.mime_type == "image/png"


def test_an_image_alone_is_one_content_block(talk):
    def plot():
        """Plot."""
        return RED_DOT

    def describe():
        """Plot and describe."""
        return ["a dot", RED_DOT]

    assert [block.type for block in talk(called("plot"), [plot])[0].content] == ["image"]
    described, _ = talk(called("describe"), [describe])
    assert [block.type for block in described.content] == ["text", "image"]
    assert "a dot" in text_of(described)


def test_failures_teach_the_model(talk):
    result, _ = talk(called("add", a="x"))
    assert result.is_error
    assert "a: input should be a valid integer" in text_of(result)
    assert "b: missing" in text_of(result)
    result, _ = talk(called("fail"))
    assert (result.is_error, text_of(result)) == (True, "ValueError: no ink")
    result, _ = talk(called("multiply", a=1))
    assert result.is_error
    assert "there is no tool 'multiply'" in text_of(result)


def test_a_dangerous_tool_asks_the_person_first(talk):
    result, asked = talk(called("delete", path="a"), forms={"delete": {"allow": True}})
    assert text_of(result) == "deleted a"
    assert asked == ['Allow this call?\nThe agent wants to call delete:\n  path: "a"']
    assert deleted == ["a"]


def test_a_person_who_is_asked_sees_the_end_of_each_argument(talk):
    @tool(effect="danger")
    def pay(note: str, to: str) -> str:
        """Pay."""
        return to

    paying = called("pay", note="n" * 20_000 + "!", to="Mallory")
    _, (asked,) = talk(paying, tools=[pay], forms={"Allow": {"allow": False}})
    assert '!"\n' in asked
    assert asked.endswith('  to: "Mallory"')


@pytest.mark.parametrize("forms", [None, {}, {"delete": None}, {"delete": {"allow": False}}])
def test_a_dangerous_tool_is_refused_without_a_yes(talk, forms):
    result, _ = talk(called("delete", path="a"), forms=forms)
    assert result.is_error
    assert "was not allowed" in text_of(result)
    assert deleted == []


def test_an_approval_is_used_once():
    async def work():
        async def respond(_, __):
            raise AssertionError("the rounds are sent by hand")

        async with Client(make_server(TOOLS), mode="auto", elicitation_callback=respond) as client:
            send = partial(client.session.call_tool, "delete", {"path": "a"}, allow_input_required=True)
            asked = await send()
            yes = {"allow": types.ElicitResult(action="accept", content={"allow": True})}
            done = await send(input_responses=yes, request_state=asked.request_state)
            assert text_of(done) == "deleted a"
            again = await send(input_responses=yes, request_state=asked.request_state)
            assert (again.result_type, [*again.input_requests]) == ("input_required", ["allow"])
            alone = await send(input_responses=yes)
            assert alone.result_type == "input_required", "an approval that nobody asked for"
            done = await send(input_responses=yes, request_state=again.request_state)
            assert text_of(done) == "deleted a"

    deleted.clear()
    asyncio.run(work())
    assert deleted == ["a", "a"]


def test_questions_of_a_tool_are_asked_one_after_the_other(talk):
    forms = {"Your name?": {"answer": "Ada"}, "How old?": {"answer": 36}}
    result, asked = talk(called("greet"), forms=forms)
    assert text_of(result) == "Hi Ada, 36"
    assert asked == ["Your name?", "How old?"]
    result, _ = talk(called("greet"), forms={"Your name?": None})
    assert result.is_error
    assert "gave no answer to: Your name?" in text_of(result)
    result, _ = talk(called("greet"))
    assert result.is_error
    assert "this client cannot" in text_of(result)


def test_a_tool_with_a_state_takes_its_first_step_once(talk):
    tickets = []

    def transfer(to: str, run: RunContext) -> str:
        """Transfer money."""
        if run.answered is None:
            tickets.append(f"T-{len(tickets) + 1}")
            questions = [Question("Which code?", id="code"), Question("Which day?", id="day")]
            raise InputRequired(*questions, state={"ticket": tickets[-1]})
        return f"{run.answered.state['ticket']} {run.answered.values}"

    forms = {"code": {"answer": "1234"}, "day": {"answer": "Monday"}}
    result, asked = talk(called("transfer", to="Ada"), tools=[transfer], forms=forms)
    assert text_of(result) == "T-1 {'code': '1234', 'day': 'Monday'}"
    assert (tickets, asked) == (["T-1"], ["Which code?", "Which day?"])


def test_an_answer_to_one_of_two_questions_asks_for_both_again_and_the_tool_does_not_begin_again():
    runs = []

    def book(run: RunContext) -> str:
        """Book a room."""
        runs.append(run.answered)
        if run.answered is None:
            raise InputRequired(Question("Who?", id="who"), Question("When?", id="when"))
        return f"{run.answered.values}"

    async def work():
        async def respond(_, __):
            raise AssertionError("the rounds are sent by hand")

        async with Client(make_server([book]), mode="auto", elicitation_callback=respond) as client:
            send = partial(client.session.call_tool, "book", {}, allow_input_required=True)
            answers = {key: types.ElicitResult(action="accept", content={"answer": key}) for key in ("who", "when")}
            asked = await send()
            one = await send(input_responses={"who": answers["who"]}, request_state=asked.request_state)
            assert [*one.input_requests] == ["who", "when"]
            return text_of(await send(input_responses=answers, request_state=one.request_state))

    assert asyncio.run(work()) == "{'who': 'who', 'when': 'when'}"
    assert len(runs) == 2


@pytest.mark.parametrize("forms", [None, {}])
def test_no_question_error_or_progress_shows_a_secret(talk, forms, monkeypatch):
    key = "Zq7KpLm2Wv9XtR4sBn8YcD3f"
    monkeypatch.setenv("SHOP_API_KEY", key)
    seen = []

    def confirm(run: RunContext) -> str:
        """Confirm the key."""
        run.emit(f"checks {key}")
        return ask_question(f"Is {key} the key?")

    async def work(client):
        async def note(progress, total, message):
            seen.append(message)

        return await client.call_tool("confirm", {}, progress_callback=note)

    result, asked = talk(work, tools=[confirm], forms=forms)
    assert "Is *** the key?" in text_of(result)
    assert {*seen} == {"checks ***"}
    assert asked == ([] if forms is None else ["Is *** the key?"])


def test_what_a_tool_reports_is_progress(talk):
    seen = []

    async def work(client):
        async def note(progress, total, message):
            seen.append((progress, message))

        await client.call_tool("report", {"steps": 3}, progress_callback=note)

    talk(work)
    assert seen == [(1, "step 0"), (2, "step 1"), (3, "step 2")]


def test_data_that_a_tool_reports_is_progress_as_json(talk):
    seen = []

    def copy(run: RunContext) -> str:
        """Copy."""
        run.emit({"file": "a.txt", "done": True})
        run.emit(Point(x=1))
        run.emit("ready")
        return "copied"

    async def work(client):
        async def note(progress, total, message):
            seen.append(message)

        await client.call_tool("copy", {}, progress_callback=note)

    talk(work, tools=[copy])
    assert seen == ['{"file":"a.txt","done":true}', '{"x":1}', "ready"]


def test_a_cancelled_call_is_cancelled(talk):
    begun = threading.Event()
    ended = []

    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await asyncio.sleep(HANGS)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "done"

    async def work(client):
        running = asyncio.create_task(client.call_tool("wait", {}))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        running.cancel()
        while not ended:
            await asyncio.sleep(0.01)

    talk(work, tools=[wait])
    assert ended == ["cancelled"]


def test_a_call_ends_at_its_timeout(talk):
    @tool(timeout=0.05)
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(30)
        return "done"

    result, _ = talk(called("wait"), tools=[wait])
    assert result.is_error
    assert "0.05" in text_of(result)


def test_an_agent_is_a_tool_with_a_query(talk):
    agent = JsonAgent(add, model=ScriptedModel(call("add", a=2, b=3), answer("It is 5.")), description="Calculates.")
    result, _ = talk(called("ask", query="2 + 3?"), tools=[agent])
    assert text_of(result) == "It is 5."


def test_an_agent_that_waits_for_a_person_is_a_failed_call(talk):
    agent = JsonAgent(delete, model=ScriptedModel(call("delete", path="a")))
    result, _ = talk(called("ask", query="Delete a"), tools=[agent], forms={})
    assert result.is_error
    assert deleted == []


def test_a_client_does_not_read_the_text_of_an_error_of_the_server(talk):
    @tool(on_error="raise")
    def look_up(name: str) -> str:
        """Look up."""
        raise ValueError(f"no connection to db.internal for {name}")

    async def use(client):
        with pytest.raises(MCPError) as raised:
            await client.call_tool("look_up", {"name": "Ada"})
        return raised.value.error

    lines: list[str] = []
    sink = logger.add(lines.append, level="ERROR")
    logger.enable("agentkit")
    try:
        error, _ = talk(use, tools=[look_up])
    finally:
        logger.disable("agentkit")
        logger.remove(sink)
    assert (error.code, error.message) == (types.INTERNAL_ERROR, "Internal server error")
    assert "no connection to db.internal for Ada" in lines[0]


def test_values_come_from_deps(talk):
    def who(user: Injected[Point]) -> int:
        """Tell who asks."""
        return user.x

    result, _ = talk(called("who"), tools=[who], deps=Point(x=7))
    assert text_of(result) == "7"
    with pytest.raises(DefinitionError):
        make_server([who])


def test_what_cannot_be_served_is_refused():
    with pytest.raises(DefinitionError, match="needs tools"):
        make_server([])
    with pytest.raises(DefinitionError, match="Give a token"):
        make_app([add], host="0.0.0.0")
    with pytest.raises(DefinitionError, match="at least 16 characters, got 3"):
        serve(ToolRegistry(add), http=True, token="abc")


HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
ACCEPT = {"Accept": "application/json, text/event-stream"}


def post(headers, host="127.0.0.1", **options) -> int:
    """Return the status of a first request to our server over HTTP."""

    with TestClient(make_app([add], host=host, **options), base_url="http://127.0.0.1:8000") as client:
        return client.post("/mcp", json=HELLO, headers={**ACCEPT, **headers}).status_code


def test_http_checks_host_origin_and_token():
    assert post({}) == 200
    assert post({"Host": "evil.example"}) == 421
    assert post({"Origin": "http://evil.example"}) == 403
    assert post({"Origin": "http://localhost:3000"}) == 200
    token = "t" * 16
    assert post({}, token=token) == 401
    assert post({"Authorization": "Bearer nope"}, token=token) == 401
    assert post({"Authorization": f"Bearer {token}"}, token=token) == 200
    shared = {"host": "0.0.0.0", "token": token}
    allowed = {"Authorization": f"Bearer {token}"}
    assert post({**allowed, "Host": "mine.example:8000"}, **shared) == 421
    assert post({**allowed, "Host": "mine.example:8000"}, hosts=["mine.example"], **shared) == 200


def test_a_page_of_an_allowed_origin_may_call_from_a_browser():
    token = "t" * 16
    page = {"Origin": "https://shop.example"}
    app = make_app([add], token=token, allow_origins=["https://shop.example"])
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        allowed = client.options("/mcp", headers={**page, **asked})
        assert (allowed.status_code, allowed.headers["access-control-allow-headers"]) == (204, "authorization")
        found = client.post("/mcp", json=HELLO, headers={**ACCEPT, **page, "Authorization": f"Bearer {token}"})
        assert found.headers["access-control-allow-origin"] == "https://shop.example"
        assert "Mcp-Session-Id" in found.headers["access-control-expose-headers"]


class Shop:
    def __init__(self, owner):
        self.owner = owner


@tool(effect="danger")
def pay(euros: float, shop: Injected[Shop]) -> str:
    """Pay."""
    return f"{euros} by {shop.owner}"


def users_server():
    """Return our server for people who are signed in, whose tools work with what is theirs."""
    app = make_app([pay], user=lambda request: request.headers.get("x-user"), deps=shop_of)
    return TestClient(app, base_url="http://127.0.0.1:8000")


async def shop_of(request):
    return Shop(request.headers["x-user"])


MODERN = "2026-07-28"


def call_as(client, user, **more):
    """Send the call of a user in the newest version of the protocol; return the status and the answer."""
    told = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    params = {"name": "pay", "arguments": {"euros": 4}, "_meta": told, **more}
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "pay", "x-user": user}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    response = client.post("/mcp", json=body, headers=headers)
    return response.status_code, response.json()


def test_a_call_that_waits_belongs_to_its_user():
    with users_server() as client:
        asked = call_as(client, "ada")[1]["result"]
        given = {"allow": {"action": "accept", "content": {"allow": True}}}
        answered = {"requestState": asked["requestState"], "inputResponses": given}
        assert call_as(client, "eve", **answered)[0] == 400
        assert call_as(client, "ada", **answered)[1]["result"]["content"][0]["text"] == "4.0 by ada"
        assert call_as(client, "")[0] == 401


def test_a_session_belongs_to_its_user():
    with users_server() as client:
        began = client.post("/mcp", json=HELLO, headers={**ACCEPT, "x-user": "ada"})
        session = {"mcp-session-id": began.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        found = {
            user: client.post("/mcp", json=listed, headers={**ACCEPT, **session, "x-user": user}).status_code
            for user in ("ada", "eve")
        }
    assert found == {"ada": 200, "eve": 404}


LOGIN = {"issuer": "https://login.example", "resource": "https://tools.example/mcp"}
TOKENS = {
    "of ada": "ada",
    "of eve": AccessToken(token="of eve", client_id="app", scopes=["pay"], subject="eve", resource=LOGIN["resource"]),
    "of another": AccessToken(token="x", client_id="app", scopes=["pay"], resource="https://other.example/mcp"),
    "of old": AccessToken(token="x", client_id="app", scopes=["pay"], resource=LOGIN["resource"], expires_at=1),
    "of a reader": AccessToken(token="x", client_id="app", scopes=["read"], resource=LOGIN["resource"]),
    "empty": "",
}


async def averify(token):
    return TOKENS.get(token)


def shop_of_login(request):
    return Shop(request.user.access_token.subject)


@pytest.fixture(params=[TOKENS.get, averify], ids=["plain", "async"])
def login_server(request):
    """Our server as a resource server, whose tools work with what belongs to the user of a token."""
    app = make_app([pay], host="0.0.0.0", verifier=request.param, scopes=["pay"], deps=shop_of_login, **LOGIN)
    with TestClient(app, base_url="https://tools.example") as client:
        yield client


def call_with(client, token, **more):
    client.headers["authorization"] = f"Bearer {token}"
    try:
        return call_as(client, "", **more)
    finally:
        del client.headers["authorization"]


def test_a_resource_server_names_its_authorization_server(login_server):
    refused = login_server.post("/mcp", json=HELLO, headers=ACCEPT)
    assert refused.status_code == 401
    metadata = "https://tools.example/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{metadata}"' in refused.headers["www-authenticate"]
    shown = login_server.get(metadata).json()
    assert shown["authorization_servers"] == ["https://login.example"]
    assert (shown["resource"], shown["scopes_supported"]) == (LOGIN["resource"], ["pay"])


def test_tools_of_a_resource_server_know_the_user_to_whom_a_waiting_call_belongs(login_server):
    asked = call_with(login_server, "of ada")[1]["result"]
    given = {"allow": {"action": "accept", "content": {"allow": True}}}
    answered = {"requestState": asked["requestState"], "inputResponses": given}
    assert call_with(login_server, "of eve", **answered)[0] == 400
    assert call_with(login_server, "of ada", **answered)[1]["result"]["content"][0]["text"] == "4.0 by ada"


@pytest.mark.parametrize(
    ("token", "status"),
    [("of another", 401), ("of old", 401), ("unknown", 401), ("empty", 401), ("of a reader", 403), ("of eve", 200)],
)
def test_a_token_for_another_server_or_too_little_is_refused(login_server, token, status):
    assert call_with(login_server, token)[0] == status


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"verifier": averify}, 'needs issuer="https://login.example"'),
        (LOGIN, "belong to verifier="),
        ({"verifier": averify, "token": "t" * 16, **LOGIN}, "Leave token= and user= out"),
        ({"verifier": averify, "issuer": "login", "resource": LOGIN["resource"]}, "must be http"),
    ],
    ids=["no issuer", "no verifier", "two checks", "no address"],
)
def test_a_login_that_is_not_whole_is_refused(options, reason):
    with pytest.raises(DefinitionError, match=reason):
        make_app([pay], **options)


def test_what_a_verifier_may_return():
    app = make_app([add], verifier=lambda token: [token], **LOGIN)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client, pytest.raises(DefinitionError, match="got list"):
        call_with(client, "x")


def test_an_approval_counts_once_in_all_servers_on_one_journal(tmp_path):
    places = [tmp_path / "runs.db"] * 2
    servers = [make_server(TOOLS, keys=["k" * 32], journal=place) for place in places]

    async def work():
        async def respond(_, __):
            raise AssertionError("the rounds are sent by hand")

        async def send(server, **more):
            async with Client(server, mode="auto", elicitation_callback=respond) as client:
                return await client.session.call_tool("delete", {"path": "a"}, allow_input_required=True, **more)

        asked = await send(servers[0])
        yes = {"allow": types.ElicitResult(action="accept", content={"allow": True})}
        approved = {"input_responses": yes, "request_state": asked.request_state}
        assert text_of(await send(servers[1], **approved)) == "deleted a"
        for server in (*servers, make_server(TOOLS, keys=["k" * 32], journal=places[0])):
            assert (await send(server, **approved)).result_type == "input_required"

    deleted.clear()
    asyncio.run(work())
    assert deleted == ["a"]
    assert list_conversations(places[0]) == []


@pytest.mark.integration
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_an_approval_that_is_sent_to_two_processes_at_once_acts_once(tmp_path, store, request):
    journal = str(tmp_path / "runs.db") if store == "sqlite" else request.getfixturevalue("postgres_url")
    effects = tmp_path / "effects"
    processes = [over_http("paying_server.py", journal, str(effects)) for _ in range(2)]

    async def work(first, second):
        async def respond(_, __):
            raise AssertionError("the rounds are sent by hand")

        def send(client, **more):
            return client.session.call_tool("pay", {"to": "Ada"}, allow_input_required=True, **more)

        async with (
            Client(first, mode="auto", elicitation_callback=respond) as one,
            Client(second, mode="auto", elicitation_callback=respond) as other,
        ):
            yes = {"allow": types.ElicitResult(action="accept", content={"allow": True})}
            for _ in range(ROUNDS):
                approved = {"input_responses": yes, "request_state": (await send(one)).request_state}
                results = await asyncio.gather(*(send(client, **approved) for client in (one, other, other, one)))
                texts = [text_of(each) for each in results if each.result_type != "input_required"]
                assert texts == ["paid Ada"]

    with processes[0] as (first, _), processes[1] as (second, _):
        asyncio.run(work(*(f"http://127.0.0.1:{port}/mcp" for port in (first, second))))
    assert effects.read_text() == "Ada\n" * ROUNDS


def test_noted_rounds_are_removed_when_no_answer_of_them_is_accepted_any_more(tmp_path):
    place = tmp_path / "runs.db"
    old = f"{ROUND_NAME}{int(time.time()) - 1}-{'0' * 32}"
    with opened_store(place) as store:
        store.claim_name(old, 7)
        store.claim_name("ada", 8)
    identity = _new_round()
    assert asyncio.run(UsedRounds(place).take(identity))
    assert not asyncio.run(UsedRounds(place).take(identity))
    assert {*name_conversations(place).values()} == {"ada", f"{ROUND_NAME}{identity}"}


@pytest.mark.parametrize("framework", ["Starlette", "FastAPI"])
@pytest.mark.parametrize("token", ["", "t" * 16], ids=["no token", "token"])
@pytest.mark.parametrize(("mount", "path"), [("/tools", "/mcp"), ("/tools/mcp", "/")])
def test_the_app_is_mounted_in_another_one(framework, token, mount, path):
    outer = FastAPI() if framework == "FastAPI" else Starlette()
    outer.mount(mount, make_app([add], token=token, path=path))
    given = {"Authorization": f"Bearer {token}"} if token else {}
    address = mount + path if path != "/" else f"{mount}/"
    with TestClient(outer, base_url="http://127.0.0.1:8000") as client:  # whose lifespan is not that of the mounted app
        began = client.post(address, json=HELLO, headers={**ACCEPT, **given})
        assert (began.status_code, "serverInfo" in began.text) == (200, True)
        session = {"mcp-session-id": began.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        assert '"add"' in client.post(address, json=listed, headers={**ACCEPT, **given, **session}).text
        if token:
            assert client.post(address, json=HELLO, headers=ACCEPT).status_code == 401
    with TestClient(outer, base_url="http://127.0.0.1:8000") as client:  # another event loop
        assert client.post(address, json=HELLO, headers={**ACCEPT, **given}).status_code == 200


def test_http_takes_no_body_that_is_too_large_or_no_json():
    with TestClient(make_app([add]), base_url="http://127.0.0.1:8000") as client:
        piece = b"x" * 1_000_000
        headers = {**ACCEPT, "content-type": "application/json"}
        assert client.post("/mcp", content=iter([piece] * 26), headers=headers).status_code == 413
        assert client.post("/mcp", content="{}", headers={**ACCEPT, "content-type": "text/plain"}).status_code == 415


def test_fifty_calls_at_once_are_answered_each_with_its_own_result(talk):
    started: set[int] = set()

    def wait_in_a_thread(number: int) -> int:
        """Wait in a thread."""
        started.add(threading.get_ident())
        time.sleep(0.02)
        return number

    async def wait(number: int, run: RunContext) -> int:
        """Wait on the loop, and report it."""
        run.emit(number)
        await asyncio.sleep(0.02)
        return number

    async def work(client):
        before = asyncio.all_tasks()
        names = ["wait", "wait_in_a_thread"] * 25
        results = await asyncio.gather(*(client.call_tool(name, {"number": n}) for n, name in enumerate(names)))
        assert [result.structured_content["result"] for result in results] == [*range(50)]
        assert len(started) > 1
        while asyncio.all_tasks() != before:
            await asyncio.sleep(0.01)

    threads = {*threading.enumerate()}
    abandoned = count_abandoned()
    talk(work, tools=[wait, wait_in_a_thread])
    new = {*threading.enumerate()} - threads
    assert {thread.name for thread in new} <= {"agentkit-worker"}, "free workers end after a few seconds"
    assert count_abandoned() <= abandoned


def test_a_schema_written_by_hand_is_listed_with_its_references():
    parameters = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/address"}},
        "$defs": {"address": {"type": "object", "properties": {"city": {"type": "string"}}}},
        "additionalProperties": False,
    }
    send = JsonTool.from_schema(name="send", description="Send.", parameters=parameters, call=dict)
    assert to_protocol(send).input_schema == parameters


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from agentkit import tool\n\n\n@tool(effect='read')\ndef add(a: int, b: int) -> int:\n"
        '    """Add two numbers."""\n    print("noise")\n    return a + b\n\n\n'
        '@tool(effect=\'danger\')\ndef delete(path: str) -> str:\n    """Delete a file."""\n    return path\n'
    )
    return tmp_path


SERVING = """
from mine import add
from agentkit.mcp import serve

serve([add])
print("stopped", flush=True)
print(input())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="interrupts are sent in another way")
def test_a_script_that_serves_is_stopped_by_an_interrupt_while_its_client_is_silent(folder):
    (folder / "serving.py").write_text(SERVING)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "serving.py"], cwd=folder, text=True, **pipes) as process:
        process.stdin.write(json.dumps(HELLO) + "\n")
        process.stdin.flush()
        assert "serverInfo" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopped\n"
        assert process.communicate("a line\n") == ("a line\n", "")
        assert process.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="interrupts are sent in another way")
def test_a_file_of_messages_is_served_to_its_end(folder):
    (folder / "serving.py").write_text(SERVING.partition("print")[0])
    given = folder / "messages.jsonl"
    given.write_text(json.dumps(HELLO))
    with given.open() as messages:
        command = [sys.executable, "serving.py"]
        ended = subprocess.run(command, cwd=folder, stdin=messages, capture_output=True, text=True, check=True)
    assert "serverInfo" in ended.stdout


def test_what_a_served_script_and_its_tools_print_is_on_standard_error(folder):
    (folder / "serving.py").write_text('print("before")\n' + SERVING.partition("print")[0])
    messages = [
        HELLO,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}},
    ]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "serving.py"], cwd=folder, text=True, env=buffered, **pipes) as process:
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline())["id"] for _ in range(2)]
        assert answers == [HELLO["id"], 2]
        assert [process.stderr.readline() for _ in range(2)] == ["before\n", "noise\n"]
        assert process.communicate()[0] == ""


def test_our_client_gets_an_image_and_its_description_once(folder):
    (folder / "mine.py").write_text(f'def draw() -> bytes:\n    """Draw a dot."""\n    return {RED_DOT!r}\n')
    command = [sys.executable, "-m", "agentkit", "mcp", "serve", "--tools", str(folder / "mine.py")]
    with MCPServer(command, trust="trusted", env={"PYTHONPATH": os.pathsep.join(sys.path)}) as server:
        result = JsonAgent([server], model=ScriptedModel(call("draw"), answer("done"))).run("?")
    assert result.calls[0].content == f"[image/png, {len(RED_DOT)} bytes]"
    assert [part["type"] for part in result.calls[0].images] == ["image_url"]
    wait_until_nothing_is_left()


def test_our_client_talks_with_our_server_over_standard_input_and_output(folder):
    command = [sys.executable, "-m", "agentkit", "mcp", "serve", "--tools", str(folder / "mine.py")]
    script = ScriptedModel(call("add", a=1, b=2), call("delete", path="x"), answer("done"))
    with MCPServer(command, trust="trusted", effects={"*": "read"}) as server:
        agent = JsonAgent([server], model=script, on_question=lambda question: {"allow": True})
        result = agent.run("?")
    assert [each.value for each in result.calls[:2]] == [{"result": 3}, {"result": "x"}]
    assert "3\n3" not in result.calls[0].content
    wait_until_nothing_is_left()
