"""A model server for measuring: OpenAI chat completions on loopback, cheap, in a process of its own.

The name of the model says what it does: "turns=20,calls=1,latency=0" calls the tool `add` (`calls` times at once) in
each of 20 turns and then answers, with the tool `final_answer` where that is offered, else in text; "chunks=2000"
streams a text of so many pieces.  `GET /seen` tells the requests and bytes since the last time.
"""

import asyncio
import json
import re

ANSWER = "done"
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
_MODEL = re.compile(rb'"model": ?"(?:openai/)?([^"]*)"')
_ASSISTANT = re.compile(rb'"role": ?"assistant"')
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_FINAL = re.compile(rb'"name": ?"final_answer"')


class ModelServer:
    """Counts what it is asked; one instance serves all connections."""

    def __init__(self) -> None:
        self.requests = self.bytes = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, as long as it lasts."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if head.startswith(b"GET"):
                    seen = json.dumps({"requests": self.requests, "bytes": self.bytes}).encode()
                    self.requests = self.bytes = 0
                    writer.write(_whole(seen))
                else:
                    self.requests += 1
                    self.bytes += len(body)
                    await _answer(body, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def _answer(body: bytes, writer: asyncio.StreamWriter) -> None:
    found = _MODEL.search(body)
    wanted = dict(pair.split("=") for pair in (found[1].decode() if found else "").split(",") if "=" in pair)
    if latency := float(wanted.get("latency", 0)):
        await asyncio.sleep(latency)
    streaming = re.search(rb'"stream": ?true', body)
    message = _message(body, int(wanted.get("turns", 1)), int(wanted.get("calls", 1)))
    if not streaming:
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        reply = {"id": "x", "object": "chat.completion", "created": 1, "model": "bench", "choices": [choice]}
        writer.write(_whole(json.dumps({**reply, "usage": USAGE}).encode()))
        return
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    for delta in _deltas(message, int(wanted.get("chunks", 1))):
        writer.write(_chunk({"delta": delta, "index": 0, "finish_reason": None}))
    reason = "tool_calls" if "tool_calls" in message else "stop"
    writer.write(
        _chunk({"delta": {}, "index": 0, "finish_reason": reason})
        + _chunk(None)
        + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
    )


def _message(body: bytes, turns: int, calls: int) -> dict[str, object]:
    turn = len(_ASSISTANT.findall(body))
    if turn < turns:
        called = [_call(f"c{turn}_{number}", "add", {"a": turn, "b": number}) for number in range(calls)]
        return {"role": "assistant", "content": None, "tool_calls": called}
    if _FINAL.search(body):
        return {"role": "assistant", "content": None, "tool_calls": [_call("end", "final_answer", {"text": ANSWER})]}
    return {"role": "assistant", "content": ANSWER}


def _call(identity: str, name: str, arguments: object) -> dict[str, object]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": identity, "type": "function", "function": function}


def _deltas(message: dict[str, object], chunks: int) -> list[dict[str, object]]:
    if calls := message.get("tool_calls"):
        first = {**message, "tool_calls": [{**call, "index": place} for place, call in enumerate(calls)]}  # type: ignore[arg-type, call-overload]
        if chunks == 1:
            return [first]
        call = {**first["tool_calls"][0], "function": {"name": "final_answer", "arguments": ""}}
        pieces = ['{"text": "', *_words(chunks), '"}']
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            *({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces),
        ]
    return [{"role": "assistant", "content": ""}, *({"content": word} for word in _words(chunks))]


def _words(number: int) -> list[str]:
    return [f"word{place % 1000} " for place in range(number)]  # litellm breaks off where a chunk comes again and again


def _chunk(choice: dict[str, object] | None) -> bytes:
    piece = {
        "id": "x",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "bench",
        "choices": [choice] if choice else [],
    }
    line = b"data: " + json.dumps(piece if choice else {**piece, "usage": USAGE}).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(line), line)


def _whole(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


async def main() -> None:
    """Serve on a free port, which is printed, until the process is ended."""
    server = await asyncio.start_server(ModelServer().serve, "127.0.0.1", 0, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
