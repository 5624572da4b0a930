"""Ollama's "Generate a chat completion"."""

import json
from collections.abc import Iterator
from typing import Any

from .reply import Json, Wire, bare, calls_in, finish_of, object_of, tokens_of, words


def _frame(message: Json, model: str, reply: Json, finish: Any = ...) -> Json:
    head = {"model": model, "created_at": "2024-01-01T00:00:00Z", "message": {"role": "assistant", **message}}
    tokens_in, tokens_out, _ = tokens_of(reply)
    counts = {"done_reason": finish, "prompt_eval_count": tokens_in, "eval_count": tokens_out}
    frame: Json = bare({**head, "done": finish is not ..., **({} if finish is ... else counts)})
    return frame


def _calls(reply: Json) -> list[Json]:
    return [{"function": {"name": c["name"], "arguments": object_of(c["arguments"])}} for c in calls_in(reply)]


def _whole(reply: Json, model: str) -> Json:
    message = {"content": reply.get("content") or "", "tool_calls": _calls(reply)}
    return _frame(message, model, reply, finish_of(reply, "stop"))


def _pieces(reply: Json, model: str) -> Iterator[str]:
    for piece in words(reply.get("content") or ""):
        yield _line(_frame({"content": piece}, model, reply))
    for call in _calls(reply):
        yield _line(_frame({"content": "", "tool_calls": [call]}, model, reply))
    yield _line(_frame({"content": ""}, model, reply, finish_of(reply, "stop")))


def _line(data: Json) -> str:
    return json.dumps(data) + "\n"


def _error(_status: int, reply: Json) -> Json:
    return {"error": reply["message"]}


def _broken(reply: Json) -> str:
    return _line(_error(500, reply))


OLLAMA = Wire("ollama", _whole, _pieces, _error, _broken, "application/x-ndjson")
