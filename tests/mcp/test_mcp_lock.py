"""Tools of servers that a person has reviewed: with a lock, what changed since is refused."""

import json
import sys

import pytest
from servers import SCRIPT, contents, make_calls, scripted, wait_until_nothing_is_left

from agentkit import DefinitionError
from agentkit.mcp import MCPServer
from agentkit.mcp.lock import compare_servers, compare_tool, format_servers, lock_servers, read_servers
from agentkit.testing import call


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    wait_until_nothing_is_left()


@pytest.fixture
def lock(tmp_path):
    """The lock of the scripted server as it is, and a function that changes it."""
    path = tmp_path / "mcp.lock.json"
    path.write_text(format_servers(lock_servers([scripted()])))

    def change(**changes) -> None:
        servers = read_servers(path)
        tools = {name: {**tool, **changes.get(name, {})} for name, tool in servers["scripted"].items()}
        path.write_text(format_servers({"scripted": {k: v for k, v in tools.items() if changes.get(k) != {}}}))

    return path, change


def call_locked(world, lock, *calls, kind: str = "Scripted"):
    result, model = make_calls(world, scripted(kind, lock=lock), *calls)
    return contents(result), model


def test_tools_that_are_as_they_were_locked_run(world, lock):
    assert call_locked(world, lock[0], call("echo", text="x"))[0] == ["x"]


def test_a_changed_description_is_refused_with_the_difference(world, lock):
    lock[1](echo={"description": "Does echo as reviewed."})
    (refused, other), model = call_locked(world, lock[0], call("echo", text="x"), call("add", a=1))
    assert "the tool 'echo' of this server has changed since it was locked: description, at character 9" in refused
    assert '" as reviewed." became "."' in refused
    assert other == "2"
    assert model.requests[0].tools["echo"].description == "Does echo as reviewed."  # the model reads what was reviewed


def test_a_changed_schema_or_hint_is_refused_with_the_difference(world, lock):
    lock[1](
        add={"inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}},
        echo={"annotations": {"readOnlyHint": True}},
    )
    (schema, hint), _ = call_locked(world, lock[0], call("add", a="1"), call("echo", text="x"))
    assert "input.a: type string -> integer" in schema
    assert 'annotations: {"readOnlyHint": true} became null' in hint


def test_a_tool_that_is_not_in_the_lock_is_left_out(world, lock):
    lock[1](env={})
    _, model = call_locked(world, lock[0])
    assert [name for name in model.requests[0].tools if name != "final_answer"] == ["echo", "add"]


def test_a_tool_that_changes_during_a_run_is_refused_too(world, tmp_path):
    path = tmp_path / "lock.json"
    path.write_text(format_servers(lock_servers([scripted("Changes")])))
    found, model = call_locked(world, path, call("change"), call("fresh"), kind="Changes")
    assert found[0] == "changed"
    assert "there is no tool 'fresh'" in found[1]
    assert "fresh" not in model.requests[1].tools


def test_the_lock_beside_a_configuration_is_used(tmp_path):
    config = tmp_path / "mcp.json"
    beside = tmp_path / "mcp.lock.json"
    config.write_text(
        json.dumps({"mcpServers": {"scripted": {"command": sys.executable, "args": [str(SCRIPT), "Scripted"]}}})
    )
    beside.write_text(format_servers({"scripted": {}}))
    (server,) = MCPServer.from_config(config)
    with server:
        assert list(server.tools) == []
    (server,) = MCPServer.from_config(config, lock=False)
    with server:
        assert list(server.tools) == ["echo", "env", "add"]


def test_a_server_that_is_not_in_the_lock_is_refused(lock):
    with pytest.raises(DefinitionError, match="the server 'other' is not locked"):
        scripted(name="other", lock=lock[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as JSON"),
        ('{"version": 1, "tools": {}}', "no lock of MCP servers"),
        ('{"version": 2, "servers": {}}', "no lock of MCP servers, version 1"),
        ('{"version": 1, "servers": {"a": 3}}', "the tools of a server must be objects"),
    ],
)
def test_a_file_that_is_not_a_lock_is_refused(tmp_path, text, message):
    path = tmp_path / "lock.json"
    path.write_text(text)
    with pytest.raises(DefinitionError, match=message):
        scripted(lock=path)
    with pytest.raises(DefinitionError, match="No such file"):
        scripted(lock=tmp_path / "none.json")


def test_differences_are_named():
    assert compare_tool({"title": "A"}, {"title": "A"}) == []
    assert compare_tool({"title": "A"}, {}) == ['title: "A" became null']
    same = {"inputSchema": {"type": "object", "x-own": 1}}, {"inputSchema": {"type": "object", "x-own": 2}}
    assert compare_tool(*same)
    old = {"s": {"a": {"title": "A"}, "b": {}}}
    new = {"s": {"a": {"title": "B"}, "c": {}}}
    assert compare_servers(old, new) == ['s a title, at character 0: "A" became "B"', "s b: removed", "s c: added"]
