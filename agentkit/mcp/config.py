"""The settings of servers: from keywords, and from a file in the common form `{"mcpServers": {...}}`.

A server is reached by the command that starts it, or by its address.
"""

import asyncio
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import Any, Literal, TextIO, TypeAlias, get_args
from urllib.parse import urlsplit

import httpx2
from dotenv import dotenv_values
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from .. import DefinitionError
from ..extend import ToolEffect, Trust, check_timeout, suggest
from .oauth import StoredLogin

MAX_STDERR_CHARS = 2_000
"""Characters of a server's last error output that an error shows."""
HTTP_TIMEOUT = httpx2.Timeout(30.0, read=300.0)
"""Seconds to connect and to send, and between two pieces of an answer, which a server may hold open."""
MAX_EVENT_BYTES = 64 * 1024 * 1024
"""Bytes of one message that a server streams; the SDK's default, 1 MiB, is less than an image of a screen."""
_HAS_LIMIT = "max_sse_event_size" in signature(streamable_http_client).parameters
_EVENT_LIMIT: dict[str, Any] = {"max_sse_event_size": MAX_EVENT_BYTES} if _HAS_LIMIT else {}
"""The limit as a keyword, which the first versions of the SDK do not have."""
UNKNOWN_SESSION = 404
"""The HTTP status of a request whose session the server does not know."""
SESSION_HEADER = "mcp-session-id"

ServerAuth: TypeAlias = "Literal['oauth'] | httpx2.Auth | None"
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
        is_legacy: Set for a program that is not asked for its era: servers of old SDKs end at such a request.
    """

    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    is_legacy: bool = False

    def __str__(self) -> str:
        return " ".join(self.words)

    @asynccontextmanager
    async def connect(self, transport: "Transport") -> AsyncGenerator[Streams, None]:
        """Start the program; yield the streams of its messages."""
        parameters = StdioServerParameters(
            command=self.words[0],
            args=[*self.words[1:]],
            env=dict(self.env),
            cwd=self.cwd,
            encoding_error_handler="replace",  # after one byte that is not UTF-8 the SDK reads no further message
        )
        is_windows = sys.platform == "win32"
        with open(os.devnull, "w", encoding="utf-8") if is_windows else _StderrPipe(transport) as errlog:
            async with stdio_client(parameters, errlog) as (received, sent):
                yield _WatchedStream(received, transport.end), sent


@dataclass(frozen=True, slots=True)
class Address:
    """A server that is reached by HTTP; `headers` go with each request, `auth` is "oauth" or adds more.

    `is_legacy` is set for the transport of 2024-11-05, HTTP with SSE; otherwise it is streamable HTTP.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: ServerAuth = field(default=None, repr=False)
    is_legacy: bool = False

    def __str__(self) -> str:
        return self.url

    @asynccontextmanager
    async def connect(self, transport: "Transport") -> AsyncGenerator[Streams, None]:
        """Open an HTTP client; yield the streams of the messages."""

        async def note(response: httpx2.Response) -> None:
            transport.status = response.status_code
            has_session = response.request.method == "POST" and SESSION_HEADER in response.request.headers
            if response.status_code == UNKNOWN_SESSION and has_session:
                transport.end()  # a new session is needed.  Source: the protocol's page about transports

        auth = StoredLogin(self.url).make_auth() if self.auth == "oauth" else self.auth

        def make_client(*_: Any, **__: Any) -> httpx2.AsyncClient:
            hooks = {"response": [note]}
            return httpx2.AsyncClient(headers=dict(self.headers), timeout=HTTP_TIMEOUT, auth=auth, event_hooks=hooks)

        if self.is_legacy:
            async with sse_client(self.url, httpx_client_factory=make_client) as (received, sent):
                yield _WatchedStream(received, transport.end), sent
            return
        async with (
            make_client() as client,
            streamable_http_client(self.url, http_client=client, **_EVENT_LIMIT) as (received, sent),
        ):
            yield received, sent


Endpoint: TypeAlias = Command | Address


class Transport:
    """What is known of a transport: whether it has ended, the last HTTP status, the last errors of the program."""

    def __init__(self) -> None:
        self.has_ended = False
        self.status = 0
        self.stderr = b""
        """The end of the program's error output."""

    def end(self) -> None:
        """Note that no further message will arrive."""
        self.has_ended = True

    @property
    def errors(self) -> str:
        """The end of the program's error output, as text."""
        return self.stderr.decode(errors="replace").strip()


