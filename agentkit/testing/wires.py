"""The wire formats of four providers, from the server's side: a scripted reply as JSON, and as a stream.

A scripted reply is `{"content": text or None, "tool_calls": [{"id", "name", "arguments"}]}`, everything optional.
Sources: OpenAI "Chat Completions" (Groq serves the same), Anthropic "Messages" and "Streaming Messages", Gemini
"generateContent" and "streamGenerateContent", Ollama "Generate a chat completion".
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

INPUT_TOKENS, OUTPUT_TOKENS = 10, 5


@dataclass(frozen=True, slots=True)
class Wire:
    """One provider's format: a reply whole, a reply in pieces (ready to send), an error body."""

    whole: Callable[[Json, str], Json]
    pieces: Callable[[Json, str], Iterator[str]]
    error: Callable[[int, str], Json]
    content_type: str = "text/event-stream"


def wire_of(path: str) -> Wire | None:
    """The format that is spoken at a path; None where no provider listens."""
    if path.endswith("/chat/completions"):
        return OPENAI
    if path.endswith("/v1/messages"):
        return ANTHROPIC
    if path.partition(":")[2] in ("generateContent", "streamGenerateContent"):
        return GEMINI
    return OLLAMA if path.endswith("/api/chat") else None


def calls_in(reply: Json) -> list[Json]:
    """The scripted calls with all their keys: `id` (made up where missing), `name`, `arguments` (an object or text)."""
    calls = enumerate(reply.get("tool_calls") or (), 1)
    return [{"id": f"call_{number}", "arguments": {}, **call} for number, call in calls]


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _object(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def _event(data: Json, name: str | None = None) -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


def _pieces(text: str) -> list[str]:
    """A text as providers stream it: word by word."""
    return re.findall(r"\s*\S+\s*$|\s*\S+|\s+", text)


def _openai_whole(reply: Json, model: str) -> Json:
    message: Json = {"role": "assistant", "content": reply.get("content")}
    if calls := calls_in(reply):
        message["tool_calls"] = [_openai_call(call, _text(call["arguments"])) for call in calls]
    finish = reply.get("finish_reason") or ("tool_calls" if calls else "stop")
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return _openai_frame("chat.completion", model, [choice], usage=_openai_usage())


def _openai_call(call: Json, arguments: str) -> Json:
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def _openai_frame(kind: str, model: str, choices: list[Json], **more: Any) -> Json:
    head = {"id": "chatcmpl-1", "object": kind, "created": 1700000000, "model": model}
    return {**head, "service_tier": "default", "choices": choices, **more}


def _openai_usage() -> Json:
    total = INPUT_TOKENS + OUTPUT_TOKENS
    return {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS, "total_tokens": total}


def _openai_pieces(reply: Json, model: str) -> Iterator[str]:
    def chunk(delta: Json, finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event(_openai_frame("chat.completion.chunk", model, [choice]))

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(reply.get("content") or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(calls := calls_in(reply)):
        yield chunk({"tool_calls": [{"index": index, **_openai_call(call, "")}]})
        for piece in _pieces(_text(call["arguments"])):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, reply.get("finish_reason") or ("tool_calls" if calls else "stop"))
    yield _event(_openai_frame("chat.completion.chunk", model, [], usage=_openai_usage()))
    yield "data: [DONE]\n\n"


def _openai_error(_status: int, message: str) -> Json:
    return {"error": {"message": message, "type": "error", "param": None, "code": None}}


def _anthropic_whole(reply: Json, model: str) -> Json:
    blocks: list[Json] = [{"type": "text", "text": reply["content"]}] if reply.get("content") else []
    blocks += [
        {"type": "tool_use", "id": call["id"], "name": call["name"], "input": _object(call["arguments"])}
        for call in calls_in(reply)
    ]
    stop = reply.get("finish_reason") or ("tool_use" if reply.get("tool_calls") else "end_turn")
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": blocks}
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    return {**head, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def _anthropic_pieces(reply: Json, model: str) -> Iterator[str]:
    def event(kind: str, **data: Any) -> str:
        return _event({"type": kind, **data}, kind)

    whole = _anthropic_whole(reply, model)
    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, kind, key, text = {**block, "text": ""}, "text_delta", "text", block["text"]
        else:
            empty, kind, key, text = {**block, "input": {}}, "input_json_delta", "partial_json", _text(block["input"])
        yield event("content_block_start", index=index, content_block=empty)
        for piece in _pieces(text):
            yield event("content_block_delta", index=index, delta={"type": kind, key: piece})
        yield event("content_block_stop", index=index)
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=end, usage={"output_tokens": OUTPUT_TOKENS})
    yield event("message_stop")


def _anthropic_error(_status: int, message: str) -> Json:
    return {"type": "error", "error": {"type": "api_error", "message": message}}


def _gemini_whole(reply: Json, model: str) -> Json:
    parts = [{"text": text} for text in [reply.get("content")] if text]
    return _gemini_frame(parts + _gemini_calls(reply), model, reply.get("finish_reason") or "STOP")


def _gemini_calls(reply: Json) -> list[Json]:
    return [{"functionCall": {"name": c["name"], "args": _object(c["arguments"])}} for c in calls_in(reply)]


def _gemini_frame(parts: list[Json], model: str, finish: str | None = None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    total = INPUT_TOKENS + OUTPUT_TOKENS
    counts = {"promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS, "totalTokenCount": total}
    finished = {"finishReason": finish} if finish else {}
    return {"candidates": [candidate | finished], "usageMetadata": counts, "modelVersion": model}


def _gemini_pieces(reply: Json, model: str) -> Iterator[str]:
    for piece in _pieces(reply.get("content") or ""):
        yield _event(_gemini_frame([{"text": piece}], model))
    for part in _gemini_calls(reply):
        yield _event(_gemini_frame([part], model))
    yield _event(_gemini_frame([{"text": ""}], model, reply.get("finish_reason") or "STOP"))


def _gemini_error(status: int, message: str) -> Json:
    return {"error": {"code": status, "message": message, "status": "ERROR"}}


def _ollama_frame(message: Json, model: str, finish: str | None = None) -> Json:
    frame = {"model": model, "created_at": "2024-01-01T00:00:00Z", "message": {"role": "assistant", **message}}
    counts = {"done_reason": finish, "prompt_eval_count": INPUT_TOKENS, "eval_count": OUTPUT_TOKENS}
    return {**frame, "done": finish is not None, **(counts if finish else {})}


def _ollama_calls(reply: Json) -> list[Json]:
    return [{"function": {"name": c["name"], "arguments": _object(c["arguments"])}} for c in calls_in(reply)]


def _ollama_whole(reply: Json, model: str) -> Json:
    message = {"content": reply.get("content") or "", "tool_calls": _ollama_calls(reply)}
    return _ollama_frame(message, model, reply.get("finish_reason") or "stop")


def _ollama_pieces(reply: Json, model: str) -> Iterator[str]:
    for piece in _pieces(reply.get("content") or ""):
        yield json.dumps(_ollama_frame({"content": piece}, model)) + "\n"
    for call in _ollama_calls(reply):
        yield json.dumps(_ollama_frame({"content": "", "tool_calls": [call]}, model)) + "\n"
    yield json.dumps(_ollama_frame({"content": ""}, model, reply.get("finish_reason") or "stop")) + "\n"


def _ollama_error(_status: int, message: str) -> Json:
    return {"error": message}


OPENAI = Wire(_openai_whole, _openai_pieces, _openai_error)
ANTHROPIC = Wire(_anthropic_whole, _anthropic_pieces, _anthropic_error)
GEMINI = Wire(_gemini_whole, _gemini_pieces, _gemini_error)
OLLAMA = Wire(_ollama_whole, _ollama_pieces, _ollama_error, "application/x-ndjson")
