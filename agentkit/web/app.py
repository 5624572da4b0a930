"""The web app of an agent: the page of `agentkit web`, and an endpoint for any client of AG-UI.

A guard checks who sends a request, and protects the page from what it shows.  A run is a stream of server-sent events,
each with its id, so that a client can continue after a break.
"""

import asyncio
import json
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from importlib.resources import files
from typing import Any

from .. import AgentkitError, DefinitionError, JsonAgent, Session
from ..evals import list_evaluations, read_evaluation
from ..extend import (
    LOOPBACK_HOSTS,
    AsgiApp,
    Guard,
    JournalError,
    OfRequest,
    Place,
    call_with_request,
    find_flaw,
    is_function,
    limit_header_time,
    mask,
    run_server,
    to_valid_text,
    user_of,
)
from .api import (
    AutoHTTPProtocol,
    JSONResponse,
    Middleware,
    Request,
    Response,
    Route,
    Starlette,
    StreamingResponse,
    uvicorn,
)
from .encode import to_older
from .run_input import BusyError, InputError, parse_input
from .threads import (
    ENDS_OF_RUN,
    LIST_LENGTH,
    Thread,
    Threads,
    find_stored_run,
    list_stored_runs,
    read_request,
    read_run,
)

PAGE = files(__package__) / "page"
TYPES = {".css": "text/css", ".js": "text/javascript"}
ASSETS = {file.name: TYPES[ending] for file in PAGE.iterdir() for ending in TYPES if file.name.endswith(ending)}
"""The files of the page and their types; no other file is served."""


def web_app(
    agent: JsonAgent[Any],
    *,
    token: str = "",
    hosts: Sequence[str] | None = None,
    journal: Place | None = None,
    user: OfRequest | None = None,
    deps: Any = None,
    allow_origins: Sequence[str] = (),
) -> Starlette:
    """Return the ASGI app of the page: a chat with `agent`, its runs, and AG-UI under `/agui`.

    Args:
        agent: The agent.
        token: The token without which nothing private is served; it is part of the page's address.
        hosts: As in `agui`.
        journal: The journal that keeps the conversations; default: the agent's, else they live as long as the process.
        user: As in `agui`; a user sees no conversation and no run of another one.
        deps: As in `agui`.
        allow_origins: As in `agui`.

    Raises:
        DefinitionError: There is neither a token nor a `user`.
    """
    if not token and user is None:
        raise DefinitionError(
            "web_app: anyone who reaches the address could use the agent. Give a token, or user=, a function of the "
            "request that returns the id of its user"
        )
    place: Any = agent.journal if journal is None else journal
    checks = _guard(
        hosts=hosts,
        allow_origins=allow_origins,
        token=token,
        is_token_in_address=True,
        realm="Token: open the address that agentkit web printed.",
        user=user,
        open_prefix=OPEN_PREFIX,
        headers=SECURITY_HEADERS,
    )
    handlers: Any = {AgentkitError: _report_error}
    page = Page(agent, place, deps)
    app = Starlette(routes=page.routes(), middleware=[checks], exception_handlers=handlers)
    app.state.end_streams = page.end_streams
    return app