class _WatchedStream:
    """A stream of received messages that reports its end."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end

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
            self._transport.stderr = (self._transport.stderr + data)[-MAX_STDERR_CHARS:]
            if not data:
                self._loop.remove_reader(self._reader)


_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+|/)(?::-([^}]*))?\}")
_INPUT = re.compile(r"\$\{input:[^}]+\}")
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[\]}])')
_RUNNERS = frozenset({"uvx", "npx", "uv", "node", "python", "python3", "docker", "bunx", "deno", "pipx", "run"})
"""Words of a command that do not name the server."""
_KEYWORDS = ("env", "cwd", "url", "headers", "auth", "prefix", "trust", "effects", "tools", "timeout")
_ADDRESSES = ("url", "serverUrl", "httpUrl")
_OFFERED = ("tools", "enabledTools", "includeTools")
_LEFT_OUT = ("disabledTools", "excludeTools")
_OTHERS = ("command", "args", "envFile", "disabled", "enabled", "type", "transport")
_KEYS = tuple(dict.fromkeys((*_KEYWORDS, *_ADDRESSES, *_OFFERED, *_LEFT_OUT, *_OTHERS)))
"""The keys of an entry, with those of other programs that mean the same."""
_TRANSPORTS = ("stdio", "local", "http", "sse", "streamable-http", "streamable_http", "streamableHttp")


def make_endpoint(
    command: str | Sequence[str] | None,
    url: str | None,
    headers: Mapping[str, str] | None,
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
    auth: ServerAuth = None,
) -> Endpoint:
    """Return where a server is; raise `DefinitionError` unless there is one command or one address."""
    if (command is None) == (url is None):
        raise DefinitionError(
            'MCPServer: give a command, MCPServer("uvx mcp-server-time"), or an address, MCPServer(url="https://...").'
        )
    if url is not None:
        if env or cwd:
            raise DefinitionError("MCPServer: env and cwd are for a command, not for a server at a URL.")
        if urlsplit(url).scheme not in ("http", "https"):
            raise DefinitionError(f"MCPServer: url must begin with http:// or https://, got {url!r:.80}.")
        if auth not in (None, "oauth") and not isinstance(auth, httpx2.Auth):
            shown = f"{auth!r:.40}" if isinstance(auth, str) else type(auth).__name__
            raise DefinitionError(f"MCPServer: auth must be 'oauth' or an httpx2.Auth, got {shown}.")
        return Address(url, _check_texts("headers", headers), auth)
    if headers or auth:
        name = "headers are" if headers else "auth is"
        raise DefinitionError(f"MCPServer: {name} for a server at a URL. For a command, use env.")
    words = tuple(shlex.split(command) if isinstance(command, str) else map(str, command or ()))
    if not words or not words[0].strip():
        raise DefinitionError('MCPServer: the command is empty. Write MCPServer("uvx mcp-server-time").')
    if len(words) == 1 and words[0].startswith(("http://", "https://")):
        raise DefinitionError(f"MCPServer: {words[0]!r:.80} is an address. Write MCPServer(url=...).")
    return Command(words, _check_texts("env", env), None if cwd is None else os.fspath(cwd))


def check_settings(name: str, trust: Any, effects: Any, tools: Any, timeout: Any) -> None:
    """Raise `DefinitionError` for a setting of a server that is not valid."""
    if trust not in get_args(Trust):
        raise DefinitionError(f"MCPServer {name!r}: trust must be 'trusted' or 'untrusted', got {trust!r:.80}")
    if isinstance(tools, str) or not isinstance(tools, Sequence) or not all(isinstance(one, str) for one in tools):
        raise DefinitionError(f"MCPServer {name!r}: tools must be a list of name patterns, got {tools!r:.80}")
    if not isinstance(effects, Mapping):
        raise DefinitionError(f"MCPServer {name!r}: effects must be a dict of name patterns, got {effects!r:.80}")
    for pattern, effect in effects.items():
        if effect not in get_args(ToolEffect):
            known = ", ".join(map(repr, get_args(ToolEffect)))
            raise DefinitionError(
                f"MCPServer {name!r}: effects[{pattern!r}] must be one of {known}, got {effect!r:.80}"
            )
    if timeout is None or timeout == "agent":
        raise DefinitionError(f"MCPServer {name!r}: timeout must be a number of seconds above 0, got {timeout!r}")
    check_timeout(timeout, f"MCPServer {name!r}: timeout")


def derive_server_name(endpoint: Endpoint) -> str:
    """Return a name for a server: the host of its address, or the word of the command that names it."""
    if isinstance(endpoint, Address):
        return urlsplit(endpoint.url).hostname or "server"
    words = [word for word in endpoint.words if Path(word).name not in _RUNNERS and not word.startswith("-")]
    word = (words or endpoint.words)[0]
    return Path(word).stem if Path(word).suffix in (".py", ".js", ".mjs") else word.rsplit("/", 1)[-1].split("@")[0]


def read_config(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yield the keywords of `MCPServer` for each server of a file.

    Raises:
        DefinitionError: The file cannot be read, or an entry is not valid.
    """
    place = os.fspath(path)
    data = read_json(path)
    servers = data.get("mcpServers", data.get("servers", data)) if isinstance(data, dict) else None
    if not isinstance(servers, dict) or (servers is data and not (data and all(map(_is_entry, data.values())))):
        raise DefinitionError(f'{place}: expected {{"mcpServers": {{"name": {{"command": "...", "args": [...]}}}}}}.')
    workspace = Path(path).resolve().parent
    if workspace.name.startswith("."):  # .vscode, .cursor
        workspace = workspace.parent
    folders = {
        "workspaceFolder": str(workspace),
        "workspaceFolderBasename": workspace.name,
        "userHome": str(Path.home()),
        "pathSeparator": os.sep,
        "/": os.sep,
    }
    for name, entry in servers.items():
        if not isinstance(entry, dict):
            raise DefinitionError(f"{place}: {name!r} must be an object, got {entry!r:.80}.")
        if not entry.get("disabled") and entry.get("enabled", True):
            yield _to_keywords(name, entry, f"{place}: {name!r}", folders)


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and not value.keys().isdisjoint(("command", *_ADDRESSES))


