"""Ollama's "Generate a chat completion"; the key `thinking` of a scripted reply is the model's thinking."""

import json
from collections.abc import Iterator
from typing import Any

from .reply import Json, Wire, drop_missing, read_scripted_calls, read_tokens, split_words, to_object


def _build_frame(message: Json, model: str, reply: Json, finish: Any = ...) -> Json:
    head = {"model": model, "created_at": "2024-01-01T00:00:00Z", "message": {"role": "assistant", **message}}
    tokens_in, tokens_out, _ = read_tokens(reply)
    counts = {"done_reason": finish, "prompt_eval_count": tokens_in, "eval_count": tokens_out}
    return {**head, "done": finish is not ..., **({} if finish is ... else counts)}


def _build_calls(reply: Json) -> list[Json]:
    return [
        {"function": {"name": c["name"], "arguments": to_object(c["arguments"])}} for c in read_scripted_calls(reply)
    ]


def _build_reply(reply: Json, model: str) -> Json:
    message = {"content": reply.get("content") or "", "tool_calls": _build_calls(reply)}
    if "thinking" in reply:
        message["thinking"] = reply["thinking"]
    return _build_frame(message, model, reply, reply.get("finish_reason", "stop"))


def _build_pieces(reply: Json, model: str) -> Iterator[str]:
    for piece in split_words(reply.get("thinking") or ""):
        yield _format_line(_build_frame({"content": "", "thinking": piece}, model, reply))
    for piece in split_words(reply.get("content") or ""):
        yield _format_line(_build_frame({"content": piece}, model, reply))
    for call in _build_calls(reply):
        yield _format_line(_build_frame({"content": "", "tool_calls": [call]}, model, reply))
    yield _format_line(_build_frame({"content": ""}, model, reply, reply.get("finish_reason", "stop")))


def _format_line(data: Json) -> str:
    return json.dumps(drop_missing(data)) + "\n"


def _build_error(_status: int, reply: Json) -> Json:
    return {"error": reply["message"]}


def _build_stream_error(reply: Json) -> str:
    return _format_line(_build_error(500, reply))


OLLAMA = Wire("ollama", _build_reply, _build_pieces, _build_error, _build_stream_error, "application/x-ndjson")
