"""Agents with the tools of servers from npm and PyPI, in both eras of the protocol; the conformance suite of clients."""

import fcntl
import itertools
import json
import math
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest
from ports import free_port, is_open
from waiting import HANGS, wait_until

from agentkit import JsonAgent, ToolSearch
from agentkit.events import Progress
from agentkit.mcp import MCPServer
from agentkit.testing import ScriptedModel, call

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "integration"
NPM = CACHE / "node_modules" / "@modelcontextprotocol"
PROGRAMS = CACHE / "mcp" / "bin"
ANSWER = call("final_answer", text="done")
SETTINGS = {"effects": {"*": "read"}, "trust": "trusted"}

pytestmark = pytest.mark.integration


def npm(name: str, *arguments: str, **settings) -> MCPServer:
    script = NPM / name / "dist" / "index.js"
    if not script.exists():
        pytest.skip(f"the npm package @modelcontextprotocol/{name} is missing: tests/integration/install.sh")
    return MCPServer(["node", str(script), *arguments], name=name, **{**SETTINGS, **settings})


def pypi(name: str, *arguments: str, **settings) -> MCPServer:
    if not (PROGRAMS / name).exists():
        pytest.skip(f"the package {name} is missing: tests/integration/install.sh")
    return MCPServer([*pypi_command(name), *arguments], name=name, **{**SETTINGS, **settings})


def pypi_command(name: str) -> list[str]:
    """Return the command of an installed program, without the path in its first line, which a moved checkout lacks."""
    return [str(PROGRAMS / "python"), str(PROGRAMS / name)]


def results_of(world, server: MCPServer, *calls, **settings) -> list[str]:
    result = world.run(JsonAgent(server, model=ScriptedModel(*calls, ANSWER), **settings), "q")
    return [entry.content for entry in result.calls[:-1]]


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    wait_until(
        lambda: not [child for child in psutil.Process().children(recursive=True) if "mcp" in " ".join(child.cmdline())]
    )


def test_server_everything(world):
    events: list = []
    calls = (
        call("echo", message="hi"),
        call("get-sum", a=1, b=2),
        call("get-tiny-image"),
        call("get-structured-content", location="New York"),
        call("trigger-long-running-operation", duration=1, steps=2),
        call("get-resource-links", count=2),
        call("get-sum", a="one", b=2),
    )
    found = results_of(world, npm("server-everything"), *calls, listeners=[events.append])
    assert found[0] == "Echo: hi"
    assert "3" in found[1]
    assert "[image/png, " in found[2]
    assert json.loads(found[3])["temperature"]
    assert "ompleted" in found[4]
    assert found[5].count("read_resource reads it") == 2
    assert "number" in found[6]
    assert [event.value["progress"] for event in events if isinstance(event, Progress)] == [1, 2]


def test_server_everything_asks_the_model_and_for_the_folders(world, tmp_path):
    model = ScriptedModel(
        call("trigger-sampling-request", prompt="Say hi"), {"content": "Hi there"}, call("get-roots-list"), ANSWER
    )
    server = npm("server-everything", sampling=True, roots=[tmp_path])
    result = world.run(JsonAgent(server, model=model), "q")
    assert '"text": "Hi there"' in result.calls[0].content
    assert tmp_path.as_uri() in result.calls[1].content


def test_fifty_calls_at_once_to_one_server(world):
    calls = {"tool_calls": [{"name": "echo", "arguments": {"message": f"number {n}"}} for n in range(50)]}
    result = world.run(JsonAgent(npm("server-everything"), model=ScriptedModel(calls, ANSWER)), "q")
    assert len(result.calls) == 51
    for entry in result.calls[:50]:
        assert entry.content == f"Echo: {json.loads(entry.call.arguments)['message']}"


def test_resources_and_prompts_of_server_everything():
    with npm("server-everything") as server:
        resources = server.resources()
        assert any("{" in resource.uri for resource in resources)
        text = next(entry.uri for entry in resources if "{" not in entry.uri)
        assert server.read(text)
        (message,) = server.prompt("simple-prompt")
        assert message["role"] == "user"
        assert message["content"]


def test_server_filesystem_keeps_to_its_folder(world, tmp_path):
    (tmp_path / "a.txt").write_text("the text")
    calls = (
        call("read_text_file", path=str(tmp_path / "a.txt")),
        call("read_text_file", path="/etc/passwd"),
        call("write_file", path=str(tmp_path / "b.txt"), content="new"),
    )
    found = results_of(world, npm("server-filesystem", str(tmp_path)), *calls)
    assert "the text" in found[0]
    assert "denied" in found[1]
    assert (tmp_path / "b.txt").read_text() == "new"


def test_a_file_is_read_once(world, tmp_path):
    text = "a line\n" * 1_800
    (tmp_path / "a.txt").write_text(text)
    (shown,) = results_of(
        world, npm("server-filesystem", str(tmp_path)), call("read_text_file", path=str(tmp_path / "a.txt"))
    )
    assert shown == text


