"""Messages as the conventions' JSON: roles with parts, secrets masked.

Source: gen-ai-input-messages.json and gen-ai-output-messages.json of the conventions.  On spans they are JSON texts.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..core.masking import mask, mask_data
from ..core.messages import Message
from ..engine.model import Reply, Request
from . import names

Part = dict[str, Any]
MAX_LEVELS = 100
"""Levels of arguments that are recorded as data; deeper ones, which a model wrote by mistake, are recorded as text."""


def request_content(request: Request) -> dict[str, str]:
    """Return the attributes with the messages, the instruction and the tools of a request."""
    instruction = [part for message in request.messages if message["role"] == "system" for part in _parts(message)]
    messages = [_convert(message) for message in request.messages if message["role"] != "system"]
    tools = [{"type": "function", **_function(tool)} for tool in request.tools.schemas("openai")]
    found = {names.SYSTEM_INSTRUCTIONS: instruction, names.INPUT_MESSAGES: messages, names.TOOL_DEFINITIONS: tools}
    return {name: encode(value) for name, value in found.items() if value}


def reply_content(reply: Reply) -> dict[str, str]:
    """Return the attribute with the message of a reply."""
    finish = reply.finish_reason or "stop"
    return {names.OUTPUT_MESSAGES: encode([{**_convert(reply.message), "finish_reason": finish}])}


def text_content(attribute: str, role: str, text: str) -> dict[str, str]:
    """Return an attribute with one message that is a text."""
    finish = {"finish_reason": "stop"} if role == "assistant" else {}
    return {attribute: encode([{"role": role, "parts": [{"type": "text", "content": text}], **finish}])}


def encode(data: Any) -> str:
    """Return JSON data as text, its secrets masked."""
    return mask(json.dumps(mask_data(data), ensure_ascii=False, default=str))


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function", tool)
    return {key: function[key] for key in ("name", "description", "parameters") if key in function}


def _convert(message: Message) -> dict[str, Any]:
    return {"role": message["role"], "parts": [*_parts(message)]}


def _parts(message: Message) -> Iterator[Part]:
    if message["role"] == "tool":
        yield {"type": "tool_call_response", "id": message["tool_call_id"], "response": _plain(message["content"])}
        return
    content = message.get("content") or ()
    if isinstance(content, str):
        yield {"type": "text", "content": content}
    else:
        yield from map(_convert_part, content)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield {
            "type": "tool_call",
            "id": call["id"],
            "name": function["name"],
            "arguments": _load(function["arguments"]),
        }


def _convert_part(part: Part) -> Part:
    """Return a part of a message; data inside the message is left out, because spans are small."""
    if part.get("type") == "text":
        return {"type": "text", "content": part.get("text", "")}
    url = (part.get("image_url") or {}).get("url", "") if part.get("type") == "image_url" else ""
    if url and not url.startswith("data:"):
        return {"type": "uri", "modality": "image", "uri": url}
    return {"type": str(part.get("type", "blob")), "content": "(not recorded)"}


def _plain(content: str | Sequence[Part]) -> Any:
    return content if isinstance(content, str) else [_convert_part(part) for part in _items(content)]


def _items(content: Iterable[Any]) -> Iterator[Part]:
    return (part if isinstance(part, dict) else {"type": "text", "text": str(part)} for part in content)


def _load(arguments: str) -> Any:
    try:
        data = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return arguments if _is_deeper(data, MAX_LEVELS) else data


def _is_deeper(data: Any, levels: int) -> bool:
    entries = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return not levels or any(_is_deeper(entry, levels - 1) for entry in entries)
