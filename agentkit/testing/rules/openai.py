"""OpenAI's rules for a Chat Completions request, and those of strict compatible servers.

Source: the API reference of Chat Completions, and the API's error messages. Compatible servers (vLLM, Mistral, Groq)
require that the arguments in the conversation are JSON objects, because their chat templates read them.
"""

from collections.abc import Iterator
from typing import Any

from ...schemas.walk import json_type
from .invalid import IMAGE_TYPES, Invalid, Json, is_object_text, matches_whole, read_data_type, split_keys

_NAME = r"[a-zA-Z0-9_-]+"
_MAX_NAME_CHARS = 64
_MAX_ID_CHARS = 40
_PARAMETERS = split_keys(
    "model messages tools tool_choice stream stream_options temperature top_p n stop max_tokens max_completion_tokens "
    "presence_penalty frequency_penalty logit_bias logprobs top_logprobs user seed response_format parallel_tool_calls "
    "service_tier reasoning_effort metadata store modalities audio prediction web_search_options verbosity "
    "prompt_cache_key prompt_cache_retention safety_identifier"
)
_OPENROUTER_PARAMETERS = split_keys("usage reasoning provider models route transforms plugins")
"""Further ones for names of models with the name of their maker, as OpenRouter has them."""
_KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "audio", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
_PARTS: tuple[dict[str, type], dict[str, type]] = (
    {"text": str, "image_url": dict, "input_audio": dict, "file": dict},
    {"text": str, "refusal": str},
)
"""The content parts of other messages, and of assistant messages."""
_MISTRAL = ("mistral", "ministral", "magistral", "devstral", "codestral")
_MORE_KEYS = {"deepseek": "reasoning_content", "kimi": "reasoning_content", "mistral": "name"}
"""Additional message keys of servers of other models."""


_REASONING = ("reasoning", "reasoning_content", "reasoning_details")
"""Keys of replies that other servers than OpenAI's send, and accept in the next request."""


def check(body: Json, issued: Json) -> None:
    """Raise `Invalid` for a request that OpenAI would refuse, or a server that has issued reasoning."""
    more = _OPENROUTER_PARAMETERS if "/" in str(body.get("model")) else set()
    for key in body.keys() - _PARAMETERS - more:
        raise Invalid(f"Unrecognized request argument supplied: {key}", key)
    _check_tools(body)
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        raise _empty_array("messages")
    more = issued.get("keys", set()) | {key for name, key in _MORE_KEYS.items() if name in str(body.get("model"))}
    for place, message in enumerate(body["messages"]):
        _check_message(message, f"messages[{place}]", more)
    _check_order(body["messages"])
    _check_reasoning(body["messages"], issued)
    if any(name in str(body.get("model")) for name in _MISTRAL):
        _check_mistral(body["messages"])


def remember(reply: Json, issued: Json) -> None:
    """Store which keys of reasoning the server sends, and the `reasoning_details` of each call.

    A server that reads `reasoning` of its own messages ignores the other name of it, and so the other way round.
    """
    for choice in reply["choices"]:
        message = choice["message"]
        if keys := message.keys() & set(_REASONING):
            issued["keys"] = {*_REASONING[:2], *keys}
        for call in message.get("tool_calls") or () if "reasoning_details" in message else ():
            issued[f"details of {call['id']}"] = message["reasoning_details"]