def test_the_tools_of_a_server_are_found_by_a_search(world, tmp_path):
    (tmp_path / "a.txt").write_text("the text")
    model = ScriptedModel(
        call("find_tools", query="read the contents of a text file"),
        call("read_text_file", path=str(tmp_path / "a.txt")),
        call("create_directory", path=str(tmp_path / "made")),  # was not found: it runs, and is offered then
        ANSWER,
    )
    server = npm("server-filesystem", str(tmp_path))
    agent = JsonAgent(server, model=model, extensions=[ToolSearch(above=5, limit=3)])
    result = world.run(agent, "q")
    assert "read_text_file" in result.calls[0].content
    assert result.calls[1].content == "the text"
    assert (tmp_path / "made").is_dir()
    offered = [[*request.tools] for request in model.requests]
    assert offered[0] == ["final_answer", "find_tools"]
    for before, after in itertools.pairwise(offered):
        assert [name for name in after if name in before] == before
    assert "read_text_file" in offered[1]
    assert "create_directory" in offered[3]
    assert len(offered[3]) <= 6


def test_hints_of_server_filesystem(tmp_path):
    with npm("server-filesystem", str(tmp_path), effects={}, trust="untrusted") as untrusted:
        assert untrusted.tools["write_file"].effect == "danger"
        assert untrusted.tools["read_text_file"].effect == "write"
    with npm("server-filesystem", str(tmp_path), effects={}) as trusted:
        assert trusted.tools["read_text_file"].effect == "read"


def test_mcp_server_time(world):
    found = results_of(
        world,
        pypi("mcp-server-time"),
        call("convert_time", source_timezone="Europe/Rome", time="12:00", target_timezone="Asia/Tokyo"),
        call("get_current_time", timezone="Nowhere/At_All"),
    )
    assert "Asia/Tokyo" in found[0]
    assert "Nowhere" in found[1] or "timezone" in found[1].lower()


def test_mcp_server_git(world, tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q", str(tmp_path)], check=True)
    subprocess.run([*git, "-C", str(tmp_path), "commit", "-q", "--allow-empty", "-m", "first one"], check=True)
    server = pypi("mcp-server-git", "-r", str(tmp_path))
    assert "first one" in results_of(world, server, call("git_log", repo_path=str(tmp_path), max_count=1))[0]


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<html><body><h1>Title</h1><p>The body of the page.</p></body></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_mcp_server_fetch(world):
    with HTTPServer(("127.0.0.1", 0), Page) as pages, (CACHE / "fetch.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)  # its first call installs a part of it, which another must not find half done
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        server = pypi("mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips")
        found = results_of(world, server, call("fetch", url=f"http://127.0.0.1:{pages.server_port}/"))
        pages.shutdown()
    assert "The body of the page." in found[0]


def test_all_servers_of_a_configuration_in_four_dialects(tmp_path):
    npm("server-everything"), pypi("mcp-server-time")  # skipped without them
    script = str(NPM / "server-{}" / "dist" / "index.js")
    installed = {name: pypi_command(f"mcp-server-{name}") for name in ("time", "git", "fetch")}
    servers = {
        "everything": {"command": "node", "args": [script.format("everything")]},
        "files": {"command": "node", "args": [script.format("filesystem"), "${FOLDER}"]},
        **{name: {"command": python, "args": [program]} for name, (python, program) in installed.items()},
    }
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    os.environ["FOLDER"] = str(tmp_path)
    try:
        loaded = MCPServer.from_config(config)
    finally:
        del os.environ["FOLDER"]
    model = ScriptedModel(ANSWER)
    JsonAgent(loaded, model=model, extensions=[ToolSearch(above=math.inf)]).run("q")
    tools = model.requests[0].tools
    assert len(tools) > 35
    for dialect in ("openai", "openai_strict", "anthropic", "gemini"):
        assert len(tools.schemas(dialect)) == len(tools)


@pytest.mark.parametrize(("transport", "path"), [("streamableHttp", "/mcp"), ("sse", "/sse")])
def test_server_everything_over_http(world, transport, path):
    npm("server-everything")
    port = free_port()
    script = NPM / "server-everything" / "dist" / "index.js"
    environment = {**os.environ, "PORT": str(port)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(["node", str(script), transport], env=environment, **quiet)
    try:
        wait_until(lambda: is_open(port))
        server = MCPServer(url=f"http://127.0.0.1:{port}{path}", **SETTINGS)
        assert results_of(world, server, call("echo", message="hi"), call("get-sum", a=1, b=2))[0] == "Echo: hi"
    finally:
        process.kill()
        process.wait()


CLIENT = """
import sys
from agentkit import JsonAgent, ToolSearch
from agentkit.mcp import MCPServer
from waiting import wait_until
from agentkit.testing import ScriptedModel, call
with MCPServer(url=sys.argv[-1], trust="trusted", effects={"*": "read"}) as server:
    calls = [call(name, **({"a": 5, "b": 3} if name == "add_numbers" else {})) for name in server.tools]
    model = ScriptedModel(*calls, call("final_answer", text="done"))
    JsonAgent(server, model=model, on_question=lambda question: {}).run("q")
"""


@pytest.mark.timeout(HANGS)
@pytest.mark.parametrize("scenario", ["initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults"])
def test_the_conformance_suite_of_clients(scenario, tmp_path):
    suite = NPM / "conformance" / "dist" / "index.js"
    if not suite.exists():
        pytest.skip("the npm package @modelcontextprotocol/conformance is missing: tests/integration/install.sh")
    client = tmp_path / "client.py"
    client.write_text(CLIENT if scenario != "initialize" else CLIENT.partition("    calls")[0] + "    pass\n")
    done = subprocess.run(
        [
            "node",
            str(suite),
            "client",
            "--command",
            f"{sys.executable} {client}",
            "--scenario",
            scenario,
            "--timeout",
            str(int(HANGS * 1000)),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OVERALL: PASSED" in done.stdout + done.stderr
