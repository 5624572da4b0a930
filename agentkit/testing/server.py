"""`ModelServer`: a model provider on this machine, for tests of everything between a program and the wire.

with ModelServer("hello") as server:
    model = LiteLLMModel("openai/gpt-4o-mini", api_base=server.api_base("openai"), api_key="test-key")
"""

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from .wires import Json, Wire, wire_of

ScriptedReply: TypeAlias = str | int | Json
"""What the server does with one request.

A str is a text reply.  A dict is a reply `{"content": ..., "tool_calls": [{"id", "name", "arguments"}]}` (`arguments`
an object or text; every key may be missing; `finish_reason` in the provider's words), or, with "status", an HTTP
error: `{"status": 429, "headers": {"Retry-After": "2"}, "message": "slow down"}`.  An int is an error of that status.
Any dict may hold "delay" (seconds to wait first), "body" (str or bytes to send as they are, with "headers"), "reset"
(true: close the connection without a reply), "cut" (true: end a stream, or a body, halfway) and "pace" (seconds between
the pieces of a stream).
"""

_BASES = {"openai": "/v1", "groq": "/openai/v1"}


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that came: its path (with the query), its headers in lower case, its JSON body."""

    path: str
    headers: dict[str, str]
    body: Any


class ModelServer:
    """Plays scripted replies on the loopback, in the format of whoever is asked: by the request's path.

    OpenAI, Groq, Anthropic, Gemini and Ollama, streamed and not.  Each request takes the next reply; when none is left
    the answer is an error 400.  The replies may stand in one list.  `requests` holds what came, `hung_up` counts the
    clients that did not wait for the end of their reply.  A context manager; its threads are daemons.
    """

    def __init__(self, *replies: ScriptedReply | list[ScriptedReply]) -> None:
        self.requests: list[RecordedRequest] = []
        self.hung_up = 0
        self._replies = _flat(replies)
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.model_server = self

    @property
    def url(self) -> str:
        """The address, without a slash at the end."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def api_base(self, provider: str) -> str:
        """What to pass to litellm as `api_base` for a provider ("openai", "groq", "anthropic", "gemini", ...)."""
        return self.url + _BASES.get(provider, "")

    def __enter__(self) -> "ModelServer":
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def take(self, request: RecordedRequest) -> Json:
        """Record `request` and return the script's next reply, as a dict."""
        with self._lock:
            self.requests.append(request)
            nothing_left = {"status": 400, "message": f"no reply is left for request {len(self.requests)}"}
            reply = next(self._replies, nothing_left)
        if isinstance(reply, str):
            return {"content": reply}
        return {"status": reply} if isinstance(reply, int) else reply


def _flat(replies: Iterable[ScriptedReply | list[ScriptedReply]]) -> Iterator[ScriptedReply]:
    for reply in replies:
        yield from reply if isinstance(reply, list) else [reply]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model_server: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Count a client that hung up; anything else is a mistake of this file and is shown."""
        if isinstance(sys.exception(), ConnectionError):
            self.model_server.hung_up += 1
        else:
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def do_POST(self) -> None:
        body = json.loads(self._received() or b"{}")
        headers = {key.lower(): value for key, value in self.headers.items()}
        reply = self.server.model_server.take(RecordedRequest(self.path, headers, body))
        time.sleep(reply.get("delay", 0))
        if reply.get("reset"):
            self._reset()
            return
        wire = wire_of(self.path.partition("?")[0])
        if wire is None:
            self._send(404, {"error": {"message": f"no provider listens at {self.path}"}}, {})
        elif "body" in reply or "status" in reply:
            self._send_scripted(reply, wire)
        elif body.get("stream", "stream" in self.path.partition(":")[2]) is True:
            self._stream(list(wire.pieces(reply, _model(self.path, body))), wire, reply)
        else:
            self._send(200, wire.whole(reply, _model(self.path, body)), {}, cut=reply.get("cut", False))

    def _received(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return b"".join(self._received_chunks())

    def _received_chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send_scripted(self, reply: Json, wire: Wire) -> None:
        status = reply.get("status", 200)
        body = reply.get("body", wire.error(status, reply.get("message", "scripted error")))
        self._send(status, body, reply.get("headers", {}))

    def _send(self, status: int, body: Any, headers: Json, *, cut: bool = False) -> None:
        data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self._begin(status, {"Content-Type": "application/json", "Content-Length": len(data), **headers})
        self.wfile.write(data[: len(data) // 2] if cut else data)

    def _stream(self, pieces: list[str], wire: Wire, reply: Json) -> None:
        self._begin(200, {"Content-Type": wire.content_type, "Transfer-Encoding": "chunked"})
        for piece in pieces[: len(pieces) // 2] if reply.get("cut") else pieces:
            time.sleep(reply.get("pace", 0))
            data = piece.encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _begin(self, status: int, headers: Json) -> None:
        """Status and headers; one request per connection, so that no client keeps a socket open after a test."""
        self.send_response(status)
        for name, value in {**headers, "Connection": "close"}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.close_connection = True

    def _reset(self) -> None:
        """Closes at once, which the client sees as "connection reset by peer"."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


def _model(path: str, body: Json) -> str:
    """The model that a request names: in its body, or (Gemini) in its path."""
    return str(body.get("model") or path.rpartition("/")[2].partition(":")[0])
