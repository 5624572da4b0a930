"""What protects a server on the loopback from other pages in the same browser, and the page from what it shows."""

import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import parse_qs

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Any, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 25_000_000
OPEN_PREFIX = "/assets/"
"""The path of files without anything private, which need no token."""
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """Refuse what the page itself would not send.

    A foreign `Host` means that another name was made to point here (DNS rebinding).  A foreign `Origin` or a body that
    is not JSON means that another page sends it.  Everything private needs the token.

    Args:
        app: The app behind it.
        hosts: The values of `Host` that are accepted, "127.0.0.1:8080", say.
        token: The token of the URL.
    """

    def __init__(self, app: AsgiApp, hosts: Iterable[str], token: str) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._token = token

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._find_fault(scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        if refusal is None:
            await self._app(scope, receive, send_guarded)
            return
        status, text = refusal
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        await send_guarded({"type": "http.response.start", "status": status, "headers": headers})
        await send_guarded({"type": "http.response.body", "body": text.encode()})

    def _find_fault(self, scope: Any) -> tuple[int, str] | None:
        """Return the status and the text of a refusal; None for a request that may pass."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        origin = headers.get("origin")
        if host not in self._hosts:
            return 400, "Host: this server answers on the loopback only."
        if origin is not None and origin.partition("://")[2] not in self._hosts:
            return 403, "Origin: another page may not use this server."
        if scope["path"].startswith(OPEN_PREFIX):
            return None
        given = headers.get("authorization", "").removeprefix("Bearer ")
        given = given or parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            return 403, "Token: open the address that agentkit web printed."
        if scope["method"] == "POST":
            if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return 415, "Content-Type: expected application/json."
            if not headers.get("content-length", "").isdigit() or int(headers["content-length"]) > MAX_BODY_BYTES:
                return 413, f"Content-Length: expected at most {MAX_BODY_BYTES:,} bytes."
        return None
