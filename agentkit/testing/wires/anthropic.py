"""Anthropic's "Messages" and "Streaming Messages".

Keys of a scripted reply: `parts` are blocks before the text, for example thinking.
"""

from collections.abc import Iterator
from typing import Any

from .reply import Json, Wire, format_event, read_scripted_calls, read_tokens, split_words, to_object, to_text

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _build_reply(reply: Json, model: str) -> Json:
    blocks = [block for block, _ in _iter_blocks(reply)]
    return _build_message(reply, model, blocks, _build_stop_reason(reply))


def _build_message(reply: Json, model: str, blocks: list[Json], stop: Any) -> Json:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": blocks}
    tokens_in, tokens_out, cached = read_tokens(reply)
    usage = {"input_tokens": tokens_in, "output_tokens": tokens_out}
    usage |= {"cache_read_input_tokens": cached} if cached else {}
    return {**head, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def _build_stop_reason(reply: Json) -> Any:
    return reply.get("finish_reason", "tool_use" if reply.get("tool_calls") else "end_turn")


def _iter_blocks(reply: Json) -> Iterator[tuple[Json, list[Json]]]:
    """Yield the blocks of a reply, each with the deltas that stream it."""
    for block in reply.get("parts", ()):
        yield block, list(_iter_deltas(block))
    if text := reply.get("content"):
        yield {"type": "text", "text": text}, [{"type": "text_delta", "text": piece} for piece in split_words(text)]
    for call in read_scripted_calls(reply):
        given = call["arguments"]
        block = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": to_object(given)}
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in split_words(to_text(given))]


def _iter_deltas(block: Json) -> Iterator[Json]:
    if block["type"] == "thinking":
        for piece in split_words(block["thinking"]):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    elif block["type"] == "server_tool_use":
        yield {"type": "input_json_delta", "partial_json": to_text(block["input"])}


_EMPTY_BLOCKS: dict[str, Json] = {
    "text": {"text": ""},
    "tool_use": {"input": {}},
    "server_tool_use": {"input": {}},
    "thinking": {"thinking": "", "signature": ""},
}
"""The fields of a block before its deltas."""


def _build_pieces(reply: Json, model: str) -> Iterator[str]:
    def piece(kind: str, **data: Any) -> str:
        return format_event({"type": kind, **data}, kind)

    yield piece("message_start", message=_build_message(reply, model, [], None))
    for index, (block, deltas) in enumerate(_iter_blocks(reply)):
        yield piece("content_block_start", index=index, content_block={**block, **_EMPTY_BLOCKS.get(block["type"], {})})
        for delta in deltas:
            yield piece("content_block_delta", index=index, delta=delta)
        yield piece("content_block_stop", index=index)
    end = {"stop_reason": _build_stop_reason(reply), "stop_sequence": None}
    yield piece("message_delta", delta=end, usage={"output_tokens": read_tokens(reply)[1]})
    yield piece("message_stop")


def _build_error(status: int, reply: Json) -> Json:
    return {"type": "error", "error": {"type": _TYPES.get(status, "api_error"), "message": reply["message"]}}


def _build_stream_error(reply: Json) -> str:
    return format_event(_build_error(529, reply), "error")


ANTHROPIC = Wire("anthropic", _build_reply, _build_pieces, _build_error, _build_stream_error)
