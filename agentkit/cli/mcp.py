"""`agentkit mcp`: serve tools to clients of the Model Context Protocol, and look at what a server offers."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

import agentkit

from .output import print_note
from .targets import TOOLS, keep_open, load_targets
from .tools import print_findings, print_tools

TOKEN_VARIABLE = "AGENTKIT_MCP_TOKEN"


@click.group("mcp", short_help="Serve tools over MCP, or inspect a server.")
def mcp_command() -> None:
    """Serve tools over the Model Context Protocol, or inspect a server."""


@mcp_command.command("serve")
@TOOLS
@click.option(
    "--http", "address", metavar="[HOST]:PORT", help="Serve HTTP at this address instead of stdin and stdout."
)
@click.option("--name", default="agentkit", show_default=True, help="The name of the server.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Another name that clients reach it by.")
def serve_command(targets: Sequence[str], address: str | None, name: str, hosts: Sequence[str]) -> None:
    """Serve tools to MCP clients; TARGET may name an agent, which becomes a tool.

    Dangerous tools ask the person at the client before each call, and are refused where it cannot ask.  An address that
    other machines can reach needs a token of at least 16 characters in the variable AGENTKIT_MCP_TOKEN.
    """
    tools = load_targets(targets)
    try:
        server = import_module("agentkit.mcp.server")
        if address is None:
            server.serve(tools, name=name)
            return
        host, port = _read_address(address)
        token = os.environ.get(TOKEN_VARIABLE, "")
        print_note(f"serving {len(tools)} tools at http://{host}:{port}/mcp; Ctrl-C stops")
        server.serve(tools, http=True, host=host, port=port, hosts=hosts, token=token, name=name)
    except (ImportError, agentkit.DefinitionError) as error:
        raise click.UsageError(str(error)) from error


@mcp_command.command("inspect")
@click.argument("server", metavar="COMMAND_OR_URL")
def inspect_command(server: str) -> None:
    """Print what a server offers: its tools with their effects, what they cost in a request, and what lint says."""
    linter = import_module("agentkit.tools.lint")
    try:
        door: Any = import_module("agentkit.mcp")
        opened = _server_of(server) if server.startswith(("http://", "https://")) else door.MCPServer(server)
    except (ImportError, agentkit.DefinitionError) as error:
        raise click.UsageError(str(error)) from error
    with keep_open([opened]):
        tools = [*opened.tools.values()]
        print_tools(opened.tools)
        print_findings(linter.lint(tools), linter.estimate_tokens(tools))


@mcp_command.command("login")
@click.argument("url")
def login_command(url: str) -> None:
    """Log in at the server URL in the browser; servers with `"auth": "oauth"` use the stored tokens."""
    try:
        door = import_module("agentkit.mcp")
    except ImportError as error:
        raise click.UsageError(str(error)) from error
    door.login(url)
    print_note(f"you are logged in at {url}")


def _server_of(url: str) -> Any:
    is_known = import_module("agentkit.mcp.oauth").StoredLogin(url).exists
    return import_module("agentkit.mcp").MCPServer(url=url, auth="oauth" if is_known else None)


def _read_address(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise click.UsageError(f"--http {address}: expected :PORT or HOST:PORT, such as :8000")
    return host.strip("[]") or "127.0.0.1", int(port)
