"""Events as a stream of server-sent events, each with its id."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from .api import StreamingResponse
from .thread import Thread

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
