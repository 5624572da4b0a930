"""Time limits for the pieces of a reply, whatever the server does: silence, slow bytes, empty keep-alive chunks.

Signals stand among the pieces where a chunk held no delta.
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from dataclasses import dataclass
from enum import Enum
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from ...core.background import start_thread
from ...core.errors import RunError
from ...core.threads import on_cancel
from ...engine.model import Delta, Reply

Piece: TypeAlias = Delta | Reply


class Signal(Enum):
    """A chunk without a delta; consumed here."""

    KEEPALIVE = "an empty chunk, which does not reset the time limit"
    PROGRESS = "a part of the reply, which resets the time limit"


_END: Any = object()


class PieceTimer:
    """The time that the next piece may take: at most `between` seconds, and `total` seconds for all pieces together."""

    def __init__(self, between: float, total: float | None = None) -> None:
        self._between = between
        self._end = None if total is None else time.monotonic() + total

    def seconds_left(self) -> float:
        """Return the seconds that remain for the next piece."""
        remaining = self._between if self._end is None else min(self._between, self._end - time.monotonic())
        return min(max(remaining, 0.0), threading.TIMEOUT_MAX)

    @property
    def is_over(self) -> bool:
        """Whether the total limit is reached."""
        return self._end is not None and time.monotonic() >= self._end


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException


def limit_time(
    pieces: Generator[Piece | Signal, None, None], timer: PieceTimer, abandoned: threading.Event
) -> Generator[Piece, None, None]:
    """Yield `pieces`; raise `TimeoutError` when one does not arrive in time.

    They are read in a thread of their own, because a blocking read cannot be interrupted. After a timeout that thread
    closes the connection at the next byte, because `abandoned` is set, or when its own read times out.
    """
    queue: SimpleQueue[Any] = SimpleQueue()
    start_thread(partial(_pump, pieces, queue, abandoned))
    stopped = _Failure(RunError("cancelled: the run was stopped"))
    with on_cancel(partial(queue.put, stopped)):
        try:
            while True:
                try:
                    piece = queue.get(timeout=timer.seconds_left())
                except Empty:
                    raise TimeoutError from None
                if piece is _END:
                    return
                if isinstance(piece, _Failure):
                    raise piece.error
                if not isinstance(piece, Signal):
                    yield piece
        finally:
            abandoned.set()


def _pump(pieces: Generator[Any, None, None], queue: "SimpleQueue[Any]", abandoned: threading.Event) -> None:
    try:
        with closing(pieces):
            for piece in pieces:
                if abandoned.is_set():
                    return
                if piece is not Signal.KEEPALIVE:
                    queue.put(piece)
        queue.put(_END)
    except BaseException as error:
        queue.put(_Failure(error))


async def alimit_time(pieces: AsyncGenerator[Piece | Signal, None], timer: PieceTimer) -> AsyncGenerator[Piece, None]:
    """Yield `pieces` as `limit_time` does, on the running event loop."""
    async with aclosing(pieces):
        while True:
            async with asyncio.timeout(timer.seconds_left()):
                while (piece := await anext(pieces, _END)) is Signal.KEEPALIVE:
                    pass
            if piece is _END:
                return
            if not isinstance(piece, Signal):
                yield piece
