"""What a door that speaks HTTP checks of each request before its app sees it, without a library.

The order is: the host, the origin, who asks, then the type and the size of the body.
"""

import asyncio
import inspect
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qs

from .background import run_in_thread
from .errors import DefinitionError
from .values import frozen

AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Any, Receive, Send], Awaitable[None]]
OfRequest: TypeAlias = Callable[[Any], Any]
"""A plain or async function of a request, as the web framework of a door has it."""
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine in a header `Host`."""
MAX_BODY_BYTES = 25_000_000
BODY_SECONDS = 20.0
USER_KEY = "agentkit.user"
"""The key of the user's id in the scope of a request."""
TOKEN_HEADER = "x-agentkit-token"
WITH_BODY = ("POST", "PUT", "PATCH")
CORS_METHODS = "GET, POST, PUT, DELETE"
CORS_EXPOSED_HEADERS = "Mcp-Session-Id, WWW-Authenticate"
"""The headers of a response that a page of another origin may read.  Source: the protocols that the doors speak."""
PREFLIGHT_SECONDS = 600


class Refusal(NamedTuple):
    """Why a request does not pass: the status, the text, and headers."""

    status: int
    text: str
    headers: Mapping[str, str] = {}


def user_of(scope: Mapping[str, Any]) -> str:
    """Return the id of the user whose request it is; "" for an app without users."""
    return str(scope.get(USER_KEY, ""))


def is_function(value: Any) -> bool:
    """Return whether an option is a function of the request rather than a value."""
    return inspect.isroutine(value) or (callable(value) and hasattr(value, "func"))  # functools.partial


async def call_with_request(function: OfRequest, request: Any) -> Any:
    """Return what a function of a request returns; a plain one runs in a thread, so that no other request waits."""
    if inspect.iscoroutinefunction(function):
        return await function(request)
    found = await asyncio.to_thread(function, request)
    return await found if inspect.isawaitable(found) else found


