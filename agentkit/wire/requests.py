"""What goes out: a conversation and its tools as one provider takes them.

The history holds every assistant message as it came, with what only its writer understands: thinking blocks,
signatures, provider-specific fields.  Its key `provider` says who that was; these extras go back to the writer, which
may insist on them, and to nobody else, because OpenAI-compatible servers refuse keys that they do not know.
The history itself is never changed, nothing is copied deeply, and a message that may go out as it is, does.
"""

import copy
import json
from collections.abc import Sequence
from typing import Any

from ..messages import Message
from ..model import Request

Json = dict[str, Any]

_THOUGHT = ("thinking_blocks", "reasoning_content", "provider_specific_fields")
_RETURNED: dict[str, tuple[str, ...]] = {
    "anthropic": _THOUGHT,
    "bedrock": _THOUGHT,
    "vertex_ai": _THOUGHT,
    "gemini": _THOUGHT,
    "deepseek": ("reasoning_content",),
    "moonshot": ("reasoning_content",),
}
"""The keys of an assistant message that its writer wants back in the next turn of a tool loop.

Anthropic: "Extended thinking", preserving thinking blocks; Gemini: "Thought signatures"; DeepSeek: "Thinking mode",
tool calls; Moonshot: "Use Kimi K2 thinking", multi-step tool calls.  The others take text and calls alone.
"""

_ANSWERED_BY_NAME = {"gemini", "vertex_ai", "mistral"}
"""Their function results carry the function's name; OpenAI's schema of a tool message has no such key."""

_SHARING = {"openai", "anthropic", "groq", "ollama_chat"}
"""Routes that are known to leave the caller's tool dicts alone; litellm's Gemini route rewrites them in place."""

_HOLD_TO_SCHEMAS = {"openai", "azure"}
"""Who takes strict tools through litellm; for Anthropic and Gemini it drops the mark, the others ignore it."""

_PLAIN_KEYS = {"role", "content", "name", "cache_control"}
_TOOL_KEYS = {"role", "content", "tool_call_id", "cache_control"}


def conversation(messages: Sequence[Message], provider: str) -> list[Message]:
    """The messages to send to `provider`: known keys only, empty assistant messages left out."""
    return [sent for message in messages if (sent := _sent(message, provider)) is not None]


def tool_parameters(request: Request, provider: str, model: str, *, strict: bool = False) -> Json:
    """litellm's `tools` and `tool_choice` for the request; nothing where there are no tools.

    `strict` asks OpenAI for arguments that are sure to fit the schemas.
    """
    if not (shared := request.tools.schemas("openai_strict" if strict and provider in _HOLD_TO_SCHEMAS else "openai")):
        return {}
    choice = request.tool_choice
    parameters: Json = {"tools": shared if provider in _SHARING else copy.deepcopy(shared)}
    if provider == "gemini" or (provider == "vertex_ai" and "gemini" in model):
        declarations = copy.deepcopy(request.tools.schemas("gemini"))
        parameters["tools"] = [{"type": "function", "function": declaration} for declaration in declarations]
    elif provider == "anthropic":
        parameters["tools"] = [_wrapped(tool) for tool in request.tools.schemas("anthropic")]
    if choice in ("required", "none"):
        parameters["tool_choice"] = choice
    elif choice != "auto":
        parameters["tool_choice"] = {"type": "function", "function": {"name": choice}}
    return parameters


def _wrapped(tool: Json) -> Json:
    """An Anthropic tool in OpenAI's wrapping, the only one that litellm takes on every route."""
    function = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    return {"type": "function", "function": function}


def _sent(message: Message, provider: str) -> Message | None:
    if message["role"] == "assistant":
        return _sent_assistant(message, provider)
    if message["role"] != "tool":
        keys = _PLAIN_KEYS
    else:
        keys = _TOOL_KEYS | {"name"} if provider in _ANSWERED_BY_NAME else _TOOL_KEYS
    return message if message.keys() <= keys else {key: message[key] for key in message if key in keys}


def _sent_assistant(message: Message, provider: str) -> Message | None:
    calls, content = message.get("tool_calls"), message.get("content")
    if not calls and not content:
        return None
    returned = _RETURNED.get(provider, ()) if message.get("provider") == provider else ()
    sent: Message = {"role": "assistant", "content": content or None}  # beside calls, '' becomes text on some routes
    if calls:
        sent["tool_calls"] = [_sent_call(call, "provider_specific_fields" in returned) for call in calls]
    sent.update((key, message[key]) for key in returned if key in message)
    return sent


def _sent_call(call: Json, with_extras: bool) -> Json:
    function = call["function"]
    sent: Json = {
        "id": call["id"],
        "type": "function",
        "function": {"name": function["name"], "arguments": object_text(function["arguments"])},
    }
    if with_extras and "provider_specific_fields" in call:
        sent["provider_specific_fields"] = call["provider_specific_fields"]
    return sent


def object_text(arguments: str) -> str:
    """`arguments` if they are the text of a JSON object in valid Unicode, which every provider insists on, else `{}`.

    Anthropic, Gemini and Ollama are sent the object itself: there, broken text in the history fails every later turn.
    """
    try:
        value = _STRICT.decode(arguments)
        if "\\ud" in arguments or "\\uD" in arguments:  # an escaped half of a surrogate pair, perhaps
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return "{}"
    return arguments if isinstance(value, dict) else "{}"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)
