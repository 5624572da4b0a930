"""Gemini's "generateContent" and "streamGenerateContent".

Keys of a scripted reply: `parts` precede the text; a call's `signature` is its thought signature; `block_reason` means
a blocked prompt; `empty` means a reply without candidates; `grounding` is the grounding metadata at its end.
"""

from collections.abc import Iterator
from typing import Any

from .reply import Json, Wire, format_event, read_scripted_calls, read_tokens, split_words, to_object

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


def _build_reply(reply: Json, model: str) -> Json:
    parts = [
        *reply.get("parts", ()),
        *({"text": text} for text in [reply.get("content")] if text),
        *_build_calls(reply),
    ]
    return _build_frame(reply, parts, model, reply.get("finish_reason", "STOP"))


def _build_calls(reply: Json) -> Iterator[Json]:
    for call in read_scripted_calls(reply):
        part = {"functionCall": {"name": call["name"], "args": to_object(call["arguments"])}}
        yield part | ({"thoughtSignature": call["signature"]} if "signature" in call else {})


def _build_frame(reply: Json, parts: list[Json], model: str, finish: Any = ...) -> Json:
    tokens_in, tokens_out, cached = read_tokens(reply)
    counts = {"promptTokenCount": tokens_in, "candidatesTokenCount": tokens_out}
    counts |= {"totalTokenCount": tokens_in + tokens_out} | ({"cachedContentTokenCount": cached} if cached else {})
    frame = {"usageMetadata": counts, "modelVersion": model, "responseId": "response_1"}
    if reason := reply.get("block_reason"):
        return {"promptFeedback": {"blockReason": reason}, **frame}
    content = {"role": "model", "parts": parts or ...}
    grounding = {"groundingMetadata": reply["grounding"]} if finish is not ... and "grounding" in reply else {}
    candidates = [] if reply.get("empty") else [{"content": content, "index": 0, "finishReason": finish, **grounding}]
    return {"candidates": candidates, **frame}


def _build_pieces(reply: Json, model: str) -> Iterator[str]:
    texts = [{"text": piece} for piece in split_words(reply.get("content") or "")]
    for part in [*reply.get("parts", ()), *texts, *_build_calls(reply)]:
        yield format_event(_build_frame(reply, [part], model))
    yield format_event(_build_frame(reply, [{"text": ""}], model, reply.get("finish_reason", "STOP")))


def _build_error(status: int, reply: Json) -> Json:
    return {"error": {"code": status, "message": reply["message"], "status": _STATUS.get(status, "UNKNOWN")}}


def _build_stream_error(reply: Json) -> str:
    return format_event(_build_error(503, reply))


GEMINI = Wire("gemini", _build_reply, _build_pieces, _build_error, _build_stream_error)
