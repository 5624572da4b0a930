"""Limits for a reply without an end: its bytes, its total time, and the time for each of its pieces.

They hold whatever the server does: silence, slow bytes, empty keep-alive chunks.  Signals stand among the pieces where
a chunk held no delta.  At a limit the connection is closed.
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, partial
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from ...core.errors import RunError
from ...core.threads import Work, on_cancel
from ...engine.model import Delta, Reply, Request

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
    Work(partial(_pump, pieces, queue, abandoned))
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


MAX_REPLY_BYTES = 64 * 2**20
"""Bytes of one reply on the wire; the longest replies of models have less than a megabyte."""
MAX_REPLY_SECONDS = 3_600.0
"""Seconds for one reply, streamed or not, without a limit of the request."""


class ReplyTooLarge(Exception):
    """A reply with more bytes than allowed."""


class ReplyAbandoned(Exception):
    """The caller no longer waits for the reply, so its connection is closed."""


@dataclass(frozen=True, slots=True)
class ReplyGuard:
    """The limit of bytes of one reply, and the sign that the caller no longer waits.

    `responses` are the responses of litellm's HTTP clients that arrived for it.
    """

    max_bytes: int = MAX_REPLY_BYTES
    abandoned: threading.Event = field(default_factory=threading.Event)
    responses: list[Any] = field(default_factory=list)

    @property
    def body(self) -> str | None:
        """The text of the last response; None if it was not read as a whole."""
        with suppress(IndexError, RuntimeError):
            text: str = self.responses[-1].text
            return text
        return None

    def check(self, size: int) -> None:
        """Raise an exception, which closes the connection, if the reply is too large or abandoned."""
        if size > self.max_bytes:
            raise ReplyTooLarge(f"the reply has more than {self.max_bytes:,} bytes, so it was cancelled")
        if self.abandoned.is_set():
            raise ReplyAbandoned


def total_seconds(request: Request) -> float:
    """Return the limit of the whole reply: the request's, or else the default."""
    return MAX_REPLY_SECONDS if request.timeout is None else request.timeout


def watch_response(response: Any, guard: ReplyGuard) -> None:
    """Check each piece of the body of an httpx response with `guard`, while it is read."""
    guard.responses.append(response)
    watched, awatched = _stream_classes()
    kind = awatched if hasattr(response.stream, "__aiter__") else watched
    response.stream = kind(response.stream, guard)


@cache
def _stream_classes() -> tuple[type[Any], type[Any]]:
    """Return the streams of a body that check their size, blocking and asynchronous; httpx is imported late."""
    httpx: Any = import_module("httpx")

    class WatchedStream(httpx.SyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, guard: ReplyGuard) -> None:
            self._inner = inner
            self._guard = guard

        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for chunk in self._inner:
                size += len(chunk)
                self._guard.check(size)
                yield chunk

        def close(self) -> None:
            self._inner.close()

    class WatchedAsyncStream(httpx.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, guard: ReplyGuard) -> None:
            self._inner = inner
            self._guard = guard

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._inner:
                size += len(chunk)
                self._guard.check(size)
                yield chunk

        async def aclose(self) -> None:
            await self._inner.aclose()

    return WatchedStream, WatchedAsyncStream
