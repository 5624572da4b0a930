"""Agents with a server of the official SDK: the stateless era, over standard input and output and over HTTP."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from servers import ANSWER, contents, over_http
from waiting import wait_until

from agentkit import JsonAgent, Paused, RunError, Session, ToolError
from agentkit.events import Progress
from agentkit.mcp import MCPServer
from agentkit.testing import ScriptedModel, call

SCRIPT = str(Path(__file__).parent / "sdk_server.py")
SETTINGS = {"name": "shop", "trust": "trusted", "effects": {"*": "read"}}


@pytest.fixture(params=["stdio", "http"])
def shop(request):
    """A function that returns the server, over one of the two transports."""
    if request.param == "stdio":
        yield lambda **settings: MCPServer([sys.executable, SCRIPT], **{**SETTINGS, **settings})
        return
    with over_http("sdk_server.py") as (port, _):
        url = f"http://127.0.0.1:{port}/mcp"
        yield lambda **settings: MCPServer(url=url, **{**SETTINGS, **settings})


def test_tools_are_called_and_changes_are_followed(shop):
    def wait() -> None:
        """Waits, because over HTTP the news may arrive after the result."""
        wait_until(lambda: "fresh" in {offered.name for offered in server.offered})

    server = shop()
    events: list = []
    calls = call("add", a=1, b=2), call("work"), call("grow"), call("wait"), call("fresh")
    result = JsonAgent(server, wait, model=ScriptedModel(*calls, ANSWER), listeners=[events.append]).run("q")
    values = [entry.value["result"] for entry in result.calls[:5] if entry.value]
    assert values == [3, "worked", "grown", "fresh"]
    values = [event.value for event in events if isinstance(event, Progress)]
    assert values == [{"progress": 1, "total": 2, "message": "half"}]


def test_a_list_that_the_server_repeats_item_by_item_is_read_once(shop):
    result = JsonAgent(shop(), model=ScriptedModel(call("items"), call("prices"), ANSWER)).run("q")
    assert contents(result) == ['{"result":["tea","coffee"]}', '{"result":[{"tea":3.5},{"coffee":4.25}]}']
    assert result.calls[0].value == {"result": ["tea", "coffee"]}


def test_a_question_is_answered_by_another_agent_after_the_server_has_ended(shop, tmp_path):
    agent = JsonAgent(shop(), model=ScriptedModel(call("order", item="tea"), ANSWER))
    with pytest.raises(Paused) as caught:
        agent.run("q")
    path = tmp_path / "session.json"
    caught.value.session.save(path)
    session = Session.load(path)
    again = JsonAgent(shop(), model=ScriptedModel(ANSWER))
    result = again.run(session=session, answers={session.questions[0].id: {"count": 2}})
    assert contents(result) == ["ordering tea: 2"]


def test_what_needs_no_person_is_sent_back_with_the_answer_of_a_person(shop, world, tmp_path):
    model = ScriptedModel(call("pack", item="tea"), "Box 7")
    agent = JsonAgent(shop(sampling=True, roots=[tmp_path]), model=model)
    with pytest.raises(Paused) as caught:
        world.run(agent, "q")
    path = tmp_path / "session.json"
    caught.value.session.save(path)
    session = Session.load(path)
    (question,) = session.questions
    again = JsonAgent(shop(sampling=True, roots=[tmp_path]), model=ScriptedModel(ANSWER))
    result = world.run(again, None, session=session, answers={question.id: {"count": 2}})
    assert contents(result) == [f"2 tea, Box 7, {tmp_path.name}"]


def test_a_server_that_lost_the_call_asks_again_and_nothing_is_lost(world):
    server = MCPServer([sys.executable, SCRIPT], env={"NEW_KEYS": "1"}, **SETTINGS)
    agent = JsonAgent(server, model=ScriptedModel(call("order", item="tea"), ANSWER))
    with pytest.raises(Paused) as first:
        world.run(agent, "q")
    (question,) = first.value.questions
    assert question.text == "The server 'shop' asks: How many tea?"
    with server:
        with pytest.raises(Paused) as second:
            world.run(agent, None, session=first.value.session, answers={question.id: {"count": 2}})
        (question,) = second.value.questions
        assert question.text.startswith("The server 'shop' asks: How many tea?\n(It asks again")
        result = world.run(agent, None, session=second.value.session, answers={question.id: {"count": 3}})
    assert contents(result) == ["ordering tea: 3"]


def test_a_server_that_loses_each_call_is_not_asked_without_end(world):
    server = MCPServer([sys.executable, SCRIPT], env={"NEW_KEYS": "1"}, **SETTINGS)
    agent = JsonAgent(server, model=ScriptedModel(call("order", item="tea"), ANSWER))
    session = Session()
    answers: dict = {}
    query: str | None = "q"
    for _ in range(2):
        with pytest.raises(Paused) as caught:
            world.run(agent, query, session=session, answers=answers)
        answers = {caught.value.questions[0].id: {"count": 2}}
        query = None
    result = world.run(agent, None, session=session, answers=answers)
    assert contents(result) == ["the server 'shop' refused its own state of the call, twice"]


def test_a_server_of_the_transport_before_streamable_http_is_found_at_its_address(world):
    with over_http("sdk_server.py", "sse") as (port, _):
        server = MCPServer(url=f"http://127.0.0.1:{port}/sse", **SETTINGS)
        agent = JsonAgent(server, model=ScriptedModel(call("add", a=1, b=2), call("work"), ANSWER))
        result = world.run(agent, "q")
        assert [entry.value["result"] for entry in result.calls[:2]] == [3, "worked"]
        wrong = MCPServer(url=f"http://127.0.0.1:{port}/", **SETTINGS)
        with pytest.raises(RunError, match=r"HTTP 404\). Most servers answer at a path, /mcp or the older /sse"):
            world.run(JsonAgent(wrong, model=ScriptedModel(ANSWER)), "q")


def test_a_result_of_several_megabytes_arrives_over_http(world):
    with over_http("sdk_server.py") as (port, _):
        server = MCPServer(url=f"http://127.0.0.1:{port}/mcp", **SETTINGS)
        result = world.run(JsonAgent(server, model=ScriptedModel(call("write", characters=3_000_000), ANSWER)), "q")
        assert len(result.calls[0].value["result"]) == 3_000_000


def test_fifty_calls_at_once_get_their_own_answers(shop):
    calls = [{"name": "add", "arguments": {"a": number, "b": 1}} for number in range(50)]
    result = asyncio.run(JsonAgent(shop(), model=ScriptedModel({"tool_calls": calls}, ANSWER)).arun("q"))
    answers = [(json.loads(entry.call.arguments)["a"], entry.value["result"]) for entry in result.calls[:50]]
    assert sorted(answers) == [(number, number + 1) for number in range(50)]


class ForgetfulServer(BaseHTTPRequestHandler):
    """A server of the handshake era that knows a session until it forgets all of them, as at a restart."""

    sessions: ClassVar[set[str]] = set()
    called: ClassVar[list[str]] = []
    ABOUT: ClassVar[dict] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {}},
        "serverInfo": {"name": "forgetful", "version": "1"},
    }

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = message["method"]
        if method == "initialize":
            session = f"session-{time.monotonic_ns()}"
            self.sessions.add(session)
            self.reply(200, {"id": message["id"], "result": self.ABOUT}, session)
        elif self.headers["Mcp-Session-Id"] is None:
            self.reply(400, {"id": message["id"], "error": {"code": -32600, "message": "No session"}})
        elif self.headers["Mcp-Session-Id"] not in self.sessions:
            self.reply(404, {"id": message["id"], "error": {"code": -32600, "message": "Session not found"}})
        elif "id" not in message:
            self.reply(202)
        elif method == "tools/list":
            tool = {"name": "add", "inputSchema": {"type": "object"}}
            self.reply(200, {"id": message["id"], "result": {"tools": [tool]}})
        elif method == "resources/read":
            self.reply(200, {"id": message["id"], "result": {"contents": [{"uri": "a://b", "text": "there"}]}})
        elif method == "tools/call":
            self.called.append(self.headers["Mcp-Session-Id"])
            self.reply(200, {"id": message["id"], "result": {"content": [{"type": "text", "text": "added"}]}})
        else:
            self.reply(200, {"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})

    def do_GET(self) -> None:
        self.reply(405)

    do_DELETE = do_GET

    def reply(self, status: int, message: dict | None = None, session: str = "") -> None:
        body = b"" if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def forgetful():
    ForgetfulServer.sessions.clear()
    ForgetfulServer.called.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), ForgetfulServer) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield MCPServer(url=f"http://127.0.0.1:{http.server_port}/mcp", **SETTINGS)
        http.shutdown()


def test_a_server_that_was_restarted_gets_a_new_session_and_no_call_twice(world, forgetful):
    agent = JsonAgent(forgetful, model=ScriptedModel(*[call("add")] * 3, ANSWER))
    with forgetful:
        ForgetfulServer.sessions.clear()
        found = contents(world.run(agent, "q"))
    refused = "the server 'shop' refused the call: Session not found. Its session has ended. The next request begins a new one."
    assert found == [refused, "added", "added"]
    assert ForgetfulServer.called == [*ForgetfulServer.sessions] * 2


def test_a_resource_of_a_server_that_was_restarted_is_read_in_a_new_session(forgetful):
    with forgetful:
        ForgetfulServer.sessions.clear()
        with pytest.raises(ToolError, match=r"Session not found\. Its session has ended\."):
            forgetful.read("a://b")
        assert forgetful.read("a://b") == "there"


def test_headers_go_with_each_request():
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{http.server_port}/mcp"
        server = MCPServer(url=url, headers={"Authorization": "Bearer secret-token"})
        with pytest.raises(RunError) as caught:
            server.resources()
        http.shutdown()
    assert set(seen) == {"Bearer secret-token"}
    assert "secret-token" not in repr(server) + str(vars(server)) + str(caught.value)


def test_a_missing_sdk_is_named():
    code = "import sys; sys.modules['mcp'] = None\ntry:\n    import agentkit.mcp\nexcept ImportError as error: print(error)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == 'agentkit.mcp needs the package mcp: pip install "mcp>=2,<3"\n'
