"""Where a server is: the command that starts it, or its address; and the transport that reaches it."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TextIO, TypeAlias

import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from .oauth import StoredLogin

MAX_STDERR_CHARS = 2_000
"""Characters of a server's last error output that an error shows."""
HTTP_TIMEOUT = httpx2.Timeout(30.0, read=300.0)
"""Seconds to connect and to send, and between two pieces of an answer, which a server may hold open."""

Auth: TypeAlias = "Literal['oauth'] | httpx2.Auth | None"
"""How this program proves at a server who it is: by a stored login, or as an object of the HTTP library does."""
Streams: TypeAlias = tuple[Any, Any]
"""The stream of received messages, and the stream of messages to send."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program that serves on its standard input and output.

    Attributes:
        words: The program and its arguments.
        env: Environment variables beside the few that the SDK inherits (HOME, LOGNAME, PATH, SHELL, TERM, USER).
        cwd: The working directory.
    """

    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None

    def __str__(self) -> str:
        return " ".join(self.words)

    @asynccontextmanager
    async def connect(self, transport: "Transport") -> AsyncGenerator[Streams, None]:
        """Start the program; yield the streams of its messages."""
        parameters = StdioServerParameters(
            command=self.words[0], args=[*self.words[1:]], env=dict(self.env), cwd=self.cwd
        )
        with _collect_stderr(transport) as errlog:
            async with stdio_client(parameters, errlog) as (received, sent):
                yield _WatchedStream(received, transport.end), sent


@dataclass(frozen=True, slots=True)
class Address:
    """A server that is reached by streamable HTTP; `headers` go with each request, `auth` is "oauth" or adds more."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: Auth = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.url

    @asynccontextmanager
    async def connect(self, transport: "Transport") -> AsyncGenerator[Streams, None]:
        """Open an HTTP client; yield the streams of the messages."""

        async def note(response: httpx2.Response) -> None:
            transport.status = response.status_code

        auth = StoredLogin(self.url).make_auth() if self.auth == "oauth" else self.auth
        hooks = {"response": [note]}
        async with (
            httpx2.AsyncClient(
                headers=dict(self.headers), timeout=HTTP_TIMEOUT, auth=auth, event_hooks=hooks
            ) as client,
            streamable_http_client(self.url, http_client=client) as (received, sent),
        ):
            yield received, sent


Endpoint: TypeAlias = Command | Address


class Transport:
    """What is known of a transport: whether it has ended, the last HTTP status, the last errors of the program."""

    def __init__(self) -> None:
        self.has_ended = False
        self.status = 0
        self._errors = b""

    def end(self) -> None:
        """Note that no further message will arrive."""
        self.has_ended = True

    def add_errors(self, data: bytes) -> None:
        """Keep the end of the error output."""
        self._errors = (self._errors + data)[-MAX_STDERR_CHARS:]

    @property
    def errors(self) -> str:
        """The end of the program's error output."""
        return self._errors.decode(errors="replace").strip()


class _WatchedStream:
    """A stream of received messages that reports its end."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:
        self._stream, self._on_end = stream, on_end

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> "_WatchedStream":
        return self

    async def __anext__(self) -> Any:
        try:
            return await anext(self._stream)
        except BaseException:
            self._on_end()
            raise

    async def __aenter__(self) -> "_WatchedStream":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _collect_stderr(transport: Transport) -> AbstractContextManager[TextIO]:
    return _StderrPipe(transport) if sys.platform != "win32" else open(os.devnull, "w", encoding="utf-8")


class _StderrPipe:
    """A pipe for the error output of a program, read on the running loop so that it never fills."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> TextIO:
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop.add_reader(self._reader, self._read)
        self._writer = os.fdopen(writer, "w", encoding="utf-8")
        return self._writer

    def __exit__(self, *_: object) -> None:
        self._read()
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
        self._writer.close()

    def _read(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._reader, 65_536)
            self._transport.add_errors(data)
            if not data:
                self._loop.remove_reader(self._reader)