class Page:
    """The endpoints."""

    def __init__(self, agent: JsonAgent[Any], journal: Place | None, deps: Any) -> None:
        self._agent = agent
        self._journal = journal
        self._deps = deps
        self._threads = Threads(agent, journal, draws=True)

    def routes(self) -> list[Route]:
        """Return the table of the endpoints."""
        return [
            Route("/", self.index),
            Route("/assets/{name}", self.asset),
            Route("/info", self.info),
            Route("/agui", self.run, methods=["POST"]),
            Route("/threads", self.threads),
            Route("/threads/{thread:path}/title", self.rename, methods=["PUT"]),
            Route("/threads/{thread:path}/version", self.version),
            Route("/threads/{thread:path}/events", self.events),
            Route("/threads/{thread:path}/stop", self.stop, methods=["POST"]),
            Route("/threads/{thread:path}/requests/{run}/{number:int}", self.request),
            Route("/threads/{thread:path}", self.delete, methods=["DELETE"]),
            Route("/threads/{thread:path}", self.thread),
            Route("/runs", self.runs),
            Route("/runs/{run}", self.stored_run),
            Route("/runs/{run}/report", self.report),
            Route("/runs/{run}/requests/{number:int}", self.stored_request),
            Route("/evals", self.evals),
            Route("/evals/{evaluation}", self.evaluation),
        ]

    def end_streams(self) -> None:
        """End the streams of all runs, which continue to work."""
        self._threads.unfollow()

    async def index(self, _: Request) -> Response:
        page = (PAGE / "index.html").read_bytes()
        return Response(page, media_type="text/html", headers={"Cache-Control": "no-store"})

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            return JSONResponse({"error": "no such file"}, status_code=404)
        return Response((PAGE / name).read_bytes(), media_type=ASSETS[name], headers={"Cache-Control": "no-cache"})

    async def info(self, _: Request) -> Response:
        agent = self._agent
        tools = [{"name": tool.name, "description": tool.description} for tool in agent.tools.own_tools]
        model = agent.choose_backend()[0].name
        shown = {"description": mask(agent.spec.about), "model": model, "tools": tools}
        return JSONResponse({**shown, "isStored": self._journal is not None})

    async def run(self, request: Request) -> Response:
        return await start_run(self._threads, request, self._deps, stops=False)

    async def threads(self, request: Request) -> Response:
        return JSONResponse(await self._threads.list(user_of(request.scope), limit_of(request)))

    async def thread(self, request: Request) -> Response:
        conversation = await self._find(request)
        shown = {"events": conversation.events, "running": conversation.running, "version": conversation.version}
        return JSONResponse({**shown, **conversation.last_run, "isElsewhere": conversation.is_elsewhere})

    async def delete(self, request: Request) -> Response:
        try:
            await self._threads.delete(user_of(request.scope), thread_of(request))
        except BusyError as error:
            return JSONResponse({"error": mask(str(error))}, status_code=409)
        return Response(status_code=204)

    async def rename(self, request: Request) -> Response:
        try:
            body = await _read_json(request)
            title: Any = body.get("title") if isinstance(body, dict) else None
            await self._threads.rename(user_of(request.scope), thread_of(request), title)
        except (InputError, DefinitionError, ValueError) as error:
            return JSONResponse({"error": mask(str(error))}, status_code=422)
        return Response(status_code=204)

    async def version(self, request: Request) -> Response:
        conversation = await self._find(request)
        shown = {"version": conversation.version, "count": len(conversation.events)}
        return JSONResponse({**shown, **conversation.last_run})

    async def events(self, request: Request) -> Response:
        last = request.headers.get("last-event-id", "")
        first = int(last) + 1 if re.fullmatch("[0-9]{1,9}", last) else 0
        return stream_events(await self._find(request), first)

    async def stop(self, request: Request) -> Response:
        conversation = await self._find(request)
        conversation.stop()
        return JSONResponse({"stopping": bool(conversation.running)})

    async def request(self, request: Request) -> Response:
        conversation = await self._find(request)
        run = request.path_params["run"]
        number = request.path_params["number"]
        if (found := conversation.find_request(run, number)) is None:
            found = await self._read(request, read_request, run, number)
        return _json(found)

    async def runs(self, request: Request) -> Response:
        if self._journal is None:
            return JSONResponse([])
        found = await asyncio.to_thread(list_stored_runs, self._journal, user_of(request.scope), limit_of(request))
        return JSONResponse(found)

    async def stored_run(self, request: Request) -> Response:
        return _json(await self._read(request, read_run, request.path_params["run"]))

    async def report(self, request: Request) -> Response:
        found = await self._read(request, find_stored_run, request.path_params["run"])
        return Response(await asyncio.to_thread(found.to_html), media_type="text/html", headers=REPORT_HEADERS)

    async def stored_request(self, request: Request) -> Response:
        number = request.path_params["number"]
        return _json(await self._read(request, read_request, request.path_params["run"], number))

    async def evals(self, request: Request) -> Response:
        if self._journal is None or user_of(request.scope):
            return JSONResponse([])
        found = await asyncio.to_thread(list_evaluations, self._journal)
        return JSONResponse([{name: entry.get(name) for name in EVALUATION_PARTS} for entry in found])

    async def evaluation(self, request: Request) -> Response:
        if self._journal is None or user_of(request.scope):  # an evaluation belongs to no user
            raise JournalError("not found")
        found = await asyncio.to_thread(read_evaluation, request.path_params["evaluation"], self._journal)
        return Response(found.to_html(), media_type="text/html", headers=REPORT_HEADERS)

    async def _find(self, request: Request) -> Thread:
        return await self._threads.find(user_of(request.scope), thread_of(request))

    async def _read(self, request: Request, read: Any, *arguments: Any) -> Any:
        """Return what a function reads in the journal for the user; raise `JournalError` without a journal."""
        if self._journal is None:
            raise JournalError("this server has no journal")
        return await asyncio.to_thread(read, self._journal, user_of(request.scope), *arguments)


def thread_of(request: Request) -> str:
    """Return the id of the conversation in a path.

    The page adds a slash to an id of one or two dots, which a browser would drop.
    """
    thread: str = request.path_params["thread"]
    return thread[:-1] if re.fullmatch(r"\.\.?/+", thread) else thread


