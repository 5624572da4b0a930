"""An agent as an editor drives it: the methods of ACP, and `serve` for the editor that started the process."""

import asyncio
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

from .. import AgentkitError, JsonAgent, RunError, Session
from ..extend import (
    Place,
    StoredConversation,
    find_conversation,
    find_versions,
    frames_of_journaled_run,
    is_open,
    list_conversations,
    mask,
    opened_store,
)
from .api import RequestError, acp, schema
from .editor_session import (
    CONTINUE_COMMAND,
    INTERNAL_ERROR,
    Connect,
    EditorServers,
    EditorSession,
    UpdateEncoder,
    query_of_prompt,
)

NOT_FOUND = -32002
NOTHING_NOTICE = "Nothing is left to continue: the last run has its end. Send a question.\n\n"
UNFINISHED_NOTICE = f"The last run of this conversation has no end. Send {CONTINUE_COMMAND} to continue it."


class EditorAgent:
    """The agent side of one connection.

    Args:
        agent: The agent.
        journal: The journal that keeps the sessions; without one they end with the process.
        connect: Makes toolsets of the editor's MCP servers, see `EditorServers`.
    """

    def __init__(self, agent: JsonAgent[Any], journal: Place | None = None, *, connect: Connect | None = None) -> None:
        self._agent = agent
        self._journal = journal
        self._connect = connect
        self._open: dict[str, EditorSession] = {}
        self._client: Any = None
        self._has_forms = False
        if journal is not None:
            with opened_store(journal):  # creates it
                pass

    def on_connect(self, conn: Any) -> None:
        """Store the connection, through which the editor is asked and informed."""
        self._client = conn

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **_: Any) -> Any:  # noqa: ARG002
        """Return what the agent can do."""
        forms = client_capabilities.elicitation if client_capabilities is not None else None
        self._has_forms = forms is not None and forms.form is not None
        is_stored = self._journal is not None
        listing = schema.SessionCapabilities(list=schema.SessionListCapabilities()) if is_stored else None
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=is_stored,
                mcp_capabilities=schema.McpCapabilities(http=self._connect is not None, sse=False),
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=True, embedded_context=True),
                session_capabilities=listing or schema.SessionCapabilities(),
            ),
            agent_info=schema.Implementation(name="agentkit", version=find_versions().get("agentkit", "0")),
            auth_methods=[],
        )

    async def new_session(self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any) -> Any:
        """Begin a conversation."""
        identity = uuid4().hex
        session = Session() if self._journal is None else await asyncio.to_thread(Session.open, identity, self._journal)
        servers = EditorServers(mcp_servers, cwd, self._connect)
        self._open[identity] = EditorSession(identity, session, servers)
        return schema.NewSessionResponse(session_id=identity)

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any) -> Any:
        """Open a conversation of the journal, and show what happened in it."""
        if self._journal is None:
            raise RequestError(NOT_FOUND, "sessions are not kept: start agentkit acp with --journal FILE")
        try:
            stored = await asyncio.to_thread(find_conversation, session_id, self._journal)
        except AgentkitError as error:
            raise RequestError(NOT_FOUND, mask(str(error))) from error
        if stored is None:
            raise RequestError(NOT_FOUND, f"the journal has no session {session_id!r:.80}")
        if (before := self._open.get(session_id)) is not None:
            before.check_idle()
            del self._open[session_id]
            await before.servers.close()
        servers = EditorServers(mcp_servers, cwd, self._connect)
        self._open[session_id] = EditorSession(session_id, stored.session, servers, stored.interrupted)
        with _ended_with_connection():
            await self._show(session_id, stored)
        return schema.LoadSessionResponse()

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> Any:
        """Return the conversations of the journal, the newest first."""
        found = [] if self._journal is None else await asyncio.to_thread(list_conversations, self._journal)
        sessions = [
            schema.SessionInfo(
                session_id=info.name,
                cwd=cwd or os.getcwd(),
                title=info.title[:200],
                updated_at=datetime.fromtimestamp(info.seen, UTC).isoformat(),
            )
            for info in found
        ]
        return schema.ListSessionsResponse(sessions=sessions)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> Any:
        """Answer a prompt."""
        if session_id not in self._open:
            raise RequestError(NOT_FOUND, f"no session {session_id!r:.80} is open: send session/new or session/load")
        conversation = self._open[session_id]
        query = query_of_prompt(prompt)
        if query == CONTINUE_COMMAND and not conversation.interrupted and not is_open(conversation.session.messages):
            await self._client.session_update(session_id, acp.update_agent_message_text(NOTHING_NOTICE))
            return schema.PromptResponse(stop_reason="end_turn")
        if query == CONTINUE_COMMAND and conversation.interrupted and self._journal is not None:
            interrupted = conversation.interrupted
            conversation.interrupted = ""
            try:
                conversation.session = await asyncio.to_thread(Session.resumed, interrupted, self._journal)
            except AgentkitError as error:
                raise RequestError(NOT_FOUND, mask(str(error))) from error
        with _ended_with_connection():
            return await conversation.prompt(self._agent, self._client, query, has_forms=self._has_forms)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the turn of a conversation."""
        if session_id in self._open:
            self._open[session_id].cancel()

    async def close(self) -> None:
        """Close the servers of all conversations."""
        await asyncio.gather(*(conversation.servers.close() for conversation in self._open.values()))

    async def _show(self, identity: str, stored: StoredConversation) -> None:
        encoder = UpdateEncoder()
        for run in stored.runs:
            updates = [acp.update_user_message_text(mask(run.run.query))] if run.run.query else []
            for _, frame in frames_of_journaled_run(run):
                updates += encoder.encode(frame)
            for update in updates:
                await self._client.session_update(identity, update)
        if stored.runs and stored.runs[-1].run.state in ("interrupted", "paused"):
            await self._client.session_update(identity, acp.update_agent_message_text(UNFINISHED_NOTICE))
            known = [schema.AvailableCommand(name=CONTINUE_COMMAND[1:], description="Continue the run that has no end")]
            commands = schema.AvailableCommandsUpdate(
                session_update="available_commands_update", available_commands=known
            )
            await self._client.session_update(identity, commands)


@contextmanager
def _ended_with_connection() -> Iterator[None]:
    """Raise `RequestError` where the connection was closed before: the SDK logs any other error with a traceback."""
    try:
        yield
    except ConnectionError as error:
        raise RequestError(INTERNAL_ERROR, "the connection is closed") from error


def serve(agent: JsonAgent[Any], *, journal: Place | None = None, connect: Connect | None = None) -> None:
    """Speak ACP on standard input and output until the editor closes them; what tools print goes to standard error.

    Args:
        agent: The agent.
        journal: The journal that keeps the sessions; default: the agent's, else they end with the process.
        connect: Connects the agent with the editor's MCP servers: `agentkit.mcp.MCPServer`.  Default: not connected.

    Raises:
        RunError: Standard input or output is no pipe, socket or terminal.
    """
    for number, name in enumerate(("input", "output")):
        mode = os.fstat(number).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(number)):
            raise RunError(f"acp: standard {name} is not a pipe. An editor starts this command and talks with it.")
    place: Any = agent.journal if journal is None else journal
    asyncio.run(_serve(EditorAgent(agent, place, connect=connect)))


class MessageReader(asyncio.StreamReader):
    """The lines of an editor.

    The SDK logs a line that is no JSON, and skips it.  Another value than an object would end the process, and so would
    a response whose id is a list or an object, or whose error is a text.  Such a line is passed on as no JSON.
    """

    _is_rest = False

    async def readexactly(self, n: int) -> bytes:
        """Return the begin of a line that is longer than the buffer."""
        self._is_rest = True
        return await super().readexactly(n)

    async def readuntil(self, separator: Any = b"\n") -> bytes:
        """Return a line, or the rest of one."""
        line = await super().readuntil(separator)
        is_message = self._is_rest or not line.strip() or line.lstrip().startswith(b"{")
        self._is_rest = False
        return line if is_message and not _is_odd_response(line) else b"!" + line


def _is_odd_response(line: bytes) -> bool:
    """Return whether a line is a response with an id that no request has, or with an error that is no object."""
    if not _ODD_PARTS.search(line):
        return False
    with suppress(ValueError, RecursionError):
        message = json.loads(line)
        if isinstance(message, dict) and message.get("method") is None:
            return isinstance(message.get("id"), list | dict) or not isinstance(message.get("error"), dict | None)
    return False


_ODD_PARTS = re.compile(rb'"id"\s*:\s*[\[{]|"error"\s*:\s*[^{\s]')


class MessageWriter(asyncio.StreamWriter):
    """The lines to an editor.  One that no longer reads them has closed the connection, so its own lines end too.

    Args:
        transport: The pipe to the editor.
        protocol: The protocol of that pipe.
        source: The pipe from the editor.
    """

    def __init__(self, transport: Any, protocol: Any, source: asyncio.ReadTransport) -> None:
        super().__init__(transport, protocol, None, asyncio.get_running_loop())
        self._source = source

    async def drain(self) -> None:
        """Wait until more can be written."""
        try:
            await super().drain()
        except ConnectionError:
            self._source.close()


async def _serve(agent: EditorAgent) -> None:
    sys.stdout.flush()
    own = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = MessageReader(limit=acp.core.DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    source, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, own)
    writer = MessageWriter(transport, protocol, source)
    try:
        await acp.run_agent(cast("Any", agent), writer, reader)
    finally:
        await agent.close()
