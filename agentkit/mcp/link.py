"""A server as its tools use it: one connection after the other, calls with progress and log events, and errors."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import mcp_types as types
from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from ..core.context import Channel, RunContext
from ..core.errors import RunError, ToolError
from ..core.masking import mask
from ..tools.toolset import ServerLogged
from .connection import Connection
from .endpoints import Endpoint, Transport
from .questions import Ask

T = TypeVar("T")
MAX_REASON_CHARS = 1_000
"""Characters of an error that a server causes."""
BAD_REQUEST, UNAUTHORIZED = 400, 401
LOGIN = 'Run: agentkit mcp login URL, and give auth="oauth"; or give the token in headers='
MAX_BURST = 100
"""Events of one call, or of a server's log, that are passed on at once; after that, `MAX_EVENTS_PER_SECOND`."""
MAX_EVENTS_PER_SECOND = 20.0
UNKNOWN_EFFECT = "it is not known whether the call had an effect. Find that out before it is called again."


class ServerLink:
    """The connections of one server.  All methods run on the background loop.

    Args:
        name: The server's name, for errors and events.
        endpoint: Where the server is.
        timeout: Seconds until a connection must be open.
        on_tools: Called with each list of the server's tools, and whether it lists resources.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        timeout: float,
        on_tools: Callable[[Sequence[types.Tool], bool], None],
    ) -> None:
        self._name, self._endpoint, self._timeout, self._on_tools = name, endpoint, timeout, on_tools
        self._users = 0
        self._connections: list[Connection] = []
        self._channels: dict[int, tuple[Channel, int]] = {}
        self._asks: list[Ask] = []
        self._log_gate = EventGate()

    @property
    def is_open(self) -> bool:
        """Whether the server was opened and stays open."""
        return self._users > 0

    async def open(self) -> None:
        """Open a connection for one more user.

        Raises:
            RunError: The server cannot be reached.
        """
        self._users += 1
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection after its last user."""
        self._users -= 1
        if not self._users:
            ended, self._connections = self._connections, []
            await asyncio.gather(*(connection.close() for connection in ended))

    async def connect(self) -> Connection:
        """Return the open connection, or a new one if it was lost.

        Raises:
            RunError: The server cannot be reached.
        """
        connection = self._connections[-1] if self._connections else None
        if connection is None or not connection.is_usable:
            if connection is not None:
                connection.end()
            connection = Connection(self._endpoint, self._timeout, self._on_tools, self._log, self._answer)
            self._connections = [*(entry for entry in self._connections if not entry.is_over), connection]
        try:
            await connection.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            raise RunError(self._describe_failure(error, connection.transport)) from error
        return connection

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        run: RunContext[Any] | None = None,
        ask: Ask | None = None,
        **options: Any,
    ) -> Any:
        """Call a tool; progress and log messages become events of `run`, and `ask` answers questions meanwhile.

        Returns:
            A `CallToolResult` or an `InputRequiredResult`.

        Raises:
            ToolError: The call failed; the text is for the model.
        """
        try:
            connection = await self.connect()
        except RunError as error:
            raise ToolError(f"{error} The call was not sent, so it had no effect.") from error
        self._add_channel(run, 1)
        self._asks += [ask] if ask else []
        try:
            return await connection.call(tool, arguments, progress_callback=_report_progress(run), **options)
        except MCPError as error:
            raise ToolError(self._describe_error(error)) from error
        except ValidationError as error:
            raise ToolError(
                f"the server {self._name!r} sent an invalid result ({error.error_count()} problems); {UNKNOWN_EFFECT}"
            ) from error
        except RuntimeError as error:  # of the SDK: the structured content does not fit the output schema
            problem = str(error).partition("\n")[0]
            raise ToolError(f"the server {self._name!r}: {_shorten(problem)}; {UNKNOWN_EFFECT}") from error
        except OSError as error:
            raise ToolError(f"the server {self._name!r}: {_shorten(error)}; {UNKNOWN_EFFECT}") from error
        finally:
            self._add_channel(run, -1)
            if ask:
                self._asks.remove(ask)
            await connection.settle()

    async def ask(self, request: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Send another request than a call.

        Raises:
            ToolError: The server refuses it, or the connection is lost.
        """
        connection = await self.connect()
        try:
            return await request(connection.client)
        except MCPError as error:
            connection.is_lost = connection.is_lost or error.code == CONNECTION_CLOSED
            raise ToolError(f"the server {self._name!r}: {_shorten(error)}") from error

    def _describe_error(self, error: MCPError) -> str:
        if error.code == CONNECTION_CLOSED:
            return f"the server {self._name!r} closed the connection before it answered; {UNKNOWN_EFFECT}"
        return f"the server {self._name!r} refused the call: {_shorten(error)}"

    def _describe_failure(self, error: BaseException, transport: Transport) -> str:
        if isinstance(error, TimeoutError):
            reason = f"no answer within {self._timeout:g} seconds"
        elif isinstance(error, FileNotFoundError):
            reason = f"there is no program {error.filename!r}"
        elif transport.status == UNAUTHORIZED and not isinstance(error, RunError):
            reason = f"it wants a login or a token (HTTP {UNAUTHORIZED}). {LOGIN}"
        else:
            status = f" (HTTP {transport.status})" if transport.status >= BAD_REQUEST else ""
            reason = f"{type(error).__name__}: {_shorten(error)}{status}"
        shown = f" Its error output ends with: {transport.errors}" if transport.errors else ""
        return mask(
            f"the MCP server {self._name!r} ({self._endpoint}) cannot be opened: {reason.removesuffix('.')}.{shown}"
        )

    def _add_channel(self, run: RunContext[Any] | None, count: int) -> None:
        """Count the calls of a run, which gets the server's log messages while it has any."""
        if run is None:
            return
        key = id(run.channel)
        calls = self._channels.get(key, (run.channel, 0))[1] + count
        if calls:
            self._channels[key] = run.channel, calls
        else:
            del self._channels[key]

    async def _answer(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Answer a question that the server asks in the middle of a call, by what answers for the latest call."""
        return await self._asks[-1](params) if self._asks else types.ElicitResult(action="cancel")

    def _log(self, message: types.LoggingMessageNotificationParams) -> None:
        if self._log_gate.lets_pass():
            event = ServerLogged(self._name, message.level, _shorten(message.data), message.logger or "")
            for channel, _ in [*self._channels.values()]:
                channel.put(event)


class EventGate:
    """Limits the events that a server causes: a burst, then a number per second."""

    def __init__(self) -> None:
        self._left = float(MAX_BURST)
        self._since = time.monotonic()

    def lets_pass(self) -> bool:
        """Return whether one more event is passed on now."""
        now = time.monotonic()
        self._left = min(MAX_BURST, self._left + (now - self._since) * MAX_EVENTS_PER_SECOND)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _report_progress(run: RunContext[Any] | None) -> Any:
    if run is None:
        return None
    gate = EventGate()

    async def report(progress: float, total: float | None, message: str | None) -> None:
        if gate.lets_pass():
            given = {"progress": progress, "total": total, "message": message and message[:MAX_REASON_CHARS]}
            run.emit({key: value for key, value in given.items() if value is not None})

    return report


def _shorten(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_REASON_CHARS else f"{text[:MAX_REASON_CHARS]}..."
