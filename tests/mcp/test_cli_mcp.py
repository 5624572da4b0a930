"""`--mcp FILE` on the command line."""

import json
import os
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner
from servers import SCRIPT, wait_until_nothing_is_left

from agentkit.cli import main


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Call the command line in a folder with an `mcp.json`."""
    for name in [name for name in os.environ if name.startswith("AGENTKIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    entry = {"command": sys.executable, "args": [str(SCRIPT), "Scripted"], "effects": {"*": "read"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"far": entry}}))
    yield lambda *arguments, **settings: CliRunner().invoke(main, arguments, **settings)
    wait_until_nothing_is_left()


def test_tools_lists_those_of_the_servers(run):
    result = run("tools", "--mcp", "mcp.json")
    assert result.stdout.splitlines()[:2] == ["echo(text?)", "    Does echo."]
    both = run("tools", "--mcp", "mcp.json", "--tools", "agentkit_tools:calculate", "--json")
    assert [tool["name"] for tool in json.loads(both.stdout)] == ["calculate", "echo", "env", "add"]


def test_run_uses_the_tools_of_the_servers(run):
    result = run("run", "Call env", "--mcp", "mcp.json", "--model", "offline", "--json")
    assert result.exit_code == 0, result.output
    calls = [
        call["function"]["name"] for m in json.loads(result.stdout)["messages"] for call in m.get("tool_calls", [])
    ]
    assert calls[0] == "env"


def test_chat_keeps_the_servers_open_and_lists_their_tools(run):
    result = run("chat", "--mcp", "mcp.json", "--model", "offline", input="/tools\n")
    assert "echo: Does echo." in result.stdout


def test_the_command_to_continue_names_the_file(run):
    with open("mcp.json") as file:
        text = file.read().replace('"read"', '"danger"')
    with open("mcp.json", "w") as file:
        file.write(text)
    result = run("run", "Call env", "--mcp", "mcp.json", "--model", "offline")
    assert result.exit_code == 3, result.output
    assert "--mcp mcp.json --model offline" in result.stderr


def test_lock_writes_and_checks_what_the_servers_offer(run):
    assert run("lock", "--mcp", "mcp.json").stdout == "mcp.lock.json: 3 tools of 1 servers\n"
    assert run("lock", "--mcp", "mcp.json", "--check").exit_code == 0
    with open("mcp.lock.json") as file:
        text = file.read().replace("Does echo.", "Does it.")
    with open("mcp.lock.json", "w") as file:
        file.write(text)
    result = run("lock", "--mcp", "mcp.json", "--check")
    assert result.exit_code == 1
    assert result.stdout == 'far echo description, at character 5: "it." became "echo."\n'
    listed = run("tools", "--mcp", "mcp.json").stdout
    assert "Does it." in listed


def test_an_address_that_others_reach_names_the_variable_of_its_token(run):
    serve = ("mcp", "serve", "--tools", "agentkit_tools:calculate", "--http", "0.0.0.0:8099")
    for token, problem in (("", "others can reach this address"), ("short", "expected at least 16 characters, got 5")):
        refused = run(*serve, env={"AGENTKIT_MCP_TOKEN": token})
        assert refused.exit_code == 2
        assert problem in refused.stderr
        assert "AGENTKIT_MCP_TOKEN" in refused.stderr


def test_a_port_in_use_is_wrong_usage_and_its_address_not_announced(run):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run("mcp", "serve", "--tools", "agentkit_tools:calculate", "--http", f":{port}")
    assert (done.exit_code, "serving" in done.output) == (2, False), done.output
    assert f"the tools cannot be served at 127.0.0.1:{port}. Name another port" in " ".join(done.output.split())


def test_a_wrong_file_is_wrong_usage(run):
    result = run("tools", "--mcp", "none.json")
    assert result.exit_code == 2
    assert "none.json: cannot be read as JSON: No such file" in result.stderr


def test_a_file_that_a_pyproject_names_needs_consent(run):
    with open("pyproject.toml", "w") as file:
        file.write('[tool.agentkit]\nmcp = "mcp.json"\n')
    result = run("tools")
    assert result.exit_code == 2
    assert "are not allowed" in result.stderr


def test_a_key_of_another_program_is_one_line(run):
    entry = {"command": sys.executable, "args": [str(SCRIPT), "Scripted"], "autoApprove": ["echo"]}
    with open("editor.json", "w") as file:
        json.dump({"servers": {"far": entry}}, file)
    command = [sys.executable, "-m", "agentkit", "tools", "--mcp", "editor.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = done.stderr.splitlines()
    assert line.startswith("agentkit: editor.json: 'far': the key 'autoApprove' is ignored. Keys: ")
    assert done.stdout.startswith("echo(text?)")
