"""Gemini's "generateContent" and "streamGenerateContent".

Of a scripted reply: `parts` stand before the text; a call's `signature` is the thought signature beside it;
`block_reason` is a prompt that was blocked; `empty` is a reply without candidates.
"""

from collections.abc import Iterator
from typing import Any

from .reply import Json, Wire, bare, calls_in, event, finish_of, object_of, tokens_of, words

_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def _whole(reply: Json, model: str) -> Json:
    parts = [*reply.get("parts", ()), *({"text": text} for text in [reply.get("content")] if text), *_calls(reply)]
    whole: Json = bare(_frame(reply, parts, model, finish_of(reply, "STOP")))
    return whole


def _calls(reply: Json) -> Iterator[Json]:
    for call in calls_in(reply):
        part = {"functionCall": {"name": call["name"], "args": object_of(call["arguments"])}}
        yield part | ({"thoughtSignature": call["signature"]} if "signature" in call else {})


def _frame(reply: Json, parts: list[Json], model: str, finish: Any = ...) -> Json:
    tokens_in, tokens_out, cached = tokens_of(reply)
    counts = {"promptTokenCount": tokens_in, "candidatesTokenCount": tokens_out}
    counts |= {"totalTokenCount": tokens_in + tokens_out} | ({"cachedContentTokenCount": cached} if cached else {})
    frame = {"usageMetadata": counts, "modelVersion": model}
    if reason := reply.get("block_reason"):
        return {"promptFeedback": {"blockReason": reason}, **frame}
    content = {"role": "model", "parts": parts or ...}
    candidates = [] if reply.get("empty") else [{"content": content, "index": 0, "finishReason": finish}]
    return {"candidates": candidates, **frame}


def _pieces(reply: Json, model: str) -> Iterator[str]:
    texts = [{"text": piece} for piece in words(reply.get("content") or "")]
    for part in [*reply.get("parts", ()), *texts, *_calls(reply)]:
        yield event(_frame(reply, [part], model))
    yield event(_frame(reply, [{"text": ""}], model, finish_of(reply, "STOP")))


def _error(status: int, reply: Json) -> Json:
    return {"error": {"code": status, "message": reply["message"], "status": _STATUS.get(status, "UNKNOWN")}}


def _broken(reply: Json) -> str:
    return event(_error(503, reply))


GEMINI = Wire("gemini", _whole, _pieces, _error, _broken)