def _check_reasoning(messages: list[Json], issued: Json) -> None:
    """Check that the calls since the last user message come with their reasoning unchanged (OpenRouter)."""
    last = max((place for place, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    for place, message in enumerate(messages):
        for call in message.get("tool_calls") or () if place > last else ():
            details = message.get("reasoning_details")
            if issued.get(f"details of {call['id']}", details) != details:
                text = "the `reasoning_details` of an assistant message must come back as they were"
                raise Invalid(f"messages.{place}: {text}", f"messages[{place}].reasoning_details")


def check_groq(body: Json, issued: Json) -> None:
    """Raise `Invalid` for a request that Groq would refuse: its API reference has no `stream_options`."""
    if "stream_options" in body:
        raise Invalid("property 'stream_options' is unsupported", "stream_options")
    for place, message in enumerate(body.get("messages") or ()):
        if "reasoning_content" in message:
            text = f"('messages.{place}' : property 'reasoning_content' is unsupported)"
            raise Invalid(f"for 'role:assistant' the following must be satisfied[{text}]", f"messages.{place}")
    check(body, issued)


def _empty_array(place: str) -> Invalid:
    expected = "Expected an array with minimum length 1, but got an empty array instead."
    return Invalid(f"Invalid '{place}': empty array. {expected}", place)


def _check_order(messages: list[Json]) -> None:
    """Check that each call has a result directly after its message, and each result a call."""
    open_calls: dict[Any, None] = {}
    known: set[Any] = set()
    for place, message in enumerate([*messages, {"role": "end"}]):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_calls:
                text = (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'."
                )
                raise Invalid(text, f"messages.[{place}].role")
            del open_calls[message["tool_call_id"]]
            continue
        if open_calls:
            text = (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                "'tool_call_id'. The following tool_call_ids did not have response messages: "
            )
            raise Invalid(text + ", ".join(open_calls), f"messages.[{place}].role")
        for call in message.get("tool_calls") or ():
            identity = call.get("id")
            if identity in known:
                raise Invalid(f"Duplicate value for 'tool_call_id' of '{identity}' in messages[{place}]", "messages")
            open_calls[identity] = None
            known.add(identity)


def _check_mistral(messages: list[Json]) -> None:
    """Check Mistral's id format, and an assistant message between a tool message and a user message."""
    for place, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            if not matches_whole(r"[a-zA-Z0-9]{9}", call["id"]):
                must = "must be a-z, A-Z, 0-9, with a length of 9."
                raise Invalid(f"Tool call id was {call['id']} but {must}", f"messages[{place}].tool_calls")
        if place and message["role"] == "user" and messages[place - 1]["role"] == "tool":
            raise Invalid("Unexpected role 'user' after role 'tool'", f"messages.[{place}].role")


def _check_message(message: Json, place: str, more: set[str]) -> None:
    role = message.get("role")
    if role not in _KEYS:
        supported = ", ".join(f"'{name}'" for name in _KEYS)
        raise Invalid(f"Invalid value: '{role}'. Supported values are: {supported}.", f"{place}.role")
    for key in message.keys() - _KEYS[role] - more:
        raise Invalid(f"Unknown parameter: '{place}.{key}'.", f"{place}.{key}")
    if "tool_calls" in message:
        _check_calls(message["tool_calls"], f"{place}.tool_calls")
    content = message.get("content")
    if content is None and not (role == "assistant" and message.get("tool_calls")):
        raise Invalid("Invalid value for 'content': expected a string, got null.", f"{place}.content")
    if isinstance(content, list):
        _check_parts(content, role, place)
    elif not isinstance(content, str | None):
        raise _wrong_type(f"{place}.content", "one of an array of objects or string", content)


def _check_parts(parts: list[Json], role: str, place: str) -> None:
    if not parts:
        raise _empty_array(f"{place}.content")
    for number, part in enumerate(parts):
        kind = str(part.get("type"))
        if kind == "image_url" and role != "user":
            text = f"Image URLs are only allowed for messages with role 'user', but this message with role '{role}'"
            raise Invalid(f"Invalid '{place}'. {text} contains an image URL.", place)
        if role in ("tool", "system", "developer") and kind != "text":
            text = f"Invalid value: '{kind}'. Supported values are: 'text'."
            raise Invalid(text, f"{place}.content[{number}].type")
        if not isinstance(part.get(kind), _PARTS[role == "assistant"].get(kind, ())):
            raise Invalid(f"Invalid value: '{kind}'.", f"{place}.content[{number}].type")
        _check_data(part, kind, f"{place}.content[{number}].{kind}")


def _check_data(part: Json, kind: str, place: str) -> None:
    if kind == "image_url":
        check_image(part[kind].get("url"), f"{place}.url")
    elif kind == "file" and "file_data" in part[kind]:
        check_document(part[kind]["file_data"], f"{place}.file_data")
    elif kind == "input_audio" and part[kind].get("format") not in ("wav", "mp3"):
        text = f"Invalid value: '{part[kind].get('format')}'. Supported values are: 'wav' and 'mp3'."
        raise Invalid(text, f"{place}.format")


def check_image(address: Any, place: str) -> None:
    """Raise `Invalid` for an image that is neither an address nor a data URL of an image."""
    if not isinstance(address, str) or not address.startswith(("http://", "https://", "data:")):
        raise Invalid(f"Invalid '{place}'. Expected a valid URL, but got a value with an invalid format.", place)
    if address.startswith("data:") and read_data_type(address) not in IMAGE_TYPES:
        raise Invalid("Invalid MIME type. Only image types are supported.", place)


def check_document(data: Any, place: str) -> None:
    """Raise `Invalid` for a file that is not a data URL of a PDF."""
    if (kind := read_data_type(data)) != "application/pdf":
        expected = "Expected a base64-encoded data URL with an application/pdf MIME type"
        raise Invalid(f"Invalid '{place}'. {expected}, but got unsupported MIME type '{kind or ''}'.", place)


def _check_calls(calls: Any, place: str) -> None:
    if not isinstance(calls, list) or not calls:
        raise _empty_array(place)
    for number, call in enumerate(calls):
        at = f"{place}[{number}]"
        for key in ("id", "type", "function"):
            if key not in call:
                raise Invalid(f"Missing required parameter: '{at}.{key}'.", f"{at}.{key}")
        function = call["function"]
        for key in [*(call.keys() - {"id", "type", "function"}), *(function.keys() - {"name", "arguments"})]:
            raise Invalid(f"Unknown parameter: '{at}.{key}'.", f"{at}.{key}")
        check_text(call["id"], f"{at}.id", _MAX_ID_CHARS)
        if call["type"] != "function":
            raise Invalid(f"Invalid value: '{call['type']}'. Supported values are: 'function'.", f"{at}.type")
        check_function_name(function.get("name"), f"{at}.function.name")
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            raise _wrong_type(f"{at}.function.arguments", "a string", arguments)
        if not is_object_text(arguments):
            text = f"Invalid '{at}.function.arguments': not the text of a JSON object: {arguments[:60]}"
            raise Invalid(text, f"{at}.function.arguments")


def check_function_name(name: Any, place: str) -> None:
    """Raise `Invalid` unless `name` is a valid name of a function."""
    check_text(name, place, _MAX_NAME_CHARS)
    if not matches_whole(_NAME, name):
        text = f"string does not match pattern. Expected a string that matches the pattern '^{_NAME}$'."
        raise Invalid(f"Invalid '{place}': {text}", place)


def check_text(value: Any, place: str, most: int) -> None:
    """Raise `Invalid` unless `value` is a text of 1 to `most` characters."""
    if not isinstance(value, str):
        raise _wrong_type(place, "a string", value)
    if not value:
        expected = "Expected a string with minimum length 1, but got an empty string instead."
        raise Invalid(f"Invalid '{place}': empty string. {expected}", place)
    if len(value) > most:
        expected = f"Expected a string with maximum length {most}, but got a string with length {len(value)} instead."
        raise Invalid(f"Invalid '{place}': string too long. {expected}", place)


def _wrong_type(place: str, expected: str, value: Any) -> Invalid:
    return Invalid(f"Invalid type for '{place}': expected {expected}, but got {json_type(value)} instead.", place)


def _check_tools(body: Json) -> None:
    names = set()
    if "tools" in body and not body["tools"]:
        raise _empty_array("tools")
    for number, tool in enumerate(body.get("tools", ())):
        at = f"tools[{number}]"
        if tool.get("type") != "function" or not isinstance(tool.get("function"), dict):
            raise Invalid(f"Missing required parameter: '{at}.function'.", f"{at}.function")
        function = tool["function"]
        for key in function.keys() - {"name", "description", "parameters", "strict"}:
            raise Invalid(f"Unknown parameter: '{at}.function.{key}'.", f"{at}.function.{key}")
        check_function_name(function.get("name"), f"{at}.function.name")
        if function["name"] in names:
            raise Invalid(f"Duplicate function name '{function['name']}'.", f"{at}.function.name")
        names.add(function["name"])
        check_function_parameters(function, f"{at}.function.parameters")
    choice = body.get("tool_choice", "auto")
    if "tool_choice" in body and not names:
        raise Invalid("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
    if choice not in ("auto", "none", "required") and choice.get("function", {}).get("name") not in names:
        raise Invalid("Invalid value for 'tool_choice': it names a function that is not in 'tools'.", "tool_choice")


def check_function_parameters(function: Json, place: str) -> None:
    """Raise `Invalid` unless the parameters of a function are a valid schema, of strict mode if it asks for that."""
    parameters = function.get("parameters", {"type": "object", "properties": {}})
    reason = ""
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        found = parameters.get("type") if isinstance(parameters, dict) else parameters
        reason = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{found}\"'."
    else:
        reason = next(_find_schema_errors(parameters, (), bool(function.get("strict"))), "")
    if reason:
        raise Invalid(f"Invalid schema for function '{function['name']}': {reason}", place)


def _find_schema_errors(schema: Any, path: tuple[str, ...], strict: bool) -> Iterator[str]:
    """Yield the errors of a schema and its subschemas."""
    if not isinstance(schema, dict):
        if not isinstance(schema, bool):
            yield f"In context={path}, schema must be an object or a boolean."
        return
    if schema.get("type") == "array" and "items" not in schema and "prefixItems" not in schema:
        yield f"In context={path}, array schema missing items."
    if strict and schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield f"In context={path}, 'additionalProperties' is required to be supplied and to be false."
        if missing := sorted(schema.get("properties", {}).keys() - set(schema.get("required", ()))):
            text = "'required' is required to be supplied and to be an array including every key in properties"
            yield f"In context={path}, {text}. Missing '{missing[0]}'."
    for key in ("properties", "$defs"):
        for name, inner in schema.get(key, {}).items():
            yield from _find_schema_errors(inner, (*path, key, name), strict)
    for key in ("anyOf", "allOf", "oneOf", "prefixItems"):
        for number, inner in enumerate(schema.get(key, ())):
            yield from _find_schema_errors(inner, (*path, key, str(number)), strict)
    for key in ("items", "additionalProperties", "not"):
        if key in schema:
            yield from _find_schema_errors(schema[key], (*path, key), strict)
