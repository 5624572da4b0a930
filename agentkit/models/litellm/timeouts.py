"""Time limits that hold whatever a server does: say nothing, drip bytes, keep a stream alive without a word.

What is limited are the pieces of a reply; signs stand among them where nothing came that could be shown.
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
from ...engine.model import Delta, Reply

Piece: TypeAlias = Delta | Reply


class Sign(Enum):
    """What the connection brought, if it was no piece; never passed on."""

    ALIVE = "nothing, it is merely open: that buys no time"
    MOVED = "something of the reply, which buys time"


_END: Any = object()


class Clock:
    """Runs from the moment it is made; tells how long the next piece may take.

    `between` is the limit for each piece, `total` the limit for all of them together, both in seconds.
    """

    def __init__(self, between: float, total: float | None = None) -> None:
        self._between = between
        self._end = None if total is None else time.monotonic() + total

    def left(self) -> float:
        """Seconds from now on."""
        rest = self._between if self._end is None else min(self._between, self._end - time.monotonic())
        return min(max(rest, 0.0), threading.TIMEOUT_MAX)

    @property
    def is_over(self) -> bool:
        """Whether the time for all pieces is up."""
        return self._end is not None and time.monotonic() >= self._end


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


def within(pieces: Generator[Piece | Sign, None, None], clock: Clock) -> Generator[Piece, None, None]:
    """Yield `pieces`, as long as each comes in time; raises `TimeoutError`.

    They are read in a thread of their own: a blocking read cannot be interrupted, but who waits beside it can go.  The
    thread then hangs up at the next sign of life, or when its own read times out.
    """
    queue: SimpleQueue[Any] = SimpleQueue()
    gone = threading.Event()
    start_thread(partial(_read, pieces, queue, gone))
    try:
        while True:
            try:
                piece = queue.get(timeout=clock.left())
            except Empty:
                raise TimeoutError from None
            if piece is _END:
                return
            if isinstance(piece, _Raised):
                raise piece.error
            if not isinstance(piece, Sign):
                yield piece
    finally:
        gone.set()


def _read(pieces: Generator[Any, None, None], queue: "SimpleQueue[Any]", gone: threading.Event) -> None:
    try:
        with closing(pieces):
            for piece in pieces:
                if gone.is_set():
                    return
                if piece is not Sign.ALIVE:
                    queue.put(piece)
        queue.put(_END)
    except BaseException as error:
        queue.put(_Raised(error))


async def awithin(pieces: AsyncGenerator[Piece | Sign, None], clock: Clock) -> AsyncGenerator[Piece, None]:
    """`within`, on the running event loop."""
    async with aclosing(pieces):
        while True:
            async with asyncio.timeout(clock.left()):
                while (piece := await anext(pieces, _END)) is Sign.ALIVE:
                    pass
            if piece is _END:
                return
            if not isinstance(piece, Sign):
                yield piece
