"""A server as its tools use it: one connection after the other, calls with progress and log events, and errors.

Each connection is owned by one task on the background loop: opened, used, lost, opened again.
"""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import anyio
import mcp_types as types
from loguru import logger
from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, URL_ELICITATION_REQUIRED
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from .. import RunContext, RunError, ToolError
from ..events import ServerLogged
from ..extend import mask, render_text
from .config import Address, Command, Endpoint, Transport
from .questions import Ask, Offers, OpenCall, Sample, answer_for, sample_for

MAX_PAGES = 100
"""Pages of one list that are read."""
MAX_TOOLS = 1_000
REFRESH_SECONDS = 0.2
"""The shortest time between two lists of tools that a server's notifications cause."""
SETTLE_SECONDS = 5.0
"""The longest time that a call waits for the list of tools that changed meanwhile."""
CLOSE_SECONDS = 10.0
ABANDONED_SECONDS = 60.0
"""The time in which a server may still ask a question for a call that was abandoned."""
ROUND_WAITS = (0.05, 0.1, *[0.25] * 8)
"""Seconds between the rounds of a call in which the server only wants its own state back."""


class Connection:
    """A connection, opened and closed by a task of its own.  All methods run on the background loop.

    Args:
        endpoint: Where the server is.
        timeout: Seconds until it must be open.
        on_tools: Called with each list of the server's tools, and whether it lists resources.
        on_log: Called with each log message of the server.
        offers: What the server may ask for.

    Attributes:
        endpoint: Where the server is.
        calls: The calls that the server works on, the oldest first.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        timeout: float,
        on_tools: Callable[[Sequence[types.Tool], bool], None],
        on_log: Callable[[types.LoggingMessageNotificationParams], None],
        offers: Offers,
    ) -> None:
        self.endpoint = endpoint
        self._offers = offers
        self._timeout = timeout
        self._on_tools = on_tools
        self._on_log = on_log
        self.calls: list[OpenCall] = []
        self.transport = Transport()
        self.is_lost = False
        self._client: Client | None = None
        self._has_resources = self._changed = False
        self._refresh: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve())

    @property
    def is_usable(self) -> bool:
        """Whether a call can be sent: the connection is open or opening, and its transport has not ended."""
        return not (self.is_lost or self.transport.has_ended or self._closing.is_set() or self._task.done())

    @property
    def is_of_this_process(self) -> bool:
        """Whether it was opened on the running loop, and not by the process from which this one was forked."""
        return self._opened.get_loop() is asyncio.get_running_loop()

    @property
    def is_modern(self) -> bool:
        """Whether the server, which must be open, speaks the stateless era of the protocol."""
        return self.client.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def is_over(self) -> bool:
        """Whether the connection is closed."""
        return self._task.done()

    @property
    def client(self) -> Client:
        """The SDK's client."""
        assert self._client is not None  # it is used after `wait`
        return self._client

    async def wait(self) -> None:
        """Wait until the connection is open; raise the error that prevents it."""
        await asyncio.shield(self._opened)

    def end(self) -> None:
        """Ask the task to close the connection."""
        self._closing.set()
        if not self._opened.done():
            self._task.cancel()

    async def close(self) -> None:
        """Close the connection and wait for that, but no longer than `CLOSE_SECONDS`."""
        self.end()
        if (await asyncio.wait([self._task], timeout=CLOSE_SECONDS))[1]:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)

    async def _serve(self) -> None:
        client = Client(
            self.endpoint.connect(self.transport),
            logging_callback=self._log,
            log_level="info",
            message_handler=self._receive,
            elicitation_callback=lambda _, params: answer_for(self.calls, params),
            sampling_callback=(lambda _, params: sample_for(self.calls, params)) if self._offers.sampling else None,
            list_roots_callback=self._list_roots if self._offers.roots is not None else None,
            cache=None,
            mode="legacy" if isinstance(self.endpoint, Command) and self.endpoint.is_legacy else "auto",
        )
        try:
            async with asyncio.timeout(self._timeout) as limit:
                async with client:
                    self._client = client
                    self._has_resources = await self._find_resources()
                    await self._list_tools()
                    limit.reschedule(None)
                    if not self._opened.done():
                        self._opened.set_result(None)
                    await self._follow()
        except BaseException as error:
            if not self._opened.done():
                self._opened.set_exception(_first_cause(error))
                self._opened.exception()  # the waiter may be gone
            if not isinstance(error, Exception | asyncio.CancelledError | BaseExceptionGroup):
                raise
        finally:
            self.is_lost = True
            if self._refresh is not None:
                self._refresh.cancel()

    async def _follow(self) -> None:
        """Wait for the end, following the changes of the tools where the server must be asked to report them."""
        listening = None
        capability = self.client.server_capabilities.tools
        if self.is_modern and capability and capability.list_changed:
            listening = asyncio.create_task(self._listen())
        try:
            await self._closing.wait()
        finally:
            if listening is not None:
                listening.cancel()
                await asyncio.wait([listening])

    async def _listen(self) -> None:
        with suppress(Exception):  # the stream ended: from here on the tools are those of the last list
            async with self.client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._note_change()

    async def _find_resources(self) -> bool:
        """Return whether the server lists a resource or a template; many servers only state that they could."""
        if not self.client.server_capabilities.resources:
            return False
        with suppress(MCPError):
            if (await self.client.list_resources()).resources:
                return True
        with suppress(MCPError):
            return bool((await self.client.list_resource_templates()).resource_templates)
        return False

    async def _list_tools(self) -> None:
        found = await list_all(self.client.list_tools, "tools", MAX_TOOLS)
        self._on_tools(found[:MAX_TOOLS], self._has_resources)

    async def _receive(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._note_change()
        else:
            await anyio.lowlevel.checkpoint()

    def _note_change(self) -> None:
        self._changed = True
        if self._refresh is None or self._refresh.done():
            self._refresh = asyncio.create_task(self._list_again())

    async def _list_again(self) -> None:
        while self._changed and self.is_usable:
            self._changed = False
            with suppress(Exception):
                await self._list_tools()
            if self._changed:
                await asyncio.sleep(REFRESH_SECONDS)

    async def settle(self) -> None:
        """Wait for the list of tools that a notification has caused."""
        if self._refresh is not None and not self._refresh.done():
            await asyncio.wait([self._refresh], timeout=SETTLE_SECONDS)

    async def _list_roots(self, context: Any) -> types.ListRootsResult:  # noqa: ARG002
        return self._offers.roots or types.ListRootsResult(roots=[])

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        self._on_log(params)

    async def call(self, name: str, arguments: dict[str, Any], **options: Any) -> Any:
        """Call a tool and return its result, or the `InputRequiredResult`; see the SDK's `ClientSession.call_tool`."""
        try:
            for pause in ROUND_WAITS:
                result = await self._send(name, arguments, **options)
                if not isinstance(result, types.InputRequiredResult) or result.input_requests:
                    return result
                await asyncio.sleep(pause)  # the server only wants its state back
                options = {**options, "input_responses": None, "request_state": result.request_state}
            raise RuntimeError("it asked for its state again and again, without an answer")
        except MCPError as error:
            self.is_lost = self.is_lost or error.code == CONNECTION_CLOSED
            raise

    async def _send(self, name: str, arguments: dict[str, Any], **options: Any) -> Any:
        send = self.client.session.call_tool
        try:
            return await send(name, arguments, allow_input_required=True, **options)
        except MCPError as error:
            if error.code != HEADER_MISMATCH:
                raise
            await self._list_tools()  # the headers follow from the schema, which has changed
            return await send(name, arguments, allow_input_required=True, **options)


async def list_all(fetch: Callable[..., Any], field: str, enough: float = math.inf) -> list[Any]:
    """Return the entries in `field` of a list's pages; none if the server has no such method."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        try:
            page = await fetch(cursor=cursor)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND:
                break
            raise
        found += getattr(page, field)
        cursor = page.next_cursor
        if not cursor or len(found) >= enough:
            break
    return found


def _first_cause(error: BaseException) -> BaseException:
    """Return the first exception inside groups of exceptions."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


T = TypeVar("T")
MAX_REASON_CHARS = 1_000
"""Characters of an error that a server causes."""
ACCEPTED = 202
"""The HTTP status of the older transport for a message: its answer comes elsewhere."""
BAD_REQUEST = 400
UNAUTHORIZED = 401
NO_STREAMABLE_HTTP = (BAD_REQUEST, 404, 405)
"""The HTTP statuses after which a client tries HTTP with SSE.  Source: the protocol's page about transports."""
PATHS = "Most servers answer at a path, /mcp or the older /sse."
LOGIN = 'Run: agentkit mcp login URL, and give auth="oauth"; or give the token in headers='
MAX_BURST = 100
"""Events of one call, or of a server's log, that are passed on at once; after that, `MAX_EVENTS_PER_SECOND`."""
MAX_EVENTS_PER_SECOND = 20.0
UNKNOWN_EFFECT = "it is not known whether the call had an effect. Find that out before it is called again."
SESSION_LOST = "Its session has ended. The next request begins a new one."


class StateRefused(Exception):
    """A server refused its own state of a call: it was started again meanwhile, or the state is too old."""


class ServerLink:
    """The connections of one server.  All methods run on the background loop.

    Args:
        name: The server's name, for errors and events.
        endpoint: Where the server is.
        timeout: Seconds until a connection must be open.
        on_tools: Called with each list of the server's tools, and whether it lists resources.
        offers: What the server may ask for.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        timeout: float,
        on_tools: Callable[[Sequence[types.Tool], bool], None],
        offers: Offers,
    ) -> None:
        self._name = name
        self._offers = offers
        self._endpoint = endpoint
        self._timeout = timeout
        self._on_tools = on_tools
        self._users = 0
        self._connections: list[Connection] = []
        self._channels: dict[int, tuple[RunContext[Any], int]] = {}
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
            ended = [entry for entry in self._connections if entry.is_of_this_process]
            self._connections = []
            await asyncio.gather(*(connection.close() for connection in ended))

    async def connect(self) -> Connection:
        """Return the open connection, or a new one if it was lost.

        Raises:
            RunError: The server cannot be reached.
        """
        self._connections = [entry for entry in self._connections if entry.is_of_this_process]
        connection = self._connections[-1] if self._connections else None
        if connection is None or not connection.is_usable:
            if connection is not None:
                connection.end()
            connection = Connection(self._endpoint, self._timeout, self._on_tools, self._log, self._offers)
            self._connections = [*(entry for entry in self._connections if not entry.is_over), connection]
        try:
            await connection.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return await self._connect_as_older(error, connection)
        return connection

    async def _connect_as_older(self, error: BaseException, failed: Connection) -> Connection:
        """Return a connection to a server that may be older: by HTTP with SSE, or by the handshake alone."""
        failure = RunError(self._describe_failure(error, failed.transport))
        endpoint = failed.endpoint
        if isinstance(endpoint, Address):
            may_be_older = failed.transport.status in NO_STREAMABLE_HTTP
        else:
            may_be_older = isinstance(error, MCPError) and error.code == CONNECTION_CLOSED
        if endpoint.is_legacy or not may_be_older:
            raise failure from error
        self._endpoint = replace(endpoint, is_legacy=True)
        try:
            return await self.connect()
        except RunError:
            self._endpoint = endpoint
            raise failure from error

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        run: RunContext[Any] | None = None,
        ask: Ask | None = None,
        sample: Sample | None = None,
        **options: Any,
    ) -> tuple[Any, str]:
        """Call a tool; progress and log messages become events of `run`.

        Meanwhile `ask` answers questions of the server, and `sample` asks the model for it.

        Returns:
            A `CallToolResult` or an `InputRequiredResult`, and why a question of the server has no answer, "" if none.

        Raises:
            ToolError: The call failed; the text is for the model.
            StateRefused: The server does not take its own state of the call again, so nothing was done.
        """
        try:
            connection = await self.connect()
        except RunError as error:
            raise ToolError(f"{error} The call was not sent, so it had no effect.") from error
        if not connection.is_modern:
            options = self._begin_anew(options)
        self._add_channel(run, 1)
        opened = OpenCall(run.channel if run is not None else object(), ask, sample)
        connection.calls.append(opened)
        is_abandoned = False
        try:
            result = await connection.call(tool, arguments, progress_callback=_report_progress(run), **options)
            return result, opened.unanswered
        except asyncio.CancelledError:
            opened.ask = None
            opened.sample = None
            is_abandoned = True
            raise
        except MCPError as error:
            if error.code == INVALID_PARAMS and options.get("request_state") is not None:
                raise StateRefused from error
            if error.code == URL_ELICITATION_REQUIRED and (required := _read_required(error)):
                return required, ""
            raise ToolError(self._describe_error(error, connection)) from error
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
            if is_abandoned:
                asyncio.get_running_loop().call_later(ABANDONED_SECONDS, connection.calls.remove, opened)
            else:
                connection.calls.remove(opened)
            await connection.settle()

    def _begin_anew(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a call in the handshake era, in which it begins anew when a person has done something.

        Raises:
            ToolError: The person did not.
        """
        responses = (options.get("input_responses") or {}).values()
        if any(isinstance(entry, types.ElicitResult) and entry.action != "accept" for entry in responses):
            raise ToolError(f"refused: the person did not do what the server {self._name!r} asks for before this call")
        return {}

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
            raise ToolError(f"the server {self._name!r}: {_describe_refusal(error, connection)}") from error

    def _describe_error(self, error: MCPError, connection: Connection) -> str:
        if error.code == CONNECTION_CLOSED:
            return f"the server {self._name!r} closed the connection before it answered; {UNKNOWN_EFFECT}"
        return f"the server {self._name!r} refused the call: {_describe_refusal(error, connection)}"

    def _describe_failure(self, error: BaseException, transport: Transport) -> str:
        if isinstance(error, TimeoutError):
            hint = f". {PATHS}" if isinstance(self._endpoint, Address) else ""
            reason = f"no answer within {self._timeout:g} seconds{hint}"
        elif isinstance(error, FileNotFoundError):
            reason = f"there is no program {error.filename!r}"
        elif getattr(error, "code", None) == CONNECTION_CLOSED and not isinstance(self._endpoint, Address):
            hint = "" if transport.errors else ". Run it in a terminal to see why"
            reason = f"the program ended before it answered{hint}"
        elif transport.status == UNAUTHORIZED and not isinstance(error, RunError):
            reason = f"it wants a login or a token (HTTP {UNAUTHORIZED}). {LOGIN}"
        else:
            status = f" (HTTP {transport.status})" if transport.status >= BAD_REQUEST else ""
            reason = f"{type(error).__name__}: {_shorten(error)}{status}"
            if transport.status in (*NO_STREAMABLE_HTTP, ACCEPTED):
                reason = f"{reason.removesuffix('.')}. {PATHS}"
        shown = f" Its error output ends with: {transport.errors}" if transport.errors else ""
        return mask(
            f"the MCP server {self._name!r} ({self._endpoint}) cannot be opened: {reason.removesuffix('.')}.{shown}"
        )

    def _add_channel(self, run: RunContext[Any] | None, count: int) -> None:
        """Count the calls of a run, which gets the server's log messages while it has any."""
        if run is None:
            return
        key = id(run.channel)
        calls = self._channels.get(key, (run, 0))[1] + count
        if calls:
            self._channels[key] = run, calls
        else:
            del self._channels[key]

    def _log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message on to the run whose calls are open; one of several runs goes to the program's log."""
        if self._log_gate.lets_pass():
            event = ServerLogged(self._name, message.level, _shorten(render_text(message.data)), message.logger or "")
            runs = [run for run, _ in self._channels.values()]
            if len(runs) == 1:
                runs[0].channel.put(event)
            elif runs:
                logger.info("MCP server {}", mask(event.notice))


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


def _read_required(error: MCPError) -> types.InputRequiredResult | None:
    """Return what a server of the handshake era asks for before it takes a call: addresses that a person must open."""
    entries = error.error.data.get("elicitations") if isinstance(error.error.data, dict) else None
    try:
        asked = [types.ElicitRequestURLParams.model_validate(entry) for entry in entries or ()]
    except (ValidationError, TypeError):
        return None
    requests = {
        params.elicitation_id or str(number): types.ElicitRequest(params=params) for number, params in enumerate(asked)
    }
    return types.InputRequiredResult(input_requests=dict(requests)) if requests else None


def _describe_refusal(error: MCPError, connection: Connection) -> str:
    text = _shorten(error)
    if error.code == CONNECTION_CLOSED or not connection.transport.has_ended:
        return text
    return f"{text.removesuffix('.')}. {SESSION_LOST}"


def _shorten(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_REASON_CHARS else f"{text[:MAX_REASON_CHARS]}..."
