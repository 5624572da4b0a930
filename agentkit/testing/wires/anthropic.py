"""Anthropic's "Messages" and "Streaming Messages".

Of a scripted reply: `parts` are blocks that stand before the text, thinking for example.
"""

from collections.abc import Iterator
from typing import Any

from .reply import Json, Wire, bare, calls_in, event, finish_of, object_of, text_of, tokens_of, words

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _whole(reply: Json, model: str) -> Json:
    whole: Json = bare(_head(reply, model, [block for block, _ in _blocks(reply)], _stop(reply)))
    return whole


def _head(reply: Json, model: str, blocks: list[Json], stop: Any) -> Json:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": blocks}
    tokens_in, tokens_out, cached = tokens_of(reply)
    usage = {"input_tokens": tokens_in, "output_tokens": tokens_out}
    usage |= {"cache_read_input_tokens": cached} if cached else {}
    return {**head, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def _stop(reply: Json) -> Any:
    return finish_of(reply, "tool_use" if reply.get("tool_calls") else "end_turn")


def _blocks(reply: Json) -> Iterator[tuple[Json, list[Json]]]:
    """The blocks of a reply, each with the deltas that stream it."""
    for block in reply.get("parts", ()):
        yield block, list(_deltas(block))
    if text := reply.get("content"):
        yield {"type": "text", "text": text}, [{"type": "text_delta", "text": piece} for piece in words(text)]
    for call in calls_in(reply):
        given = call["arguments"]
        block = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": object_of(given)}
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in words(text_of(given))]


def _deltas(block: Json) -> Iterator[Json]:
    if block["type"] == "thinking":
        for piece in words(block["thinking"]):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}


_OPENED: dict[str, Json] = {
    "text": {"text": ""},
    "tool_use": {"input": {}},
    "thinking": {"thinking": "", "signature": ""},
}
"""What a block holds before its deltas came."""


def _pieces(reply: Json, model: str) -> Iterator[str]:
    def piece(kind: str, **data: Any) -> str:
        return event({"type": kind, **data}, kind)

    yield piece("message_start", message=_head(reply, model, [], None))
    for index, (block, deltas) in enumerate(_blocks(reply)):
        yield piece("content_block_start", index=index, content_block={**block, **_OPENED.get(block["type"], {})})
        for delta in deltas:
            yield piece("content_block_delta", index=index, delta=delta)
        yield piece("content_block_stop", index=index)
    end = {"stop_reason": _stop(reply), "stop_sequence": None}
    yield piece("message_delta", delta=end, usage={"output_tokens": tokens_of(reply)[1]})
    yield piece("message_stop")


def _error(status: int, reply: Json) -> Json:
    return {"type": "error", "error": {"type": _TYPES.get(status, "api_error"), "message": reply["message"]}}


def _broken(reply: Json) -> str:
    return event(_error(529, reply), "error")


ANTHROPIC = Wire("anthropic", _whole, _pieces, _error, _broken)
