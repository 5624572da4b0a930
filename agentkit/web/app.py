"""The web app of an agent: the page of `agentkit web`, and an endpoint for any client of AG-UI.

A guard protects the server on the loopback from other pages in the same browser, and the page from what it shows.  A
run is a stream of server-sent events, each with its id, so that a client can continue after a break.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import aclosing
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from .. import AgentkitError, JsonAgent
from ..extend import Place, mask
from .api import JSONResponse, Request, Response, Route, Starlette, StreamingResponse, uvicorn
from .run_input import BusyError, InputError, parse_input
from .threads import Thread, Threads, list_stored_runs, read_request, read_run

AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Any, Receive, Send], Awaitable[None]]
PAGE = files(__package__) / "page"
ASSETS = {
    "style.css": "text/css",
    "app.js": "text/javascript",
    "protocol.js": "text/javascript",
    "markdown.js": "text/javascript",
    "run_view.js": "text/javascript",
    "inputs.js": "text/javascript",
    "compare.js": "text/javascript",
    "dom.js": "text/javascript",
}
"""The files of the page and their types; no other file is served."""


def web_app(agent: JsonAgent[Any], *, token: str, hosts: list[str], journal: Place | None = None) -> AsgiApp:
    """Return the ASGI app of the page: a chat with `agent`, its runs, and AG-UI under `/agui`.

    Args:
        agent: The agent.
        token: The token without which nothing private is served; it is part of the page's address.
        hosts: The values of the header `Host` that are accepted: "127.0.0.1:8080".
        journal: The journal that keeps the conversations; default: the agent's, else they live as long as the process.
    """
    place: Any = agent.journal if journal is None else journal
    handlers: Any = {AgentkitError: _report_error}
    return Guard(Starlette(routes=Page(agent, place).routes(), exception_handlers=handlers), hosts, token)


class Page:
    """The endpoints."""

    def __init__(self, agent: JsonAgent[Any], journal: Place | None) -> None:
        self._agent = agent
        self._journal = journal
        self._threads = Threads(agent, journal, draws=True)

    def routes(self) -> list[Route]:
        """Return the table of the endpoints."""
        return [
            Route("/", self.index),
            Route("/assets/{name}", self.asset),
            Route("/info", self.info),
            Route("/agui", self.run, methods=["POST"]),
            Route("/threads", self.threads),
            Route("/threads/{thread}", self.thread),
            Route("/threads/{thread}/events", self.events),
            Route("/threads/{thread}/stop", self.stop, methods=["POST"]),
            Route("/threads/{thread}/requests/{run}/{number:int}", self.request),
            Route("/runs", self.runs),
            Route("/runs/{run}", self.stored_run),
            Route("/runs/{run}/requests/{number:int}", self.stored_request),
        ]

    async def index(self, _: Request) -> Response:
        page = (PAGE / "index.html").read_bytes()
        return Response(page, media_type="text/html", headers={"Cache-Control": "no-store"})

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            return JSONResponse(encode_error("no such file"), status_code=404)
        return Response((PAGE / name).read_bytes(), media_type=ASSETS[name], headers={"Cache-Control": "no-cache"})

    async def info(self, _: Request) -> Response:
        agent = self._agent
        tools = [{"name": tool.name, "description": tool.description} for tool in agent.tools.own_tools]
        model = agent.choose_backend()[0].name
        shown = {"description": mask(agent.description), "model": model, "tools": tools}
        return JSONResponse({**shown, "isStored": self._journal is not None})

    async def run(self, request: Request) -> Response:
        return await start_run(self._threads, request, stops=False)

    async def threads(self, _: Request) -> Response:
        return JSONResponse(await self._threads.list())

    async def thread(self, request: Request) -> Response:
        conversation = await self._threads.find(request.path_params["thread"])
        shown = {"events": conversation.events, "running": conversation.running}
        return JSONResponse({**shown, "interrupted": conversation.interrupted})

    async def events(self, request: Request) -> Response:
        conversation = await self._threads.find(request.path_params["thread"])
        return stream_events(conversation, read_place(request.headers.get("last-event-id")))

    async def stop(self, request: Request) -> Response:
        conversation = await self._threads.find(request.path_params["thread"])
        conversation.stop()
        return JSONResponse({"stopping": bool(conversation.running)})

    async def request(self, request: Request) -> Response:
        conversation = await self._threads.find(request.path_params["thread"])
        place = request.path_params["run"], request.path_params["number"]
        if (found := conversation.find_request(*place)) is None and self._journal is not None:
            return await self._read(read_request, *place)
        return _json_or_404(found)

    async def runs(self, _: Request) -> Response:
        return JSONResponse([]) if self._journal is None else await self._read(list_stored_runs)

    async def stored_run(self, request: Request) -> Response:
        return await self._read(read_run, request.path_params["run"])

    async def stored_request(self, request: Request) -> Response:
        return await self._read(read_request, request.path_params["run"], request.path_params["number"])

    async def _read(self, read: Any, *arguments: Any) -> Response:
        """Return what a function of the journal returns; 404 for what it does not have."""
        if self._journal is None:
            return JSONResponse(encode_error("this server has no journal"), status_code=404)
        return _json_or_404(await asyncio.to_thread(read, self._journal, *arguments))


async def _report_error(_: Request, error: Exception) -> Response:
    """Return the response for a journal that cannot be read, or that lacks the run."""
    return JSONResponse(encode_error(mask(str(error))), status_code=404)


def _json_or_404(found: Any) -> Response:
    if found is None:
        return JSONResponse(encode_error("not found"), status_code=404)
    return Response(json.dumps(found, ensure_ascii=False, default=str), media_type="application/json")


DEFAULT_WEB_PORT = 8080
HOST = "127.0.0.1"


def serve(
    agent: JsonAgent[Any],
    *,
    port: int = DEFAULT_WEB_PORT,
    journal: Place | None = None,
    token: str = "",
    announce: Callable[[str], object] = print,
) -> None:
    """Serve the page for `agent` on 127.0.0.1 until the process is interrupted.

    Args:
        agent: The agent.
        port: The port.
        journal: The journal that keeps the conversations; default: the agent's, else they live as long as the process.
        token: The token in the address; default: a new random one.
        announce: Receives the address.
    """
    token = token or secrets.token_urlsafe(18)
    app: Any = web_app(agent, token=token, hosts=[f"{HOST}:{port}", f"localhost:{port}"], journal=journal)
    announce(f"http://{HOST}:{port}/?token={token}")
    uvicorn.run(app, host=HOST, port=port, log_level="warning", lifespan="off", timeout_graceful_shutdown=2)


HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def stream_events(conversation: Thread, place: int, *, stops: bool = False) -> StreamingResponse:
    """Return the events of a conversation from `place` on, to the end of its current run.

    Args:
        conversation: The conversation.
        place: The id of the first event.
        stops: Whether the run is stopped when the client disconnects.
    """

    async def lines() -> AsyncIterator[str]:
        try:
            async with aclosing(conversation.follow(place)) as events:  # type: ignore[type-var]
                async for identity, event in events:
                    yield f"id: {identity}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
        finally:
            if stops and conversation.running:
                conversation.stop()

    return StreamingResponse(lines(), media_type="text/event-stream", headers=HEADERS)


def read_place(value: str | None) -> int:
    """Return the id of the event after the one that `Last-Event-ID` names; 0 without a valid one."""
    return int(value) + 1 if value is not None and value.isascii() and value.isdigit() else 0


def encode_error(message: str) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": message}


def agui(agent: JsonAgent[Any], *, journal: Place | None = None) -> Starlette:
    """Return an ASGI app that runs `agent` for clients of AG-UI: POST a `RunAgentInput`, read the events.

    Mount it in an app that knows its users: it has no sign-in of its own.  A paused run ends with interrupts, which
    `resume` answers in the next request.  A client that disconnects stops its run.

    Args:
        agent: The agent; each `threadId` is a conversation of its own.
        journal: The journal that keeps the conversations; default: they live as long as the process.
    """
    threads = Threads(agent, journal)

    async def run(request: Request) -> Response:
        return await start_run(threads, request, stops=True)

    return Starlette(routes=[Route("/", run, methods=["POST"])])


async def start_run(threads: Threads, request: Request, *, stops: bool) -> Response:
    """Begin the run that the body of a request asks for, and return its events as a stream."""
    try:
        given = parse_input(json.loads(await request.body()))
        conversation, first = await threads.start(given)
    except (InputError, AgentkitError, ValueError, RecursionError) as error:
        return JSONResponse(encode_error(mask(str(error))), status_code=409 if isinstance(error, BusyError) else 422)
    return stream_events(conversation, first, stops=stops)


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

        async def send_guarded(message: AsgiMessage) -> None:
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
