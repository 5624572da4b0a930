"""`agentkit acp`: an agent for an editor."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from .agents import agent_options, choose_agent


@click.command("acp", short_help="Let an editor drive an agent.")
@click.argument("target", required=False)
@agent_options
def acp_command(target: str | None, journal: Path | None, **settings: Any) -> None:
    """Speak ACP, the Agent Client Protocol, on standard input and output; an editor starts this command.

    TARGET is an agent: module:agent or file.py:agent.  Without it, the agent is made of the options.  With --journal,
    sessions are kept, and the editor can open them again.  The agent also has the tools of the editor's MCP servers.
    """
    door = import_module("agentkit.acp")
    door.serve(choose_agent(target, journal=journal, **settings), journal=journal, connect=_connect)


def _connect(**server: Any) -> Any:
    return import_module("agentkit.mcp").MCPServer(**server)
