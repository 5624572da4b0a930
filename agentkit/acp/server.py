"""Serve an agent to the editor that started this process."""

import asyncio
import os
import sys
from typing import Any, cast

from ..agents.agent import JsonAgent
from ..sessions.journal.location import Place
from .agent import EditorAgent
from .api import acp
from .servers import Connect


def serve(agent: JsonAgent[Any], *, journal: Place | None = None, connect: Connect | None = None) -> None:
    """Speak ACP on standard input and output until the editor closes them; what tools print goes to standard error.

    Args:
        agent: The agent.
        journal: The journal that keeps the sessions; default: the agent's, else they end with the process.
        connect: Connects the agent with the editor's MCP servers: `agentkit.mcp.MCPServer`.  Default: not connected.
    """
    place: Any = agent.journal if journal is None else journal
    asyncio.run(_serve(EditorAgent(agent, place, connect=connect)))


async def _serve(agent: EditorAgent) -> None:
    sys.stdout.flush()
    own = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=acp.core.DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, own)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        await acp.run_agent(cast("Any", agent), writer, reader)
    finally:
        await agent.close()
