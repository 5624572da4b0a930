"""The server: tools for clients of the protocol, over standard input and output or streamable HTTP."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from ..agents.agent import JsonAgent
from ..core.context import RunContext
from ..core.errors import DefinitionError
from ..core.versions import find_versions
from ..schemas.raw import RawSchema
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry
from ..tools.roles import sends_outside
from .served_calls import Context, ServedCall

LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEFAULT_PORT = 8000
MIN_TOKEN_CHARS = 16
MAX_REQUEST_BYTES = 10_000_000
ASGIApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


def make_server(
    tools: Any, *, name: str = "agentkit", instructions: str = "", deps: Any = None, keys: Sequence[str] = ()
) -> "Server[Any]":
    """Return the SDK's server of tools, to run it over a transport of your own.

    Both eras of the protocol are spoken.  A dangerous tool asks the person at the client before each call; a client
    that cannot ask gets a refusal.

    Args:
        tools: A registry, functions, tools, or agents, which become tools with a query.
        name: The name of the server.
        instructions: What the client's model should know about the tools.
        deps: Fills the parameters that clients do not see, as `JsonAgent(deps=)` does.
        keys: Secrets of at least 32 characters that seal the state of a call which asks a person; all servers of one
            address need the same.  By default, a key of this process.

    Raises:
        DefinitionError: There are no tools, or `deps` lacks a value that one needs.
    """
    registry = make_registry(tools)
    registry.check_injected(RunContext(deps))
    listed = [to_protocol(tool) for tool in registry.values()]

    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        return await ServedCall(registry, deps, context, params).result()

    server: Server[Any] = Server(
        name, version=find_versions()["agentkit"], instructions=instructions or None,
        on_list_tools=list_tools, on_call_tool=call_tool,
    )  # fmt: skip
    security = RequestStateSecurity(keys=list(keys)) if keys else RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=name))
    return server


def make_registry(tools: Any) -> ToolRegistry:
    """Return the tools to serve; agents among them become tools with a query.

    Raises:
        DefinitionError: There is nothing to serve.
    """
    entries = [*tools.values()] if isinstance(tools, ToolRegistry) else [tools] if callable(tools) else [*tools]
    made, agents = [], 0
    for entry in entries:
        if isinstance(entry, JsonAgent):
            made.append(entry.as_tool(f"ask_{agents}" if agents else "ask", entry.description or "Answer a question."))
            agents += 1
        else:
            made.append(entry)
    if not made:
        raise DefinitionError("an MCP server needs tools: serve([my_function])")
    return ToolRegistry(made)


def to_protocol(tool: JsonTool[..., Any]) -> types.Tool:
    """Return a tool as the server lists it, with its effect as hints; a schema written by hand keeps references."""
    written = tool.schema("mcp", references="keep" if isinstance(tool.arguments, RawSchema) else "inline")
    return types.Tool.model_validate(written).model_copy(update={"annotations": _annotate(tool)})


def _annotate(tool: JsonTool[..., Any]) -> types.ToolAnnotations:
    effect = tool.effect
    if effect is None:
        return types.ToolAnnotations(open_world_hint=sends_outside(tool) or None)
    return types.ToolAnnotations(
        read_only_hint=effect == "read",
        destructive_hint=effect == "danger",
        idempotent_hint=effect in ("read", "idempotent"),
        open_world_hint=sends_outside(tool),
    )


def make_app(
    tools: Any, *, host: str = "127.0.0.1", hosts: Sequence[str] = (), token: str = "", **options: Any
) -> ASGIApp:
    """Return the server as an ASGI application, which answers at `/mcp`.

    Args:
        tools: As for `make_server`.
        host: The address that the application is bound to.
        hosts: More names that clients may reach it by; the header `Host` must be one of them, against DNS rebinding.
        token: What clients must send as `Authorization: Bearer ...`; needed unless `host` is the loopback.
        options: As for `make_server`.

    Raises:
        DefinitionError: There is no token for an address that others can reach, or it is too short.
    """
    if host not in LOOPBACK and not token:
        raise DefinitionError(f"serve(host={host!r}): others can reach this address. Give a token: serve(token=...)")
    if token and len(token) < MIN_TOKEN_CHARS:
        raise DefinitionError(f"serve(token=...): expected at least {MIN_TOKEN_CHARS} characters, got {len(token)}")
    names = [f"[{entry}]" if ":" in entry else entry for entry in dict.fromkeys([*LOOPBACK, host, *hosts])]
    security = TransportSecuritySettings(
        allowed_hosts=[pattern for entry in names for pattern in (entry, f"{entry}:*")],
        allowed_origins=[
            f"{scheme}://{entry}{port}" for scheme in ("http", "https") for entry in names for port in ("", ":*")
        ],
    )
    app = make_server(tools, **options).streamable_http_app(
        host=host, transport_security=security, max_request_body_size=MAX_REQUEST_BYTES
    )
    return _require_token(app, token) if token else app


def _require_token(app: ASGIApp, token: str) -> ASGIApp:
    expected = f"Bearer {token}".encode()

    async def check(scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(given, expected):
            headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"a token is needed: Authorization: Bearer ..."})
            return
        await app(scope, receive, send)

    return check


def serve(
    tools: Any, *, http: bool = False, host: str = "127.0.0.1", port: int = DEFAULT_PORT, hosts: Sequence[str] = (),
    token: str = "", **options: Any,
) -> None:  # fmt: skip
    """Serve tools until the client leaves, or the program is stopped.

    Args:
        tools: As for `make_server`.
        http: Serve streamable HTTP at `http://host:port/mcp` instead of standard input and output.
        host: The address; other than the loopback, it needs a token.
        port: The port.
        hosts: As for `make_app`.
        token: As for `make_app`.
        options: As for `make_server`.
    """
    if not http:
        asyncio.run(serve_stdio(tools, **options))
        return
    import uvicorn

    app = make_app(tools, host=host, hosts=hosts, token=token, **options)
    uvicorn.run(app, host=host, port=port, log_level="warning")


async def serve_stdio(tools: Any, **options: Any) -> None:
    """Serve tools over standard input and output; what tools print goes to standard error."""
    server = make_server(tools, **options)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
