"""`ModelServer`: a model provider on the loopback, for tests of everything between a program and the wire.

with ModelServer("hello") as server:
    model = LiteLLMModel("openai/gpt-4o-mini", api_base=server.api_base("openai"), api_key="test-key")

It validates requests as strictly as the providers do: a request that passes here passes there.

A scripted reply is a text, the status of an error, a dict, or a function of the request's body that returns one.

The keys of a dict, all optional: `content`, `tool_calls` (each with `name`, and `id` and `arguments`: an object, or
text that is sent unchanged), `finish_reason` in the provider's own form, `usage` (`input_tokens`, `output_tokens`,
`cached_tokens`), and the keys that the files of `wires/` document. The value `...` omits a key of the provider's
format, for example a call's `id`. A dict may also have the keys of a fault:

- `status` (with `message`, `code`, `headers`): an HTTP error;
- `body` (text, bytes or JSON, with `headers`): sent unchanged;
- `error`: an error with this text in a reply of status 200, halfway in a stream;
- `reset`: True closes the connection without a reply, "halfway" after half;
- `cut`: True ends a stream, or a body, halfway;
- `delay`, `pace`, `stall`: seconds of silence before the reply, between the pieces of a stream, halfway;
- `wait`: a `threading.Event` to wait for before the reply;
- `after`: the number of pieces of a stream before `error`, `reset`, `cut` or `stall`; default: half of them.

The files and batches of OpenAI are served too. Each line of a batch gets the next reply; of the faults, `status` makes
a line that failed, and `reset` one that expired.
"""

import email.parser
import email.policy
import json
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import zip_longest
from typing import Any, TypeAlias

from ..core.values import frozen
from .rules import anthropic, gemini, openai, responses
from .rules.invalid import Invalid, Json, parse_body
from .wires import Wire, drop_missing, find_wire

__all__ = ["Invalid", "RequestChecker", "parse_body"]

_RULES = {
    "openai": (openai.check, openai.remember),
    "groq": (openai.check_groq, openai.remember),
    "responses": (responses.check, responses.remember),
    "anthropic": (anthropic.check, anthropic.remember),
    "gemini": (gemini.check, gemini.remember),
}
"""For each wire format: what checks a request, and what stores the parts of a reply."""


class RequestChecker:
    """Validate the requests to one server by the rules of each request's wire format.

    Thinking blocks, reasoning items and signatures of replies are stored, because they must come back unchanged.
    """

    def __init__(self) -> None:
        self._issued: Json = {}

    def check(self, wire: str, body: Json) -> None:
        """Raise `Invalid` if the provider would refuse the request."""
        try:
            if wire in _RULES:
                _RULES[wire][0](body, self._issued)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise Invalid(f"The request does not have the documented form: {type(error).__name__}: {error}") from error

    def remember(self, wire: str, reply: Json) -> None:
        """Store the parts of a whole reply, in the provider's format, that must come back."""
        if wire in _RULES:
            _RULES[wire][1](reply, self._issued)


ScriptedReply: TypeAlias = str | int | Json | Callable[[Json], Any]


def flatten_replies(replies: Iterable[ScriptedReply | Sequence[ScriptedReply]]) -> Iterator[ScriptedReply]:
    """Yield the replies one by one, including the members of lists."""
    for reply in replies:
        if isinstance(reply, Sequence) and not isinstance(reply, str):
            yield from reply
        else:
            yield reply


def to_dict(reply: str | int | Json) -> Json:
    """Return the reply as a dict."""
    if isinstance(reply, str):
        return {"content": reply}
    return {"status": reply} if isinstance(reply, int) else reply


_BASES = {"openai": "/v1", "groq": "/openai/v1"}
_MAX_WAIT_SECONDS = 60.0


@frozen
class RecordedRequest:
    """A received request: its path with the query, its headers in lower case, its JSON body (None if invalid)."""

    path: str
    headers: dict[str, str]
    body: Any


