"""Servers that want a login (OAuth 2.1): a person logs in once in the browser, and later runs use the stored tokens."""

import asyncio
import hashlib
import json
import threading
import time
import webbrowser
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import getproxies

import click
import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from .. import RunError, ToolError
from ..extend import (
    hold_secret,
    is_public,
    is_public_url,
    mask,
    parse_url,
    resolve_target,
    run_coroutine,
    write_atomically,
)

LOGIN_SECONDS = 300.0
"""The longest time that a person may take."""
LOOKUP_SECONDS = 10.0
"""The longest time for the look-up of a name."""
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nYou are logged in. Close this page."


class LoginNeeded(RunError):
    """A server wants a login that is not stored, or is no longer valid."""

    def __init__(self, url: str) -> None:
        super().__init__(f"the server {url} wants a login. Run: agentkit mcp login {url}")


class StoredLogin:
    """The login at one server, in a file that only its owner can read; the SDK's `TokenStorage`.

    Args:
        url: The address of the server.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        name = hashlib.sha256(url.encode()).hexdigest()[:24]
        self._file = Path(click.get_app_dir("agentkit"), "mcp_logins", f"{name}.json")
        self._context: Any = None
        self._data: dict[str, Any] = {}
        self._hidden: list[Any] = []

    @property
    def exists(self) -> bool:
        """Whether there is a file; its tokens may no longer be valid."""
        return self._file.exists()

    def make_auth(
        self, port: int = 0, show: Callable[[str], None] | None = None, wait: "asyncio.Future[str] | None" = None
    ) -> OAuthClientProvider:
        """Return what adds the stored tokens to requests, and renews them.

        Args:
            port: Where this program waits for the browser, in a login.
            show: Shows a person the address of the login; without it, `LoginNeeded` is raised where one is needed.
            wait: Gets the path that the browser is sent back to.
        """
        self._data = {} if show else self._read()

        async def redirect(address: str) -> None:
            if show is None:
                raise LoginNeeded(self.url)
            server = await asyncio.to_thread(LoginServer.look_up, self.url)
            await asyncio.to_thread(server.check, address)
            show(address)

        async def receive() -> AuthorizationCodeResult:
            assert wait is not None
            given = {name: values[0] for name, values in parse_qs(urlsplit(await wait).query).items()}
            if "code" not in given:
                reason = given.get("error_description") or given.get("error") or "there is no code in its answer"
                raise RunError(f"the login at {self.url} failed: {reason:.300}")
            return AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))

        metadata = OAuthClientMetadata(
            client_name="agentkit",
            redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method="none",
        )
        auth = _CheckedLogin(self.url, metadata, self, redirect, receive)
        # what the SDK does not store itself, and needs to renew tokens in another process
        data = self._data
        context = self._context = auth.context
        if "oauth_metadata" in data:
            context.oauth_metadata = OAuthMetadata.model_validate(data["oauth_metadata"])
        if "resource" in data:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(data["resource"])
        context.auth_server_url = data.get("auth_server_url")
        context.token_expiry_time = data.get("expires")
        return auth

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens."""
        return self._hide(OAuthToken.model_validate(self._data["tokens"])) if "tokens" in self._data else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store new tokens, with what is needed to renew them."""
        context = self._context
        parts = {"oauth_metadata": context.oauth_metadata, "resource": context.protected_resource_metadata}
        known = {name: part.model_dump(mode="json", exclude_none=True) for name, part in parts.items() if part}
        expires = {} if tokens.expires_in is None else {"expires": time.time() + tokens.expires_in}
        if context.auth_server_url:
            known["auth_server_url"] = context.auth_server_url
        self._write(tokens=self._hide(tokens).model_dump(mode="json", exclude_none=True), **known, **expires)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return what the server knows this program as."""
        return OAuthClientInformationFull.model_validate(self._data["client"]) if "client" in self._data else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store what the server knows this program as."""
        self._write(client=client_info.model_dump(mode="json", exclude_none=True))

    def _hide(self, tokens: OAuthToken) -> OAuthToken:
        """Return the tokens, which are masked wherever secrets are as long as they are those of the login."""
        self._hidden = [hold_secret(token) for token in (tokens.access_token, tokens.refresh_token) if token]
        return tokens

    def _read(self) -> dict[str, Any]:
        try:
            data = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            data = None
        if not isinstance(data, dict) or "tokens" not in data:
            raise LoginNeeded(self.url)
        return data

    def _write(self, **changed: Any) -> None:
        self._data |= {"url": self.url, **changed}
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(self._file, json.dumps(self._data, indent=2).encode())


class _CheckedLogin(OAuthClientProvider):
    """The SDK's login, which asks no address inside the network of this program that a server outside names.

    A token that the server refuses is renewed once, as if it had expired: clocks differ, and servers forget.
    """

    _server: "LoginServer | None" = None

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:  # drives the flow of the SDK, as that does with its own
        if self._server is None:
            self._server = await asyncio.to_thread(LoginServer.look_up, self.context.server_url)
        context = self.context
        flow = super().async_auth_flow(request)
        renewed = False
        try:
            outgoing = await flow.__anext__()
            while True:
                response = yield await asyncio.to_thread(self._server.pin, outgoing)
                response.request = outgoing
                can_renew = not renewed and context.is_token_valid() and context.can_refresh_token()
                if response.status_code == 401 and outgoing is request and can_renew:
                    renewed = True
                    context.token_expiry_time = 1.0
                    await flow.aclose()
                    flow = super().async_auth_flow(request)
                    outgoing = await flow.__anext__()
                else:
                    outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


@dataclass(frozen=True)
class LoginServer:
    """A server with a login, as it was looked up.

    One on the public internet may name public addresses alone, and over https if it has https itself.  One inside may
    name any.  Each name is looked up once, and the request goes to the address that was checked: a second look-up could
    differ ("DNS rebinding").  A proxy looks names up itself, so there the text of an address decides.

    Attributes:
        url: Its address.
        inside: Its numeric address if it is inside the network of this program, else "".
    """

    url: str
    inside: str = ""

    @classmethod
    def look_up(cls, url: str) -> "LoginServer":
        """Return a server; one that is not found counts as outside."""
        try:
            target = parse_url(url)
            if getproxies():
                return cls(url, "" if is_public_url(url) else target.host)
            found = resolve_target(target, LOOKUP_SECONDS, [f"{target.host}:{target.port}"])
        except (ToolError, TimeoutError):
            return cls(url)
        numbers = [str(each.address[0]) for each in found]
        return cls(url, "" if any(map(is_public, numbers)) else numbers[0])

    def pin(self, request: httpx2.Request) -> httpx2.Request:
        """Return a request of the login with the address that was checked in the place of the name."""
        address = self.check(str(request.url))
        if not address or getproxies():
            return request
        extensions = {**request.extensions, "sni_hostname": request.url.host}
        url = request.url.copy_with(host=address)
        return httpx2.Request(
            request.method, url, headers=request.headers, stream=request.stream, extensions=extensions
        )

    def check(self, url: str) -> str:
        """Return the numeric address for a URL of the login, "" where the name will do.

        Raises:
            RunError: The server names an address that it must not lead this program to.
        """
        try:
            own = parse_url(self.url)
            named = parse_url(url)
            if (own.scheme, own.authority) == (named.scheme, named.authority):
                return self.inside
            if self.inside:
                return ""
            if own.scheme == "https" and named.scheme != "https":
                raise ToolError("It is not https.")
            if not getproxies():
                return str(resolve_target(named, LOOKUP_SECONDS)[0].address[0])
            if not is_public_url(url):
                raise ToolError("It is not on the public internet.")
            return ""
        except (ToolError, TimeoutError) as error:
            raise RunError(
                f"the server {self.url} names {url!r:.200} for its login, which was not asked: "
                f"{error or 'no such host'}"
            ) from error


def login(url: str, *, show: Callable[[str], None] | None = None) -> None:
    """Let a person log in at a server, and store the tokens for `MCPServer(url=..., auth="oauth")`.

    Args:
        url: The address of the server.
        show: Shows the address of the login; default: in the browser, and on standard error.

    Raises:
        RunError: The login failed, or took longer than 300 seconds; or the server wants none.
    """
    run_coroutine(_log_in(StoredLogin(url), show or show_in_browser))


async def _log_in(stored: StoredLogin, show: Callable[[str], None]) -> None:
    """Ask the server for anything, which makes it ask for a login, and wait until the browser comes back."""
    came_back: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode("latin-1").split()
        if len(line) > 1 and line[1].startswith("/callback?") and not came_back.done():
            came_back.set_result(line[1])
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        auth = stored.make_auth(server.sockets[0].getsockname()[1], show, came_back)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        try:
            async with asyncio.timeout(LOGIN_SECONDS), httpx2.AsyncClient(auth=auth, timeout=LOGIN_SECONDS) as client:
                await client.post(stored.url, json=ping, headers={"Accept": "application/json, text/event-stream"})
        except TimeoutError as error:
            raise RunError(f"the login at {stored.url} was not finished within {LOGIN_SECONDS:.0f} seconds") from error
        except (httpx2.HTTPError, OAuthFlowError) as error:
            raise RunError(f"the login at {stored.url} failed: {mask(str(error))}") from error
    if auth.context.current_tokens is None:
        raise RunError(f"the server {stored.url} wants no login. Leave auth= out.")


def show_in_browser(address: str) -> None:
    """Open an address in the browser, and print it for one on another machine."""
    click.echo(f"Log in at this address:\n{address}", err=True)
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()  # it may wait for the browser's end
