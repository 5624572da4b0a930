"""OpenAI's "Responses", with the reasoning items of its models.

Keys of a scripted reply: `parts` are items before the text, for example `{"type": "reasoning", "id": "rs_1",
"encrypted_content": "..."}`, whose `summary` may be a text, or `{"type": "message", "content": "..."}`; `refusal` is
the text of a refusal.  As in the API, the encrypted content is sent only to a request that includes it.
"""

from collections.abc import Iterator
from typing import Any

from .reply import Json, Wire, format_event, read_scripted_calls, read_tokens, split_words, to_text

ENCRYPTED_CONTENT = "reasoning.encrypted_content"


def _build_reply(reply: Json, model: str) -> Json:
    return _build_response(reply, model, [item for item, _ in _iter_items(reply)])


def _build_response(reply: Json, model: str, output: list[Json], status: str = "") -> Json:
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(reply.get("finish_reason", ""))
    head = {"id": f"resp_{reply.get('turn', 1)}", "object": "response", "created_at": 1700000000, "model": model}
    tokens_in, tokens_out, cached = read_tokens(reply)
    usage = {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": (reply.get("usage") or {}).get("reasoning_tokens", 0)},
        "total_tokens": tokens_in + tokens_out,
    }
    return {
        **head,
        "status": status or ("incomplete" if reason else "completed"),
        "error": None,
        "incomplete_details": {"reason": reason} if reason and not status else None,
        "instructions": None,
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None if status else usage,
    }


def _iter_items(reply: Json) -> Iterator[tuple[Json, list[Json]]]:
    """Yield the output items of a reply, each with the events that stream its content."""
    turn = reply.get("turn", 1)
    for number, part in enumerate(reply.get("parts", ()), 1):
        if part["type"] == "message":
            yield _build_message(part["content"], f"msg_{turn}_{number}", "output_text")
        elif part["type"] != "reasoning":  # a step of a tool that the provider runs
            yield part, []
        else:
            yield _build_reasoning(part, f"rs_{turn}_{number}", reply), list(_iter_summary(part))
    for key, kind in (("content", "output_text"), ("refusal", "refusal")):
        if text := reply.get(key):
            yield _build_message(text, f"msg_{turn}", kind)
    for number, call in enumerate(read_scripted_calls(reply), 1):
        given = to_text(call["arguments"])
        item = {"type": "function_call", "id": f"fc_{turn}_{number}", "call_id": call["id"], "status": "completed"}
        kind = "response.function_call_arguments.delta"
        deltas = [{"type": kind, "delta": piece} for piece in split_words(given)]
        yield {**item, "name": call["name"], "arguments": given}, deltas


def _build_message(text: str, identity: str, kind: str) -> tuple[Json, list[Json]]:
    content: Json = {"type": kind, "refusal": text}
    more: Json = {"content_index": 0}
    if kind == "output_text":
        content = {"type": kind, "text": text, "annotations": [], "logprobs": []}
        more["logprobs"] = []
    item = {"type": "message", "id": identity, "role": "assistant", "status": "completed", "content": [content]}
    return item, [{"type": f"response.{kind}.delta", "delta": piece, **more} for piece in split_words(text)]


def _build_reasoning(part: Json, identity: str, reply: Json) -> Json:
    summary = part.get("summary") or []
    summary = [{"type": "summary_text", "text": summary}] if isinstance(summary, str) else summary
    item = {"id": identity, **part, "summary": summary}
    if ENCRYPTED_CONTENT not in ((reply.get("request") or {}).get("include") or ()):
        item.pop("encrypted_content", None)
    return item


def _iter_summary(part: Json) -> Iterator[Json]:
    for piece in split_words(part["summary"]) if isinstance(part.get("summary"), str) else ():
        yield {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": piece}


_EMPTY: dict[str, Json] = {
    "message": {"content": [], "status": "in_progress"},
    "function_call": {"arguments": "", "status": "in_progress"},
    "reasoning": {"summary": []},
}
"""The fields of an item before its content is streamed."""


def _build_pieces(reply: Json, model: str) -> Iterator[str]:
    number = -1

    def event(type: str, **data: Any) -> str:
        nonlocal number
        number += 1
        return format_event({"type": type, "sequence_number": number, **data}, type)

    yield event("response.created", response=_build_response(reply, model, [], "in_progress"))
    whole = _build_reply(reply, model)
    for place, (item, deltas) in enumerate(_iter_items(reply)):
        yield event("response.output_item.added", output_index=place, item={**item, **_EMPTY.get(item["type"], {})})
        for delta in deltas:
            yield event(**delta, output_index=place, item_id=item["id"])
        yield event("response.output_item.done", output_index=place, item=item)
    yield event(f"response.{whole['status']}", response=whole)


def _build_error(status: int, reply: Json) -> Json:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": reply["message"], "type": kind, "param": reply.get("param"), "code": reply.get("code")}
    return {"error": error}


def _build_stream_error(reply: Json) -> str:
    error = {"type": "error", "code": "server_error", "message": reply["message"], "param": None, "sequence_number": 1}
    return format_event(error, "error")


RESPONSES = Wire("responses", _build_reply, _build_pieces, _build_error, _build_stream_error)
