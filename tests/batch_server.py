"""A provider of batches on the loopback: /v1/files and /v1/batches as OpenAI documents them, and a model behind them.

"The batch input file is a .jsonl file where each line contains the details of an individual request.  Each request must
include a unique custom_id."  Results of requests that succeeded are in the output file, all others in the error file.
"""

import email.parser
import email.policy
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, dict[str, Any]]


def reply_of(body: dict[str, Any], content: str | None, *calls: tuple[str, str, dict[str, Any]]) -> Answer:
    """A reply with calls (id, name, arguments)."""
    made = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for key, name, arguments in calls
    ]
    message = {"role": "assistant", "content": content, **({"tool_calls": made} if made else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if made else "stop", "logprobs": None}
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    return 200, {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [choice],
        "usage": usage,
    }


def look_twice(body: dict[str, Any]) -> Answer:
    """Call `look` twice, then answer with the query and what was found."""
    messages = body["messages"]
    results = [message["content"] for message in messages if message["role"] == "tool"]
    query = next(message["content"] for message in messages if message["role"] == "user")
    if len(results) < 2:
        return reply_of(body, None, (f"c{len(results)}", "look", {"place": f"{query} {len(results)}"}))
    return reply_of(body, None, ("end", "final_answer", {"text": f"{query}: {', '.join(results)}"}))


class BatchServer:
    """The files and the batches of an account.

    Attributes:
        answer: What the model replies to a body, with the status.
        polls: How often a batch is asked for until it has ended.
        fates: What becomes of the first lines with a custom id, in order: "expired", or a status; by query.
        faults: For paths ("POST /v1/batches"), what is done to the next requests: "drop before", "drop after" or a status.
        lines: All lines that were submitted, in order; None to keep no lines.
        steps: How often each request was submitted: by its query and the number of results that it has.
        file_states: The states of files before they are processed.
        ends: What becomes of the next batches: "failed", "cancelled", or "" for those that are done.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Answer] = look_twice, polls: int = 2) -> None:
        self.answer = answer
        self.polls = polls
        self.fates: dict[str, list[Any]] = {}
        self.faults: dict[str, list[Any]] = {}
        self.files: dict[str, bytes] = {}
        self.file_states: list[str] = []
        self.ends: list[str] = []
        self.batches: dict[str, dict[str, Any]] = {}
        self.lines: list[dict[str, Any]] | None = []
        self.steps: Counter[tuple[str, int]] = Counter()
        self.requests: Counter[str] = Counter()
        self.live = 0
        self.lock = threading.RLock()
        self.asked: Callable[[str], None] = lambda _: None

    def take_fault(self, what: str) -> Any:
        """Return what is done to a request, if anything."""
        faults = self.faults.get(what)
        return faults.pop(0) if faults else None

    def route(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Any:
        """Return the answer to a request: bytes, or an object."""
        match method, path.strip("/").split("/")[1:]:
            case "POST", ["files"]:
                head = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode()
                form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
                fields = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
                assert fields["purpose"].get_content().strip() == "batch"
                return self.create_file(fields["file"].get_payload(decode=True))
            case "GET", ["files", name]:
                return self.file_of(name)
            case "GET", ["files", name, "content"]:
                return self.files[name]
            case "POST", ["batches"]:
                return self.create_batch(json.loads(body))
            case "GET", ["batches"]:
                return self.list_batches(query.get("after"), int(query.get("limit", "20")))
            case "GET", ["batches", name]:
                return self.poll(name)
            case "POST", ["chat", "completions"]:
                self.live += 1
                return self.answer(json.loads(body))[1]
        raise AssertionError(f"{method} {path}")

    def create_file(self, content: bytes) -> dict[str, Any]:
        with self.lock:
            name = f"file-{len(self.files)}"
            self.files[name] = content
            return self.file_of(name)

    def file_of(self, name: str) -> dict[str, Any]:
        """Return a file without its content; its states before the last one are used up."""
        return {
            "id": name,
            "object": "file",
            "bytes": len(self.files[name]),
            "created_at": 1,
            "filename": "lines.jsonl",
            "purpose": "batch",
            "status": self.file_states.pop(0) if self.file_states else "processed",
        }

    def create_batch(self, wanted: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            assert wanted["completion_window"] == "24h"
            assert all(isinstance(value, str) for value in (wanted.get("metadata") or {}).values())
            lines = [json.loads(line) for line in self.files[wanted["input_file_id"]].splitlines()]
            assert len({line["custom_id"] for line in lines}) == len(lines), "custom ids are unique"
            assert {line["url"] for line in lines} == {wanted["endpoint"]}
            assert {line["method"] for line in lines} == {"POST"}
            assert len({line["body"]["model"] for line in lines}) == 1
            if self.lines is not None:
                self.lines += lines
            for line in lines:
                messages = line["body"]["messages"]
                query = next(message["content"] for message in messages if message["role"] == "user")
                self.steps[query, sum(message["role"] == "tool" for message in messages)] += 1
            name = f"batch_{len(self.batches)}"
            self.batches[name] = {
                "id": name,
                "object": "batch",
                "endpoint": wanted["endpoint"],
                "errors": None,
                "input_file_id": wanted["input_file_id"],
                "completion_window": "24h",
                "status": "validating",
                "output_file_id": None,
                "error_file_id": None,
                "created_at": len(self.batches),
                "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
                "metadata": wanted.get("metadata"),
            }
            return self.batches[name]

    def poll(self, name: str) -> dict[str, Any]:
        with self.lock:
            batch = self.batches[name]
            self.requests[name] += 1
            if batch["status"] in ("validating", "in_progress"):
                batch["status"] = "in_progress"
                if self.requests[name] >= self.polls:
                    self._end(batch)
            return batch

    def _end(self, batch: dict[str, Any]) -> None:
        if end := self.ends.pop(0) if self.ends else "":
            error = {"code": "token_limit_exceeded", "message": "The enqueued token limit is reached.", "line": None}
            batch |= {"status": end, "errors": {"object": "list", "data": [{**error, "param": None}]}}
            return
        output = []
        errors = []
        for line in map(json.loads, self.files[batch["input_file_id"]].splitlines()):
            row = {"id": f"req_{line['custom_id']}", "custom_id": line["custom_id"], "response": None, "error": None}
            query = next((m["content"] for m in line["body"]["messages"] if m["role"] == "user"), "")
            fates = self.fates.get(query, [])
            fate = fates.pop(0) if fates else None
            if fate == "expired":
                batch["status"] = "expired"
                row["error"] = {"code": "batch_expired", "message": "This request could not be executed in time."}
            elif fate == "lost":
                continue
            else:
                status, body = self.answer(line["body"]) if fate is None else (fate, {"error": {"message": "no"}})
                row["response"] = {"status_code": status, "request_id": "r", "body": body}
            (output if row["response"] and row["response"]["status_code"] == 200 else errors).append(row)
        if batch["status"] != "expired":
            batch["status"] = "completed"
        batch["request_counts"] |= {"completed": len(output), "failed": len(errors)}
        if self.lines is None:
            self.files[batch["input_file_id"]] = b""
        for key, rows in (("output_file_id", output), ("error_file_id", errors)):
            if rows:
                batch[key] = self.create_file("\n".join(map(json.dumps, rows)).encode())["id"]

    def list_batches(self, after: str | None, limit: int) -> dict[str, Any]:
        newest = list(reversed(self.batches.values()))
        start = 1 + [batch["id"] for batch in newest].index(after) if after else 0
        return {
            "object": "list",
            "data": newest[start : start + limit],
            "has_more": len(newest) > start + limit,
            "first_id": None,
            "last_id": None,
        }


@contextmanager
def serving(server: BatchServer) -> Iterator[str]:
    """Serve on a free port; yields the address for `api_base`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None: ...

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            url = urlsplit(self.path)
            what = f"{self.command} /{'/'.join(url.path.strip('/').split('/')[:2])}"
            server.asked(what)
            fault = server.take_fault(what)
            if fault == "drop before":
                self.close_connection = True
                return
            if isinstance(fault, int):
                self._send(fault, {"error": {"message": "a fault", "type": "server_error", "code": None}})
                return
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            found = server.route(self.command, url.path, query, self.headers, body)
            if fault == "drop after":
                self.close_connection = True
                return
            if isinstance(found, bytes):
                self._send_bytes(200, found, "application/octet-stream")
            else:
                self._send(200, found)

        def _send(self, status: int, data: Any) -> None:
            self._send_bytes(status, json.dumps(data).encode(), "application/json")

        def _send_bytes(self, status: int, data: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Clients may be killed."""

    with Server(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/v1"
        finally:
            http.shutdown()