class _Batches:
    """Files and batches as OpenAI documents them; a batch has its results when it is created."""

    def __init__(self, server: "ModelServer") -> None:
        self._server = server
        self._files: dict[str, bytes] = {}
        self._batches: dict[str, Json] = {}

    def answer(self, method: str, path: str, headers: dict[str, str], data: bytes) -> Json | bytes | None:
        """Return the answer to a request, None for an unknown path or name."""
        match method, path.partition("?")[0].removeprefix("/v1/").split("/"):
            case "POST", ["files"]:
                head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
                form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + data)
                parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
                content = parts["file"].get_payload(decode=True)
                return self._keep(content if isinstance(content, bytes) else b"")
            case "GET", ["files", name, "content"]:
                return self._files.get(name)
            case "POST", ["batches"]:
                return self._create(json.loads(data), headers)
            case "GET", ["batches"]:
                return {"object": "list", "data": [*reversed(self._batches.values())], "has_more": False}
            case "GET", ["batches", name]:
                return self._batches.get(name)
        return None

    def _keep(self, content: bytes) -> Json:
        name = f"file-{len(self._files) + 1}"
        self._files[name] = content
        known = {"id": name, "object": "file", "bytes": len(content), "created_at": 1, "filename": "lines.jsonl"}
        return {**known, "purpose": "batch", "status": "processed"}

    def _create(self, wanted: Json, headers: dict[str, str]) -> Json:
        lines = [json.loads(line) for line in self._files[wanted["input_file_id"]].splitlines()]
        rows = [self._answer_line(line, headers) for line in lines]
        is_done = [bool(row["response"]) and row["response"]["status_code"] == 200 for row in rows]
        name = f"batch_{len(self._batches) + 1}"
        batch: Json = {
            "id": name,
            "object": "batch",
            "created_at": 1,
            "status": "completed",
            **{key: wanted.get(key) for key in ("endpoint", "input_file_id", "completion_window", "metadata")},
            "request_counts": {"total": len(rows), "completed": sum(is_done), "failed": len(rows) - sum(is_done)},
        }
        for key, wants_done in (("output_file_id", True), ("error_file_id", False)):
            some = [row for row, done in zip(rows, is_done, strict=True) if done is wants_done]
            batch[key] = self._keep("\n".join(map(json.dumps, some)).encode())["id"] if some else None
        self._batches[name] = batch
        return batch

    def _answer_line(self, line: Json, headers: dict[str, str]) -> Json:
        row = {"id": f"req_{line['custom_id']}", "custom_id": line["custom_id"], "response": None, "error": None}
        wire = find_wire(line["url"])
        if wire is None:
            return {**row, "error": {"code": "invalid_url", "message": f"no provider has the path {line['url']}"}}
        request, reply = self._server.accept(line["url"], headers, json.dumps(line["body"]).encode(), wire)
        if reply.get("reset"):
            return {**row, "error": {"code": "batch_expired", "message": "The batch expired before this request."}}
        status = reply.get("status", 200)
        if status == 200:
            body = self._server.build_reply(reply, request, wire)
        else:
            body = wire.build_error(status, {"message": "scripted error", **reply})
        return {**row, "response": {"status_code": status, "request_id": row["id"], "body": body}}


