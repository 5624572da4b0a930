"""Limits for a reply without an end: its bytes, its total time, and the time for each of its pieces.

A whole reply is given to litellm without what it cannot read (`mend_body`).

They hold whatever the server does: silence, slow bytes, empty keep-alive chunks.  Signals stand among the pieces where
a chunk held no delta.  At a limit the connection is closed.
"""

import asyncio
import json
import queue
import re
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing, suppress
from dataclasses import field
from enum import Enum
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeAlias

from ...core.errors import RunError
from ...core.threads import Work, on_cancel, take
from ...core.values import frozen
from ...engine.model import Delta, Reply, Request

Piece: TypeAlias = Delta | Reply


class Signal(Enum):
    """A chunk without a delta; consumed here."""

    KEEPALIVE = "an empty chunk, which does not reset the time limit"
    PROGRESS = "a part of the reply, which resets the time limit"


_END: Any = object()


class PieceTimer:
    """The time that the next piece may take: at most `between` seconds, and `total` seconds for all pieces together."""

    def __init__(self, between: float, total: float) -> None:
        self._between = between
        self._end = time.monotonic() + total

    def seconds_left(self) -> float:
        """Return the seconds that remain for the next piece."""
        remaining = min(self._between, self._end - time.monotonic())
        return min(max(remaining, 0.0), threading.TIMEOUT_MAX)

    @property
    def is_over(self) -> bool:
        """Whether the total limit is reached."""
        return time.monotonic() >= self._end


@frozen
class _Failure:
    error: BaseException


def limit_time(
    pieces: Generator[Piece | Signal, None, None], timer: PieceTimer, abandoned: threading.Event
) -> Generator[Piece, None, None]:
    """Yield `pieces`; raise `TimeoutError` when one does not arrive in time.

    They are read in a thread of their own, because a blocking read cannot be interrupted. After a timeout that thread
    closes the connection at the next byte, because `abandoned` is set, or when its own read times out.
    """
    arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
    Work(partial(_pump, pieces, arrived, abandoned))
    stopped = _Failure(RunError("cancelled: the run was stopped"))
    with on_cancel(partial(arrived.put, stopped)):
        try:
            while True:
                try:
                    piece = take(arrived, timer.seconds_left())
                except queue.Empty:
                    raise TimeoutError from None
                if piece is _END:
                    return
                if isinstance(piece, _Failure):
                    raise piece.error
                if not isinstance(piece, Signal):
                    yield piece
        finally:
            abandoned.set()


def _pump(pieces: Generator[Any, None, None], arrived: "queue.SimpleQueue[Any]", abandoned: threading.Event) -> None:
    try:
        with closing(pieces):
            for piece in pieces:
                if abandoned.is_set():
                    return
                if piece is not Signal.KEEPALIVE:
                    arrived.put(piece)
        arrived.put(_END)
    except BaseException as error:
        arrived.put(_Failure(error))


async def alimit_time(pieces: AsyncGenerator[Piece | Signal, None], timer: PieceTimer) -> AsyncGenerator[Piece, None]:
    """Yield `pieces` as `limit_time` does, on the running event loop."""
    watchdog = _Watchdog(timer)
    try:
        async with aclosing(pieces):
            while True:
                watchdog.begin()
                try:
                    while (piece := await anext(pieces, _END)) is Signal.KEEPALIVE:
                        pass
                except asyncio.CancelledError:
                    if watchdog.has_cancelled():
                        raise TimeoutError from None
                    raise
                watchdog.end()
                if piece is _END:
                    return
                if not isinstance(piece, Signal):
                    yield piece
    finally:
        watchdog.stop()


