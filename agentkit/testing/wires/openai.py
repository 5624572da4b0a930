"""OpenAI's "Chat Completions", the format of Groq and many others.

Keys of a scripted reply: `message` holds more keys of the message ("refusal", "reasoning_content"); `empty` means a
reply without choices; a call may have a `type`, in a stream an `index`, and with `raw` its arguments are sent as an
object.
"""

from collections.abc import Iterator
from typing import Any

from .reply import Json, Wire, format_event, read_scripted_calls, read_tokens, split_words, to_text

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def _build_reply(reply: Json, model: str) -> Json:
    message: Json = {"role": "assistant", "content": reply.get("content")}
    if calls := read_scripted_calls(reply):
        message["tool_calls"] = [
            _build_call(call, call["arguments"] if call.get("raw") else to_text(call["arguments"])) for call in calls
        ]
    message |= reply.get("message", {})
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": reply.get("finish_reason", "tool_calls" if calls else "stop"),
    }
    choices = [] if reply.get("empty") else [choice]
    return _build_frame("chat.completion", model, choices, usage=_build_usage(reply))


def _build_call(call: Json, arguments: Any) -> Json:
    function = {"name": call["name"], "arguments": arguments}
    return {"id": call["id"], "type": call.get("type", "function"), "function": function}


def _build_frame(kind: str, model: str, choices: list[Json], **more: Any) -> Json:
    head = {"id": "chatcmpl-1", "object": kind, "created": 1700000000, "model": model}
    return {**head, "service_tier": "default", "choices": choices, **more}


def _build_usage(reply: Json) -> Json:
    tokens_in, tokens_out, cached = read_tokens(reply)
    counts = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
    return counts | ({"prompt_tokens_details": {"cached_tokens": cached}} if cached else {})


def _build_pieces(reply: Json, model: str) -> Iterator[str]:
    def chunk(delta: Json, finish: Any = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return format_event(_build_frame("chat.completion.chunk", model, [choice]))

    if not reply.get("empty"):
        yield chunk({"role": "assistant", "content": ""})
        for piece in split_words(reply.get("content") or ""):
            yield chunk({"content": piece})
        for key, value in reply.get("message", {}).items():
            yield chunk({key: value})
        for place, call in enumerate(calls := read_scripted_calls(reply)):
            index = call.get("index", place)
            yield chunk({"tool_calls": [{"index": index, **_build_call(call, "")}]})
            for piece in split_words(to_text(call["arguments"])):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, reply.get("finish_reason", "tool_calls" if calls else "stop"))
    yield format_event(_build_frame("chat.completion.chunk", model, [], usage=_build_usage(reply)))
    yield "data: [DONE]\n\n"


def _build_error(status: int, reply: Json) -> Json:
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    more = {"param": reply.get("param"), "code": reply.get("code")}
    return {"error": {"message": reply["message"], "type": kind, **more}}


def _build_stream_error(reply: Json) -> str:
    return format_event(_build_error(500, reply))


def _build_groq_pieces(reply: Json, model: str) -> Iterator[str]:
    """Groq sends the usage in `x_groq` of the last chunk, and knows no `stream_options`."""
    *pieces, _, done = _build_pieces(reply, model)
    yield from pieces
    yield format_event(_build_frame("chat.completion.chunk", model, [], x_groq={"usage": _build_usage(reply)}))
    yield done


OPENAI = Wire("openai", _build_reply, _build_pieces, _build_error, _build_stream_error)
GROQ = Wire("groq", _build_reply, _build_groq_pieces, _build_error, _build_stream_error)