@frozen
class Guard:
    """ASGI middleware that refuses what the clients of a door would not send.

    A foreign `Host` means that another name was made to lead here (DNS rebinding).  A foreign `Origin`, or a body that
    is not JSON, means that another page sends it.

    Args:
        app: The app behind it.
        hosts: The accepted values of `Host`; a name without a port is accepted with any.  Default: the names of this
            machine, for a request that came over the loopback to an app without `user`; else any.
        allow_origins: Other origins whose pages may send requests and read the responses (CORS):
            "https://shop.example"; "http://localhost:*" stands for all ports, "*" for all origins.
        token: What a request needs as `Authorization: Bearer ...`.
        is_token_in_address: Whether the token may also be in the address, as `?token=`, or in the header
            `X-Agentkit-Token`: a proxy may need `Authorization` for a sign-in of its own.
        user: A function of the request that returns the id of its user; for None the request is refused.  It is called
            before the body is read.
        make_request: Returns the request for `user` from the ASGI scope.
        open_prefix: The path of files without anything private, for which neither token nor user is needed.
        headers: Are added to each response, except those that it has.
        body_seconds: The time that a client may take for the next piece of a body.
        realm: Where a person finds the token, for the text of the refusal.
    """

    app: AsgiApp
    hosts: Sequence[str] | None = None
    allow_origins: Sequence[str] = ()
    token: str = ""
    is_token_in_address: bool = False
    user: OfRequest | None = None
    make_request: Callable[[Any], Any] = dict
    open_prefix: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body_seconds: float = BODY_SECONDS
    realm: str = "a token is needed: Authorization: Bearer ..."

    def __post_init__(self) -> None:
        for name in self.hosts or ():
            if "/" in name or not name:
                raise DefinitionError(
                    f'hosts: expected names such as "shop.example" or "shop.example:8080", got {name!r}'
                )
        for origin in self.allow_origins:
            if origin != "*" and "://" not in origin:
                raise DefinitionError(
                    f'allow_origins: expected "https://shop.example", with its scheme, got {origin!r}'
                )
        if self.user is not None and "*" in self.allow_origins:
            raise DefinitionError('allow_origins="*" lets any page act for a signed-in user. Name the origins.')

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with the reason why not."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                own = [*message.get("headers", ())]
                names = {name.lower() for name, _ in own}
                given = {**self.headers, **shared}
                added = [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()]
                message["headers"] = [*own, *(header for header in added if header[0] not in names)]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        shared = self._share(headers)
        refusal = self._check_sender(scope, headers)
        if refusal is None and shared and scope["method"] == "OPTIONS" and REQUESTED_METHOD in headers:
            await _answer_preflight(headers, send_guarded)
            return
        refusal = refusal or await self._identify(scope, headers)
        if refusal is None and scope["method"] in WITH_BODY:
            passed = await self._read_body(headers, receive)
            if passed is None:  # the client is gone
                return
            refusal = passed if isinstance(passed, Refusal) else None
            receive = receive if isinstance(passed, Refusal) else passed
        if refusal is None:
            await self.app(scope, receive, send_guarded)
            return
        body = json.dumps({"error": refusal.text}, ensure_ascii=False).encode()
        given = {"content-type": "application/json", **refusal.headers}
        sent = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
        await send_guarded({"type": "http.response.start", "status": refusal.status, "headers": sent})
        await send_guarded({"type": "http.response.body", "body": body})

    def _check_sender(self, scope: Any, headers: Mapping[str, str]) -> Refusal | None:
        host = headers.get("host", "").lower()
        if not self._accepts_host(scope, host):
            return Refusal(
                421, f"Host: {host!r:.80} is no name of this server. Allow it: hosts=[...], or --allow-host NAME."
            )
        origin = headers.get("origin")
        if origin is None or origin.partition("://")[2] == host or self._allows(origin):
            return None
        remedy = "Allow them: allow_origins=[...], or --allow-host NAME."
        return Refusal(403, f"Origin: pages of {origin!r:.80} may not use this server. {remedy}")

    def _allows(self, origin: str) -> bool:
        return any(entry == "*" or _matches(origin, entry) for entry in map(str.lower, self.allow_origins))

    def _share(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers with which a browser shows a response to a page of an allowed origin; none for others."""
        origin = headers.get("origin")
        if origin is None or not self._allows(origin):
            return {}
        shared = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        shared["Access-Control-Expose-Headers"] = CORS_EXPOSED_HEADERS
        return shared if self.user is None else {**shared, "Access-Control-Allow-Credentials": "true"}

    def _accepts_host(self, scope: Any, host: str) -> bool:
        hosts = self.hosts
        if hosts is None:
            server = (scope.get("server") or ("",))[0] or ""
            if self.user is not None or not (server == "::1" or server.startswith("127.")):
                return True
            hosts = LOOPBACK_HOSTS
        return any(host == name or _matches(host, f"{name}:*") for name in map(str.lower, hosts))

    async def _identify(self, scope: Any, headers: Mapping[str, str]) -> Refusal | None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if self.open_prefix and path.startswith(self.open_prefix):
            return None
        if self.token:
            sent = headers.get("authorization", "")
            scheme, _, credentials = sent.partition(" ")
            given = [credentials.strip() if scheme.lower() == "bearer" else sent]  # RFC 9110: schemes have no case
            if self.is_token_in_address:
                given.append(headers.get(TOKEN_HEADER, ""))
                given += parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
            if not any(secrets.compare_digest(one.encode(), self.token.encode()) for one in given):
                return Refusal(401, self.realm, {"www-authenticate": "Bearer"})
        if self.user is None:
            return None
        try:
            user = await call_with_request(self.user, self.make_request(scope))
        except Exception as error:  # an HTTPException of a web framework
            status = getattr(error, "status_code", None)
            if not isinstance(status, int):
                raise
            return Refusal(status, str(getattr(error, "detail", "")), getattr(error, "headers", None) or {})
        if user is None or user == "":
            return Refusal(401, "nobody is signed in")
        if not isinstance(user, str | int) or isinstance(user, bool):
            raise DefinitionError(f"user=: expected the user's id as a text or a number, got {type(user).__name__}")
        scope[USER_KEY] = str(user)
        return None

    async def _read_body(self, headers: Mapping[str, str], receive: Receive) -> Receive | Refusal | None:
        """Return what gives the whole body to the app; None if the client has disconnected."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return Refusal(415, f"Content-Type: expected application/json, got {kind!r:.80}.")
        too_large = Refusal(413, f"the body is too large: expected at most {MAX_BODY_BYTES:,} bytes.")
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > MAX_BODY_BYTES:
            return too_large
        body = bytearray()
        while True:
            try:
                message = await asyncio.wait_for(receive(), self.body_seconds)
            except TimeoutError:
                return Refusal(408, f"the body stopped for more than {self.body_seconds:g} s.", {"connection": "close"})
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > MAX_BODY_BYTES:
                return too_large
            if not message.get("more_body", False):
                break
        rest = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def receive_again() -> AsgiMessage:
            return rest.pop() if rest else await receive()

        return receive_again


REQUESTED_METHOD = "access-control-request-method"


async def _answer_preflight(headers: Mapping[str, str], send: Send) -> None:
    """Answer a browser that asks whether a page of an allowed origin may send a request; that has its own checks."""
    given = {
        "access-control-allow-methods": CORS_METHODS,
        "access-control-allow-headers": headers.get("access-control-request-headers", ""),
        "access-control-max-age": str(PREFLIGHT_SECONDS),
    }
    sent = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
    await send({"type": "http.response.start", "status": 204, "headers": sent})
    await send({"type": "http.response.body", "body": b""})


HEADER_SECONDS = 10.0
"""The time in which a client must have sent the header of a request."""


def limit_header_time(protocol: type[Any], seconds: float = HEADER_SECONDS) -> type[Any]:
    """Return a protocol of uvicorn that closes a connection whose header is not there in time.

    Uvicorn limits the time between two requests, but not that for the header of one, so connections that send nothing,
    or a piece, would stay open.  A request that is being answered has all the time.

    Args:
        protocol: `H11Protocol` or `HttpToolsProtocol`.
        seconds: The time, from the begin of the connection or from the first byte of a later request.
    """

    def connection_made(self: Any, transport: Any) -> None:
        protocol.connection_made(self, transport)
        watch(self)

    def data_received(self: Any, data: bytes) -> None:
        protocol.data_received(self, data)
        watch(self)

    def connection_lost(self: Any, error: Exception | None) -> None:
        stop(self)
        protocol.connection_lost(self, error)

    def watch(self: Any) -> None:
        is_upgraded = self.transport.get_protocol() is not self
        if is_upgraded or (self.cycle is not None and not self.cycle.response_complete):
            stop(self)
        elif self.header_timer is None:
            self.header_timer = asyncio.get_running_loop().call_later(seconds, self.transport.close)

    def stop(self: Any) -> None:
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None

    methods = (connection_made, data_received, connection_lost)
    members = {method.__name__: method for method in methods}
    return type("HeaderTimeProtocol", (protocol,), {**members, "header_timer": None})


def run_server(server: Any, announce: Callable[[], object], problem: str) -> None:
    """Run a server of uvicorn until it is stopped, and call `announce` when it listens.

    Before, another program may answer at the address.

    Args:
        server: A `uvicorn.Server`, which is changed.
        announce: It runs in a thread.
        problem: The text of the error if the server cannot listen.

    Raises:
        DefinitionError: The address is in use, or not one of this machine; uvicorn has logged which.
    """
    listen = server.startup

    async def startup(sockets: Any = None) -> None:
        try:
            await listen(sockets)
        except SystemExit as error:
            raise DefinitionError(problem) from error
        if server.started:
            await run_in_thread(announce)

    server.startup = startup
    with suppress(KeyboardInterrupt):
        server.run()


def _matches(text: str, pattern: str) -> bool:
    """Return whether a host or an origin is the pattern; ":*" at its end stands for any port, or none."""
    if not pattern.endswith(":*"):
        return text == pattern
    name = pattern[:-2]
    rest = text.removeprefix(name)
    return rest != text and (rest == "" or (rest[0] == ":" and rest[1:].isascii() and rest[1:].isdigit()))