class _Watchdog:
    """Cancels the task that waits for a late piece: one timer of the event loop for all pieces of a reply.

    The timer is not moved with each piece. When it fires too early for the piece that is waited for, it is set again.
    """

    def __init__(self, timer: PieceTimer) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = timer
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._due = 0.0
        self._cancelling = 0
        self._is_late = False

    def begin(self) -> None:
        """Begin to wait for the next piece, in the current task."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a reply is read in a task of the event loop")
        self._task = task
        self._cancelling = task.cancelling()
        self._due = self._loop.time() + self._timer.seconds_left()
        if self._handle is None:
            self._handle = self._loop.call_at(self._due, self._check)

    def end(self) -> None:
        """End the wait: a piece is there, and the time until the next wait belongs to the reader."""
        if self._is_late and self._task is not None:  # the task was cancelled, and the piece came nevertheless
            self._is_late = False
            self._task.uncancel()
        self._task = None

    def has_cancelled(self) -> bool:
        """Return whether the cancellation of the task is the watchdog's own alone; then it is taken back."""
        if not self._is_late or self._task is None:
            return False
        self._is_late = False
        return self._task.uncancel() <= self._cancelling

    def stop(self) -> None:
        """Remove the timer, and take back a cancellation that became another exception."""
        self.end()
        if self._handle is not None:
            self._handle.cancel()

    def _check(self) -> None:
        self._handle = None
        if self._task is None:
            return
        if self._loop.time() < self._due:
            self._handle = self._loop.call_at(self._due, self._check)
            return
        self._is_late = True
        self._task.cancel()


MAX_REPLY_BYTES = 64 * 2**20
"""Bytes of one reply on the wire; the longest replies of models have less than a megabyte."""
MAX_REPLY_SECONDS = 3_600.0
"""Seconds for one reply, streamed or not, without a limit of the request."""


class ReplyTooLarge(Exception):
    """A reply with more bytes than allowed."""


class WebPage(Exception):
    """A page of HTML in place of a stream."""


class ReplyAbandoned(Exception):
    """The caller no longer waits for the reply, so its connection is closed."""


@frozen
class ReplyGuard:
    """The limit of bytes of one reply, and the sign that the caller no longer waits.

    `responses` are the responses of litellm's HTTP clients that arrived for it.
    """

    max_bytes: int
    abandoned: threading.Event = field(default_factory=threading.Event)
    responses: list[Any] = field(default_factory=list)

    @property
    def is_accepted(self) -> bool:
        """Whether the last response has a status of success."""
        return bool(self.responses) and self.responses[-1].is_success

    @property
    def body(self) -> str:
        """The text of the last response, as it came; "" if it was not read as a whole."""
        with suppress(IndexError, RuntimeError):
            response = self.responses[-1]
            body: bytes | None = response.extensions.get(_BODY)
            text: str = response.text if body is None else body.decode(errors="replace")
            return text
        return ""

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
    """Check each piece of the body of an httpx response with `guard`, while it is read; its lines end at a newline.

    A body that is read as a whole is mended.
    """
    guard.responses.append(response)
    response.read = partial(_read, response)
    response.aread = partial(_aread, response)
    response.stream = _watched_stream_class()(response.stream, guard)
    response.iter_text = partial(_iter_text, response.iter_text)
    response.aiter_text = partial(_aiter_text, response.aiter_text)
    response.iter_lines = partial(_iter_lines, response)
    response.aiter_lines = partial(_aiter_lines, response)


_BODY = "agentkit.body"
"""The extension of a response that has its body as it came."""


def _read(response: Any) -> bytes:
    body = response.extensions[_BODY] = b"".join(response.iter_bytes())
    response.iter_bytes = partial(iter, [mend_body(body)])
    del response.read
    read: bytes = response.read()
    return read


async def _aread(response: Any) -> bytes:
    body = response.extensions[_BODY] = b"".join([piece async for piece in response.aiter_bytes()])

    async def iterate() -> AsyncIterator[bytes]:
        yield mend_body(body)

    response.aiter_bytes = iterate
    del response.aread
    read: bytes = await response.aread()
    return read