def read_json(path: str | os.PathLike[str], remedy: str = "") -> Any:
    """Return the data in a file of JSON, which may have comments and last commas as editors write them.

    Raises:
        DefinitionError: The file is no JSON; `remedy` stands at the end.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        try:
            return json.loads(text)
        except ValueError:
            with suppress(ValueError):
                return json.loads(_LAST_COMMA.sub(r"\1", _COMMENT.sub(r"\1", text)))
            raise
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DefinitionError(f"{os.fspath(path)}: cannot be read as JSON: {reason}. {remedy}".rstrip()) from error


def _to_keywords(name: str, entry: dict[str, Any], place: str, folders: Mapping[str, str]) -> dict[str, Any]:
    for key in sorted(key for key in entry.keys() - set(_KEYS) if entry[key]):
        hint = suggest(key, _KEYS) or f"Keys: {', '.join(sorted(_KEYS))}."
        warnings.warn(f"{place}: the key {key!r} is ignored. {hint}", stacklevel=2)
    transport = entry.get("type", entry.get("transport", "stdio"))
    if transport not in _TRANSPORTS:
        raise DefinitionError(
            f"{place}: the transport {transport!r:.40} is not supported. Use a command, or the URL of streamable HTTP."
        )
    if isinstance(entry.get("trust"), bool):  # of a program in which it means that no call is asked about
        warnings.warn(f"{place}: the value of 'trust' is ignored. Write 'trusted' or 'untrusted'.", stacklevel=2)
        entry = {key: value for key, value in entry.items() if key != "trust"}
    known = {**os.environ, **folders}
    env = _read_env(entry, place, known)
    known |= {key: text for key, text in env.items() if isinstance(text, str)} if isinstance(env, dict) else {}
    rest = {key: value for key, value in entry.items() if key not in ("env", "envFile")}
    given = {**_expand(rest, place, known), "env": env}
    arguments = given.get("args", [])
    if not isinstance(arguments, list) or not isinstance(given.get("command", ""), str):
        raise DefinitionError(f"{place}: command must be a text and args a list of texts.")
    command = [given["command"], *map(str, arguments)] if "command" in given else None
    url = next((given[key] for key in _ADDRESSES if key in given), None)
    tools = next((given[key] for key in _OFFERED if key in given), ["*"])
    left_out = next((given[key] for key in _LEFT_OUT if key in given), None)
    if isinstance(left_out, list) and isinstance(tools, list):
        tools = [*tools, *(f"!{pattern}" for pattern in left_out)]
    keywords = {key: given[key] for key in _KEYWORDS if key in given}
    return {**keywords, "name": name, "command": command, "url": url, "tools": tools}


def _read_env(entry: Mapping[str, Any], place: str, known: Mapping[str, str]) -> Any:
    """Return the variables in `envFile` and in `env`, which overrules the file, and may have numbers and null."""
    env = _expand(entry.get("env"), place, known)
    if isinstance(env, dict):
        texts = {key: str(value) if type(value) in (int, float) else value for key, value in env.items()}
        env = {key: text for key, text in texts.items() if text is not None}
    file = _expand(entry.get("envFile"), place, known)
    if not file:
        return env
    try:
        text = (Path(known["workspaceFolder"]) / file).read_text(encoding="utf-8-sig")
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DefinitionError(f"{place}: envFile {file!r:.200} cannot be read: {reason}.") from error
    variables = dotenv_values(stream=StringIO(text), interpolate=False)
    return {**{key: value for key, value in variables.items() if value is not None}, **(env or {})}


def _expand(value: Any, place: str, known: Mapping[str, str]) -> Any:
    """Return JSON data with the variables that are known in the place of `${NAME}` and `${NAME:-default}`."""

    def find(match: re.Match[str]) -> str:
        name, default = match.groups()
        found = known.get(name, default)
        if found is None:
            raise DefinitionError(
                f"{place}: the environment variable {name!r} is not set. Set it, or write ${{{name}:-default}}."
            )
        return found

    if isinstance(value, str):
        if asked := _INPUT.search(value):
            raise DefinitionError(
                f"{place}: {asked[0]} is asked by an editor. Write an environment variable, ${{NAME}}."
            )
        return _VARIABLE.sub(find, value)
    if isinstance(value, dict):
        return {key: _expand(entry, place, known) for key, entry in value.items()}
    return [_expand(entry, place, known) for entry in value] if isinstance(value, list) else value


def _check_texts(what: str, given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for pair in given.items() for text in pair):
        raise DefinitionError(f"MCPServer: {what} must be a dict of texts.")
    return dict(given)