class ModelServer:
    """A server that plays scripted replies in the format of the provider that the request's path belongs to.

    It implements OpenAI (Chat Completions, Responses, batches), Groq, Anthropic, Gemini and Ollama, streamed and not.
    Each request gets the next reply, which may be a fault (listed in `agentkit.testing.server`):
    `ModelServer(503, {"reset": True}, {"content": "hi", "cut": True})`. After the last reply the response is an error
    400. It is a context manager; its threads are daemons.

    Args:
        replies: The replies in order, or one list of them.
        strict: Refuse with status 400, and with the provider's message, what the provider would refuse: a call
            without a result, a duplicate id, changed thinking, an unknown key. Such a request uses up no reply.
        opens_after: Seconds for which connections are refused at first.

    Attributes:
        requests: The received requests.
        violations: The reasons of the refused requests.
        hung_up: The number of clients that disconnected before the end of their reply.
    """

    def __init__(
        self, *replies: ScriptedReply | Sequence[ScriptedReply], strict: bool = True, opens_after: float = 0.0
    ) -> None:
        self.requests: list[RecordedRequest] = []
        self.violations: list[str] = []
        self.hung_up = 0
        self.closing = threading.Event()
        self._replies = flatten_replies(replies)
        self._checker = RequestChecker() if strict else None
        self._lock = threading.Lock()
        self._opens_after = opens_after
        self.batches = _Batches(self)
        self._http = _Server(("127.0.0.1", 0), _Handler, bind_and_activate=False)
        self._http.model_server = self
        self._http.server_bind()
        if not opens_after:
            self._http.server_activate()

    @property
    def url(self) -> str:
        """The address, without a trailing slash."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def api_base(self, provider: str) -> str:
        """Return litellm's `api_base` for a provider ("openai", "groq", "anthropic", "gemini", ...)."""
        return self.url + _BASES.get(provider, "")

    def play(self, *replies: ScriptedReply | Sequence[ScriptedReply]) -> None:
        """Replace the remaining replies."""
        with self._lock:
            self._replies = flatten_replies(replies)

    def __enter__(self) -> "ModelServer":
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()

    def _serve(self) -> None:
        if self._opens_after:
            self.closing.wait(self._opens_after)
            self._http.server_activate()
        self._http.serve_forever(0.01)

    def accept(self, path: str, headers: dict[str, str], data: bytes, wire: Wire) -> tuple[RecordedRequest, Json]:
        """Record a request; return it and its reply as a dict: the next one of the script, or a refusal."""
        body: Any = None
        refusal: Invalid | None = None
        try:
            body = parse_body(data or b"{}")
            if self._checker is not None:
                self._checker.check(wire.name, body)
        except Invalid as invalid:
            refusal = invalid
        request = RecordedRequest(path, headers, body)
        with self._lock:
            _share_messages(request, self.requests[-1:])
            self.requests.append(request)
            number = len(self.requests)
            if refusal is None:
                reply = next(self._replies, {"status": 400, "message": f"no reply is left for request {number}"})
            else:
                self.violations.append(f"request {number}: {refusal}")
                reply = {"status": 400, "message": str(refusal), "param": refusal.place or None}
        if callable(reply):
            reply = reply(body)
        return request, {"turn": number, "request": body, **to_dict(reply)}

    def build_reply(self, reply: Json, request: RecordedRequest, wire: Wire) -> Json:
        """Return the reply in the provider's format, and store the parts that must come back unchanged."""
        whole: Json = drop_missing(wire.build_reply(reply, _find_model_name(request)))
        if self._checker is not None:
            self._checker.remember(wire.name, whole)
        return whole