def limit_of(request: Request) -> int:
    """Return how many entries of a list are wanted."""
    value = request.query_params.get("limit", "")
    return int(value) if re.fullmatch("[1-9][0-9]{0,5}", value) else LIST_LENGTH


async def _report_error(_: Request, error: Exception) -> Response:
    """Return the response for a journal that cannot be read, or that lacks the run."""
    return JSONResponse({"error": mask(str(error))}, status_code=404)


def _json(found: Any) -> Response:
    return Response(json.dumps(found, ensure_ascii=False, default=str), media_type="application/json")


HOST = "127.0.0.1"


def serve(
    agent: JsonAgent[Any],
    *,
    port: int = 8080,
    journal: Place | None = None,
    token: str = "",
    announce: Callable[[str], object] = print,
    host: str = HOST,
    hosts: Sequence[str] = (),
    root_path: str = "",
) -> None:
    """Serve the page for `agent` until the process is interrupted.

    Args:
        agent: The agent.
        port: The port.
        journal: The journal that keeps the conversations; default: the agent's, else they live as long as the process.
        token: The token in the address; default: a new random one.
        announce: Receives the address, as soon as the server answers there.
        host: The address to listen on; "0.0.0.0" for all of this machine.
        hosts: More names under which a browser reaches the page, such as that of a reverse proxy.
        root_path: The prefix of the page's address behind a reverse proxy, which may remove it or not: "/shop".

    Raises:
        DefinitionError: The prefix does not begin with a slash, or the address cannot be used.
    """
    prefix = root_path.rstrip("/")
    if prefix and not prefix.startswith("/"):
        raise DefinitionError(f'root_path: expected a path such as "/shop", got {root_path!r}')
    token = token or secrets.token_urlsafe(18)
    shown = HOST if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    app = web_app(
        agent,
        token=token,
        hosts=[*LOOPBACK_HOSTS, shown, *hosts],
        allow_origins=[f"{scheme}://{name}" for name in hosts for scheme in ("http", "https")],
        journal=journal,
    )
    address = f"http://{shown}:{port}{prefix}/?token={token}"
    served: Any = under_prefix(app, prefix) if prefix else app
    config = uvicorn.Config(
        served,
        host=host,
        port=port,
        http=limit_header_time(AutoHTTPProtocol),
        log_level="warning",
        lifespan="off",
        timeout_graceful_shutdown=2,
    )
    remedy = "Name another port: agentkit web --port N, or serve(port=...)"
    problem = f"the page cannot be served at {host}:{port}. {remedy}"
    run_server(PageServer(config, app.state.end_streams), partial(announce, address), problem)


class PageServer(uvicorn.Server):
    """A server that ends the streams before it waits for its connections; a cancelled one writes a traceback."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the connections."""
        self._end_streams()
        await super().shutdown(sockets)


