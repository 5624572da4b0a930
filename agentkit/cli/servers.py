"""MCP servers on the command line: `--mcp FILE`, and the tools of a command with those of its servers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

import agentkit

from .targets import check_trust, load_registry

MCP = click.option(
    "--mcp",
    "configs",
    callback=check_trust,
    multiple=True,
    envvar="AGENTKIT_MCP",
    metavar="FILE",
    help='Use the tools of the MCP servers in this file, {"mcpServers": {"name": {"command": ..., "args": [...]}}}. '
    "May be given several times.",
)


def load_servers(configs: Sequence[str], **settings: Any) -> list[Any]:
    """Return the servers of configuration files; raise `click.UsageError` if one is invalid or the SDK is missing."""
    if not configs:
        return []
    try:
        door = import_module("agentkit.mcp")
        return [server for config in configs for server in door.MCPServer.from_config(config, **settings)]
    except (ImportError, agentkit.DefinitionError) as error:
        raise click.UsageError(str(error)) from error


def load_tools(targets: Sequence[str], configs: Sequence[str]) -> list[Any]:
    """Return what an agent gets: the tools of the targets, and servers; the bundled tools without both."""
    tools = [load_registry(targets)] if targets or not configs else []
    return [*tools, *load_servers(configs)]


@contextmanager
def open_registry(targets: Sequence[str], configs: Sequence[str]) -> "Iterator[agentkit.ToolRegistry]":
    """Yield all tools by name; the servers are open meanwhile."""
    toolset = import_module("agentkit.tools.toolset")
    tools, servers = toolset.split_toolsets(load_tools(targets, configs))
    registry = agentkit.ToolRegistry(tools)
    with keep_open(servers):
        yield registry.merged(toolset.name_toolset_tools(servers, registry))


@contextmanager
def keep_open(servers: Sequence[Any]) -> Iterator[None]:
    """Open servers for several runs, and close them at the end."""
    toolset, opened = import_module("agentkit.tools.toolset"), []  # type: ignore[var-annotated]
    with toolset.closing_toolsets(opened):
        for _ in toolset.OpenToolsets(servers, opened).perform():
            pass
        yield