_UNREADABLE = re.compile(rb'"(?:annotations"\s*:\s*\[\s*\{|(?:function_call|custom)"\s*:\s*\{)')
"""What a reply may have that litellm cannot read."""


def mend_body(body: bytes) -> bytes:
    """Return the JSON of a whole reply without what litellm cannot read; any other body as it is.

    These are citations of files (of OpenAI's file search and code interpreter, and of OpenRouter's reader of PDF
    files), and the empty fields of servers that write each one: a call in the old form without a name, and one of
    another type within a call.  litellm's reader of Groq's replies needs a service tier.
    """
    if b'"chat.completion"' in body and b'"service_tier"' not in body and body[:1] == b"{":
        body = b'{"service_tier": null,' + body[1:]
    if not _UNREADABLE.search(body):
        return body
    try:
        data = json.loads(body)
        for choice in data.get("choices") or ():
            message = choice["message"]
            _keep_links(message)
            if not (message.get("function_call") or {}).get("name"):
                message.pop("function_call", None)
            for call in message.get("tool_calls") or ():
                if call.get("type") == "function":
                    call.pop("custom", None)
        for item in data.get("output") or ():
            for part in item["content"] if item["type"] == "message" else ():
                _keep_links(part)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return body
    return json.dumps(data, ensure_ascii=False).encode()


def _keep_links(holder: dict[str, Any]) -> None:
    """Keep the annotations that are links to pages: litellm knows no others."""
    if found := holder.get("annotations"):
        holder["annotations"] = [one for one in found if one["type"] == "url_citation"]


def _iter_text(iterate: Callable[..., Iterator[str]], *size: int) -> Iterator[str]:
    is_begin = True
    for text in iterate(*size):
        piece = _read_begin(text) if is_begin else text
        is_begin = is_begin and not piece
        yield piece


async def _aiter_text(iterate: Callable[..., AsyncIterator[str]], *size: int) -> AsyncIterator[str]:
    is_begin = True
    async for text in iterate(*size):
        piece = _read_begin(text) if is_begin else text
        is_begin = is_begin and not piece
        yield piece


def _read_begin(text: str) -> str:
    """Return the begin of a body without a byte order mark and space; raise `WebPage` for one of HTML."""
    begin = text.removeprefix("\ufeff").lstrip()
    if begin.startswith("<"):
        raise WebPage
    return begin


class _Lines:
    """Text in pieces as lines.

    httpx ends lines at U+2028, too, and at others that JSON has unescaped in its texts. A carriage return ends a line
    (HTML Standard, "Parsing an event stream").
    """

    def __init__(self) -> None:
        self._begun: list[str] = []

    def add(self, text: str) -> Iterator[str]:
        """Yield the lines that the text completes."""
        *ends, rest = text.replace("\r", "\n").split("\n")
        for end in ends:
            yield "".join([*self._begun, end])
            self._begun = []
        self._begun.append(rest)

    def end(self) -> Iterator[str]:
        """Yield the last line, if it has no newline."""
        if last := "".join(self._begun):
            yield last


def _iter_lines(response: Any) -> Iterator[str]:
    lines = _Lines()
    for text in response.iter_text():
        yield from lines.add(text)
    yield from lines.end()


async def _aiter_lines(response: Any) -> AsyncIterator[str]:
    lines = _Lines()
    async for text in response.aiter_text():
        for line in lines.add(text):
            yield line
    for line in lines.end():
        yield line


@cache
def _watched_stream_class() -> type[Any]:
    """Return the class of the stream of a body that checks its size; httpx is imported late."""
    httpx: Any = import_module("httpx")

    class WatchedStream(httpx.SyncByteStream, httpx.AsyncByteStream):  # type: ignore[misc]
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

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._inner:
                size += len(chunk)
                self._guard.check(size)
                yield chunk

        async def aclose(self) -> None:
            await self._inner.aclose()

    return WatchedStream
