"""The MCP servers of the editor, whose tools the agent has for a conversation."""

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, TypeAlias

from .. import AgentkitError, JsonAgent
from ..extend import Toolset, mask

Connect: TypeAlias = Callable[..., Toolset]
"""Makes a toolset of a server; its keywords are those of `agentkit.mcp.MCPServer`."""
UNUSED = "MCP servers of the editor are not used: {}. Serve with connect=agentkit.mcp.MCPServer."


class EditorServers:
    """The servers that the editor names for a conversation; open from the first turn until the connection ends.

    Args:
        servers: The servers, as ACP describes them.
        folder: Where programs are started.
        connect: Makes their toolsets; without it they are only named in a notice.
    """

    def __init__(self, servers: Sequence[Any] | None, folder: str, connect: Connect | None) -> None:
        self.notices: list[str] = []
        """What the person should read about servers that are not used."""
        self._waiting: list[Toolset] = []
        self._opened: list[Toolset] = []
        if connect is None:
            if servers:
                self.notices.append(UNUSED.format(", ".join(server.name for server in servers)))
            return
        for server in servers or ():
            try:
                self._waiting.append(connect(**_read_server(server, folder)))
            except AgentkitError as error:
                self._note(server.name, error)

    async def extend(self, agent: JsonAgent[Any]) -> JsonAgent[Any]:
        """Open the servers that are not open, and return the agent with their tools."""
        await asyncio.gather(*map(self._open, [*self._waiting]))
        if not self._opened:
            return agent
        twin = copy(agent)
        twin.toolsets = (*agent.toolsets, *self._opened)
        return twin

    async def close(self) -> None:
        """Close the open servers."""
        opened = self._opened
        self._opened = []
        await asyncio.gather(*(server.close_tools() for server in opened), return_exceptions=True)

    async def _open(self, server: Toolset) -> None:
        try:
            await server.open_tools()
        except AgentkitError as error:
            self._note(server.name, error)
        else:
            self._opened.append(server)
        self._waiting.remove(server)

    def _note(self, name: str, error: AgentkitError) -> None:
        self.notices.append(f"The MCP server {name} is not used. {mask(str(error))}")


def _read_server(server: Any, folder: str) -> dict[str, Any]:
    """Return the keywords of a server."""
    if hasattr(server, "command"):
        env = {variable.name: variable.value for variable in server.env}
        return {"name": server.name, "command": [server.command, *server.args], "env": env, "cwd": folder}
    return {"name": server.name, "url": server.url, "headers": {each.name: each.value for each in server.headers}}
