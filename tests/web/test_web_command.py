"""`agentkit web` serves the agent that the command line names."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
import uvicorn
from click.testing import CliRunner
from ports import free_port
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from waiting import HANGS, wait_until

from agentkit.cli import main
from agentkit.extend import limit_header_time

APP = """
from agentkit import JsonAgent

def price_of(item: str) -> float:
    "Look up a price."
    return 3.5

agent = JsonAgent(price_of, description="A shop.")
"""


def fetch(request):
    """Return the body of the response as soon as the server accepts connections."""
    while True:  # pytest ends a test whose server never answers
        try:
            with urlopen(request, timeout=60) as response:
                return response.read()
        except HTTPError:
            raise
        except URLError:
            time.sleep(0.05)


@pytest.fixture
def unused_port():
    return free_port()


@pytest.fixture
def app(tmp_path):
    path = tmp_path / "shop_app.py"
    path.write_text(APP)
    return path


def test_it_prints_the_address_serves_the_agent_and_ends_with_an_interrupt(app, tmp_path, unused_port):
    command = [sys.executable, "-m", "agentkit", "web", f"{app}:agent", "--no-open", "--port", str(unused_port)]
    server = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        line = server.stderr.readline()
        address, token = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=(\S+)", line).groups()
        request = Request(f"{address}/info", headers={"authorization": f"Bearer {token}"})
        assert b"A shop." in fetch(request)
    finally:
        server.send_signal(signal.SIGINT)
        rest = server.communicate()[1]
    assert "Traceback" not in rest
    assert not [*tmp_path.glob("*.db")], "without --journal, nothing is written"


def test_an_interrupt_ends_the_streams_of_the_page_without_an_error(tmp_path, unused_port):
    (tmp_path / "waiting_app.py").write_text(
        "import asyncio\nfrom agentkit import JsonAgent\nfrom agentkit.testing import ScriptedModel, call\n\n"
        f'async def work() -> None:\n    "Work for a while."\n    await asyncio.sleep({HANGS})\n\n'
        "agent = JsonAgent(work, model=ScriptedModel(call('work')))\n"
    )
    options = ["--no-open", "--port", str(unused_port), "--token", "a-token"]
    command = [sys.executable, "-m", "agentkit", "web", "waiting_app.py:agent", *options]
    server = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        server.stderr.readline()
        address = f"http://127.0.0.1:{unused_port}"
        headers = {"x-agentkit-token": "a-token", "content-type": "application/json"}
        fetch(Request(f"{address}/info", headers=headers))
        query = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "Work"}]}
        with urlopen(Request(f"{address}/agui", json.dumps(query).encode(), headers), timeout=60) as stream:
            while b"TOOL_CALL_END" not in stream.readline():
                pass
            server.send_signal(signal.SIGINT)
            rest = server.communicate()[1]
    finally:
        server.kill()
        server.wait()
    assert (server.returncode, rest) == (0, "")


def test_the_page_behind_a_proxy_and_a_tunnel(app, tmp_path, unused_port):
    options = ["--no-open", "--port", str(unused_port), "--root-path", "/shop", "--allow-host", "shop.example"]
    command = [sys.executable, "-m", "agentkit", "web", f"{app}:agent", *options]
    token = "a-token-of-the-page"
    environment = {**os.environ, "AGENTKIT_WEB_TOKEN": token}
    server = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = server.stderr.readline()
        assert line == f"open http://127.0.0.1:{unused_port}/shop/?token={token}\n", "the token is not masked"

        def status(path, **headers):
            given = {"authorization": f"Bearer {token}", **headers}
            request = Request(f"http://127.0.0.1:{unused_port}{path}", headers=given)
            try:
                return 200, fetch(request).decode()
            except HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        for path in ("/shop/info", "/info"):
            assert status(path, Host="shop.example", Origin="https://shop.example")[0] == 200
        assert status("/info", Host="localhost:9000")[0] == 200, "ssh -L 9000:localhost:8080"
        for refused in ({"Host": "other.example"}, {"Origin": "https://other.example"}):
            assert "--allow-host" in status("/info", **refused)[1]
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate()


@contextmanager
def serving(app, protocol):
    """Serve an app with a protocol of uvicorn in a thread; yield its port."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, http=protocol, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


HEADER = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def test_connections_without_a_whole_header_are_closed_and_a_long_answer_is_not():
    begun = threading.Event()
    goes_on = threading.Event()

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"o", "more_body": True})
        if scope["path"] == "/long":
            begun.set()
            await asyncio.to_thread(goes_on.wait)
        await send({"type": "http.response.body", "body": b"k"})

    with serving(answer, limit_header_time(AutoHTTPProtocol, seconds=0.3)) as port, ExitStack() as opened:

        def connect(*pieces):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            for piece in pieces:
                connection.sendall(piece)
            return connection

        busy = connect(HEADER.replace(b"/ ", b"/long ") + b"\r\n")
        assert begun.wait(HANGS)
        again = connect(HEADER + b"\r\n")
        assert again.recv(1000).startswith(b"HTTP/1.1 200 OK")
        again.sendall(b"GET / HTT")  # a second request, which stops in its header
        waiting = [again, *(connect() for _ in range(100)), *(connect(HEADER) for _ in range(100))]
        for connection in waiting:
            while connection.recv(1000):  # the rest of the first answer, then the end
                pass
        goes_on.set()
        received = b""
        while not received.endswith(b"ok"):
            received += busy.recv(1000)


def test_a_port_in_use_is_refused_and_its_address_not_announced(app):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = CliRunner().invoke(main, ["web", f"{app}:agent", "--no-open", "--port", str(port)])
    assert (done.exit_code, "?token=" in done.output) == (2, False), done.output
    assert f"the page cannot be served at 127.0.0.1:{port}. Name another port" in done.output


def test_a_prefix_without_a_slash_is_refused(app):
    done = CliRunner().invoke(main, ["web", f"{app}:agent", "--no-open", "--root-path", "shop"])
    assert (done.exit_code, "root_path: expected a path such as" in done.output) == (2, True), done.output


@pytest.mark.parametrize(
    ("target", "reason"),
    [("{app}", "expected an agent, as module:agent or file.py:agent"), ("{app}:price_of", "expected an agent"), ("{app}:nothing", "has no 'nothing'")],
    ids=["no name", "a function", "unknown"],
)  # fmt: skip
def test_a_target_that_is_not_an_agent_is_refused(app, target, reason):
    done = CliRunner().invoke(main, ["web", target.format(app=app), "--no-open"])
    assert (done.exit_code, reason in done.output) == (2, True), done.output


@pytest.mark.parametrize("command", [["web", "--no-open"], ["acp"]], ids=["web", "acp"])
def test_options_that_the_target_would_ignore_are_refused(app, command):
    done = CliRunner().invoke(main, [*command, f"{app}:agent", "--model", "openai/gpt-4o-mini", "--max-steps", "3"])
    assert done.exit_code == 2
    assert "has tools and settings of its own. Set them there, and leave out: --model" in done.output
    assert "--max-steps 3" in done.output