def _share_messages(request: RecordedRequest, before: list[RecordedRequest]) -> None:
    """Share equal messages with the previous request, because each request repeats the whole conversation."""
    for earlier in before:
        for key in ("messages", "contents", "input", "tools"):
            old, new = ((one.body or {}).get(key) for one in (earlier, request))
            if isinstance(old, list) and isinstance(new, list):
                new[:] = [one if _is_same(one, other) else other for one, other in zip_longest(old[: len(new)], new)]


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON: for Python 1 is true, and the order of keys does not count."""
    return bool(one == other) and repr(one) == repr(other)


def _find_model_name(request: RecordedRequest) -> str:
    """Return the request's model: from its body or, for Gemini, from its path."""
    return str(request.body.get("model") or request.path.rpartition("/")[2].partition(":")[0])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model_server: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Count a client that disconnected; show any other error, which is a defect of this file."""
        if isinstance(sys.exception(), ConnectionError):
            self.model_server.hung_up += 1
        else:
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._answer_batches(self.server.model_server, {}, b"")

    def _answer_batches(self, server: ModelServer, headers: dict[str, str], data: bytes) -> bool:
        """Answer a request about files or batches; return whether it is one."""
        found = server.batches.answer(self.command, self.path, headers, data)
        if found is None and self.command == "POST":
            return False
        unknown = {"error": {"message": f"there is no {self.path}"}}
        self._send(404 if found is None else 200, unknown if found is None else found, {})
        return True

    def do_POST(self) -> None:
        server = self.server.model_server
        data = self._read_body()
        headers = {key.lower(): value for key, value in self.headers.items()}
        wire = find_wire(self.path.partition("?")[0])
        if wire is None:
            if not self._answer_batches(server, headers, data):
                server.requests.append(RecordedRequest(self.path, headers, None))
                self._send(404, {"error": {"message": f"no provider has the path {self.path}"}}, {})
            return
        request, reply = server.accept(self.path, headers, data, wire)
        if "wait" in reply:
            reply["wait"].wait(_MAX_WAIT_SECONDS)
        self._wait(reply.get("delay", 0))
        if reply.get("reset") is True:
            self._reset()
        elif "body" in reply or "status" in reply:
            status = reply.get("status", 200)
            error = wire.build_error(status, {"message": "scripted error", **reply})
            self._send(status, reply.get("body", error), reply)
        else:
            self._send_reply(reply, request, wire)

    def _send_reply(self, reply: Json, request: RecordedRequest, wire: Wire) -> None:
        whole = self.server.model_server.build_reply(reply, request, wire)
        if request.body.get("stream", "stream" in self.path.partition(":")[2]) is True:
            pieces = list(wire.build_pieces(reply, _find_model_name(request)))
            self._begin(200, {"Content-Type": wire.content_type, "Transfer-Encoding": "chunked"})
            if "error" in reply:
                pieces[_fault_position(pieces, reply) :] = [wire.build_stream_error({"message": reply["error"]})]
                reply = {}
            frames = [b"%x\r\n%b\r\n" % (len(data), data) for data in map(str.encode, pieces)]
            self._write(frames, reply, end=b"0\r\n\r\n")
        elif "error" in reply:
            self._send(200, wire.build_error(500, {"message": reply["error"]}), reply)
        else:
            self._send(200, whole, reply)

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return b"".join(self._read_chunks())

    def _read_chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send(self, status: int, body: Any, reply: Json) -> None:
        data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        headers = {"Content-Type": "application/json", "Content-Length": len(data), **reply.get("headers", {})}
        self._begin(status, headers)
        self._write([data[: len(data) // 2], data[len(data) // 2 :]], reply)

    def _begin(self, status: int, headers: Json) -> None:
        """Status and headers; one request per connection, so that no client keeps a socket open after a test."""
        self.send_response(status)
        for name, value in {**headers, "Connection": "close"}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.close_connection = True

    def _write(self, frames: list[bytes], reply: Json, *, end: bytes = b"") -> None:
        """Send a body piece by piece with the reply's fault in the middle; `end` terminates a complete body."""
        halfway = _fault_position(frames, reply)
        for number, frame in enumerate(frames):
            if number == halfway:
                self._wait(reply.get("stall", 0))
                if reply.get("reset"):
                    self._reset()
                    return
                if reply.get("cut"):
                    break
            self._wait(reply.get("pace", 0))
            self.wfile.write(frame)
        self.wfile.write(end)

    def _wait(self, seconds: float) -> None:
        """Wait, at most until the server closes."""
        self.server.model_server.closing.wait(seconds)

    def _reset(self) -> None:
        """Close at once, which the client sees as "connection reset by peer"."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


def _fault_position(pieces: list[Any], reply: Json) -> int:
    """Return the number of pieces before a fault."""
    return int(reply.get("after", len(pieces) // 2))
