"""Limits for a reply without an end: its bytes, its total time, and the closing of its connection."""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from ...engine.model import Request

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
            self._inner, self._guard = inner, guard

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
            self._inner, self._guard = inner, guard

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._inner:
                size += len(chunk)
                self._guard.check(size)
                yield chunk

        async def aclose(self) -> None:
            await self._inner.aclose()

    return WatchedStream, WatchedAsyncStream
