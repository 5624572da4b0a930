"""Any client of AG-UI with an agent: an ASGI app with one endpoint."""

import json
from typing import Any

from ..agents.agent import JsonAgent
from ..core.errors import AgentkitError
from ..core.masking import mask
from ..sessions.journal.location import Place
from .api import JSONResponse, Request, Response, Route, Starlette
from .run_input import BusyError, InputError, parse_input
from .sse import encode_error, stream_events
from .threads import Threads


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
