"""`agentkit web` serves the agent that the command line names."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from agentkit.cli import main

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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def app(tmp_path):
    path = tmp_path / "shop_app.py"
    path.write_text(APP)
    return path


def test_it_prints_the_address_serves_the_agent_and_ends_with_an_interrupt(app, tmp_path, unused_port):
    command = [sys.executable, "-m", "agentkit.cli", "web", f"{app}:agent", "--no-open", "--port", str(unused_port)]
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


def test_the_page_behind_a_proxy_and_a_tunnel(app, tmp_path, unused_port):
    options = ["--no-open", "--port", str(unused_port), "--root-path", "/shop", "--allow-host", "shop.example"]
    command = [sys.executable, "-m", "agentkit.cli", "web", f"{app}:agent", *options]
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
                return error.code, error.read().decode()

        for path in ("/shop/info", "/info"):
            assert status(path, Host="shop.example", Origin="https://shop.example")[0] == 200
        assert status("/info", Host="localhost:9000")[0] == 200, "ssh -L 9000:localhost:8080"
        for refused in ({"Host": "other.example"}, {"Origin": "https://other.example"}):
            assert "--allow-host" in status("/info", **refused)[1]
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate()


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