def under_prefix(app: AsgiApp, prefix: str) -> AsgiApp:
    """Return an app that answers under a prefix, whether the proxy in front of it has removed the prefix or not."""

    async def prefixed(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            whole = path if path == prefix or path.startswith(f"{prefix}/") else prefix + path
            scope = {**scope, "root_path": prefix, "path": whole}
        await app(scope, receive, send)

    return prefixed


def stream_events(
    conversation: Thread, first: int, *, is_one_run: bool = False, stops: bool = False, is_older: bool = False
) -> StreamingResponse:
    """Return the events of a conversation, to the end of its current run.

    Args:
        conversation: The conversation.
        first: The id of the first event.
        is_one_run: Whether a run begins there, and ends the stream.  Otherwise the events of a next run are in it, too,
            which a client may begin before this one has read all.
        stops: Whether the run is stopped when the client disconnects.
        is_older: As in `RunInput`.
    """

    async def lines() -> AsyncIterator[str]:
        try:
            async with aclosing(conversation.follow(first)) as events:  # type: ignore[type-var]
                async for identity, event in events:
                    shown = json.dumps(to_older(event) if is_older else event, ensure_ascii=False)
                    yield f"id: {identity}\ndata: {shown}\n\n"
                    if is_one_run and event["type"] in ENDS_OF_RUN:
                        await conversation.wait_until_released()
                        return
        finally:
            if stops and conversation.running and not conversation.is_over(first):
                conversation.stop()

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(lines(), media_type="text/event-stream", headers=headers)


def agui(
    agent: JsonAgent[Any],
    *,
    journal: Place | None = None,
    user: OfRequest | None = None,
    deps: Any = None,
    session: OfRequest | None = None,
    allow_origins: Sequence[str] = (),
    hosts: Sequence[str] | None = None,
    share_state: bool = False,
) -> Starlette:
    """Return an ASGI app that runs `agent` for clients of AG-UI: POST a `RunAgentInput`, read the events.

    A paused run ends with interrupts, which `resume` answers in the next request.  A client that disconnects stops its
    run.  `user`, `deps` and `session` may be plain or async functions of the request (a `starlette.requests.Request`,
    whose `state.thread` is the id of the conversation); they can read its headers, cookies and `request.user`.

    Args:
        agent: The agent; each `threadId` is a conversation of its own.
        journal: The journal that keeps the conversations; default: they live as long as the process.
        user: Returns the id of the signed-in user, None for a request that is refused.  Conversations and what they
            wait for belong to their user: the same `threadId` of another user is another conversation.
        deps: The values for tools, as in `JsonAgent(deps=...)`, or a function of the request that returns them.
        session: Returns the session of the conversation, for an app that keeps its sessions itself.
        allow_origins: The origins of pages that may send requests from a browser, beside the app's own:
            "https://shop.example"; "http://localhost:*" stands for all ports.
        hosts: The accepted values of the header `Host`, a name without a port with any.  Default: any, but the names
            of this machine alone for an app without users on the loopback, because other pages could reach it there.
        share_state: Whether tools find the client's state in `RunContext.state`, and the client sees what they change
            there: JSON data, except under keys that begin with an underscore, which the client cannot set either.

    Raises:
        DefinitionError: There are a journal and `session`, or "*" is allowed where cookies tell the user.
    """
    if session is not None and journal is not None:
        raise DefinitionError("agui: a journal and session= both keep the conversations. Give one of them.")
    if session is not None and not is_function(session):
        raise DefinitionError("agui: session= must be a function of the request that returns a Session")
    threads = Threads(agent, journal, shares_state=share_state)

    async def run(request: Request) -> Response:
        return await start_run(threads, request, deps, session, stops=True)

    checks = _guard(hosts=hosts, allow_origins=allow_origins, user=user)
    return Starlette(routes=[Route("/", run, methods=["POST"])], middleware=[checks])


def _guard(**settings: Any) -> Middleware:
    """Return the guard as middleware; a setting that is not valid raises here, not at the first request."""
    given = {"make_request": Request, **settings}
    Guard(Starlette(), **given)
    return Middleware(Guard, **given)


async def start_run(
    threads: Threads, request: Request, deps: Any, session: OfRequest | None = None, *, stops: bool
) -> Response:
    """Begin the run that the body of a request asks for, and return its events as a stream."""
    try:
        given = parse_input(await _read_json(request))
    except (InputError, RecursionError) as error:
        return _refuse(error)
    request.state.thread = given.thread
    options = await _read_options(request, deps, session)  # the client reads nothing of what these functions raise
    try:
        conversation, first = await threads.start(given, user_of(request.scope), **options)
    except DefinitionError:
        raise
    except (InputError, AgentkitError, RecursionError) as error:
        return _refuse(error)
    return stream_events(conversation, first, is_one_run=True, stops=stops, is_older=given.is_older)


def _refuse(error: Exception) -> Response:
    return JSONResponse({"error": mask(str(error))}, status_code=409 if isinstance(error, BusyError) else 422)


async def _read_options(request: Request, deps: Any, session: OfRequest | None) -> dict[str, Any]:
    """Return the options of the run that a request asks for."""
    found = {}
    deps = await call_with_request(deps, request) if is_function(deps) else deps
    if deps is not None:
        found["deps"] = deps
    if session is not None:
        found["session"] = await call_with_request(session, request)
        if not isinstance(found["session"], Session):
            raise DefinitionError(f"session=: expected a Session, got {type(found['session']).__name__}")
    return found


async def _read_json(request: Request) -> Any:
    """Return the body of a request as JSON data that a response can repeat.

    It is in valid Unicode: JSON may have half of a surrogate pair, a response may not.

    Raises:
        InputError: The body is no JSON, has a number that JSON does not have, or is nested too deeply.
    """
    content = await request.body()
    try:
        body = json.loads(content)
        text = json.dumps(body, ensure_ascii=False)
        valid = to_valid_text(text)
        body = body if valid == text else json.loads(valid)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body cannot be read as JSON: {error}") from error
    if find_flaw(body) is not None:
        raise InputError("the body cannot be read as JSON: it has NaN, an infinite number or more than 200 levels")
    return body


OPEN_PREFIX = "/assets/"
"""The path of files without anything private, which need no token."""
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
EVALUATION_PARTS = ("id", "began", "ended", "models", "trials", "passed")
"""What the page shows of an evaluation in its list."""
REPORT_HEADERS = {
    "Content-Security-Policy": "base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "Cache-Control": "no-store",
}
"""A report has a policy of its own, which admits its style and its one script and loads nothing."""
