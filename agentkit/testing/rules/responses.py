"""OpenAI's rules for a request to its Responses API, above all for the items that must come back.

Source: the API reference of Responses, the guides "Conversation state" and "Reasoning models" (keeping reasoning items
in context), and the API's error messages.  The API finds the reasoning of a call by the ids of their items.  Here it is
found by the id of the call, because a client may leave out the ids of items, and then loses the reasoning unnoticed.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .invalid import Invalid, Json, is_object_text, split_keys
from .openai import check_document, check_function_name, check_function_parameters, check_image, check_text

_PARAMETERS = split_keys(
    "model input instructions tools tool_choice stream stream_options temperature top_p max_output_tokens "
    "max_tool_calls reasoning include store previous_response_id conversation metadata parallel_tool_calls text "
    "truncation user service_tier prompt_cache_key prompt_cache_retention safety_identifier background top_logprobs "
    "context_management prompt"
)
_INCLUDES = split_keys(
    "reasoning.encrypted_content message.output_text.logprobs message.input_image.image_url "
    "file_search_call.results web_search_call.results web_search_call.action.sources code_interpreter_call.outputs "
    "computer_call_output.output.image_url"
)
_INPUT_PARTS: dict[str, tuple[str, ...]] = {
    "input_text": ("text",),
    "input_image": ("image_url", "file_id"),
    "input_file": ("file_data", "file_id", "file_url"),
}
_OUTPUT_PARTS: dict[str, tuple[str, ...]] = {"output_text": ("text",), "refusal": ("refusal",)}
_WITHOUT_REASONING = ("gpt-3", "gpt-4", "chatgpt-4o")
"""Beginnings of the names of models that do not reason."""
_MAX_ID_CHARS = 64


def check(body: Json, issued: Json) -> None:
    """Raise `Invalid` for a request that OpenAI would refuse; `issued` has the reasoning of each issued call."""
    for key in body.keys() - _PARAMETERS:
        raise Invalid(f"Unknown parameter: '{key}'.", key)
    _check_include(body)
    _check_tools(body)
    items = body.get("input")
    if not isinstance(items, str | list) or not items:
        raise Invalid("Missing required parameter: 'input'.", "input")
    if isinstance(items, list):
        for number, item in enumerate(items):
            _check_item(item, f"input[{number}]")
        _check_order(items)
        _check_reasoning(items, issued, is_stored=body.get("store") is not False)


def remember(reply: Json, issued: Json) -> None:
    """Store the reasoning items of a whole reply under the ids of its calls, and all under their own ids.

    The type of the item that follows each is stored too.
    """
    reasoning = [item for item in reply["output"] if item["type"] == "reasoning"]
    issued.update({item["id"]: item for item in reasoning})
    issued.update(
        {f"after {item['id']}": after["type"] for item, after in pairwise(reply["output"]) if item in reasoning}
    )
    steps = {  # reasoning that leads to a step of the API's own tools comes back with that step, or not at all
        item["id"]
        for item, after in pairwise(reply["output"])
        if item in reasoning and after["type"].endswith("_call") and after["type"] != "function_call"
    }
    required = [item for item in reasoning if item["id"] not in steps]
    for item in reply["output"]:
        if item["type"] == "function_call":
            for key in ("id", "call_id"):
                issued[item.get(key)] = required


def _check_include(body: Json) -> None:
    for number, name in enumerate(body.get("include") or ()):
        if name not in _INCLUDES:
            raise Invalid(f"Invalid value: '{name}'.", f"include[{number}]")
        if name == "reasoning.encrypted_content" and str(body.get("model")).startswith(_WITHOUT_REASONING):
            raise Invalid("Encrypted content is not supported with this model.", "include")


def _check_tools(body: Json) -> None:
    for number, tool in enumerate(body.get("tools") or ()):
        place = f"tools[{number}]"
        if tool.get("type") != "function":
            continue
        for key in tool.keys() - {"type", "name", "description", "parameters", "strict"}:
            raise Invalid(f"Unknown parameter: '{place}.{key}'.", f"{place}.{key}")
        for key in ("parameters", "strict"):
            if key not in tool:
                raise Invalid(f"Missing required parameter: '{place}.{key}'.", f"{place}.{key}")
        check_function_name(tool.get("name"), f"{place}.name")
        check_function_parameters(tool, f"{place}.parameters")


def _check_item(item: Json, place: str) -> None:
    match item.get("type", "message"):
        case "message":
            _check_message(item, place)
        case "function_call":
            check_text(item.get("call_id"), f"{place}.call_id", _MAX_ID_CHARS)
            check_function_name(item.get("name"), f"{place}.name")
            if not is_object_text(item.get("arguments", "")):
                raise Invalid(f"Invalid '{place}.arguments': not the text of a JSON object.", f"{place}.arguments")
        case "function_call_output":
            check_text(item.get("call_id"), f"{place}.call_id", _MAX_ID_CHARS)
            if not isinstance(item.get("output"), str):
                _check_parts(item.get("output"), _INPUT_PARTS, f"{place}.output")
        case "reasoning":
            for key in ("id", "summary"):
                if key not in item:
                    raise Invalid(f"Missing required parameter: '{place}.{key}'.", f"{place}.{key}")
        case other:
            raise Invalid(f"Invalid value: '{other}'.", f"{place}.type")


def _check_message(item: Json, place: str) -> None:
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        raise Invalid(f"Invalid value: '{role}'.", f"{place}.role")
    for key in item.keys() - {"type", "role", "content", "id", "status"}:
        raise Invalid(f"Unknown parameter: '{place}.{key}'.", f"{place}.{key}")
    if not isinstance(item.get("content"), str):
        _check_parts(item.get("content"), _OUTPUT_PARTS if role == "assistant" else _INPUT_PARTS, f"{place}.content")


def _check_parts(parts: Any, kinds: dict[str, tuple[str, ...]], place: str) -> None:
    if not isinstance(parts, list):
        raise Invalid(f"Invalid type for '{place}': expected an array of objects or a string.", place)
    for number, part in enumerate(parts):
        keys = kinds.get(part.get("type"))
        if keys is None:
            supported = ", ".join(f"'{kind}'" for kind in kinds)
            text = f"Invalid value: '{part.get('type')}'. Supported values are: {supported}."
            raise Invalid(text, f"{place}[{number}].type")
        if not any(isinstance(part.get(key), str) for key in keys):
            raise Invalid(f"Missing required parameter: '{place}[{number}].{keys[0]}'.", f"{place}[{number}]")
        for key, check in (("image_url", check_image), ("file_data", check_document)):
            if key in part:
                check(part[key], f"{place}[{number}].{key}")


def _check_order(items: Sequence[Json]) -> None:
    """Check that each call has an output behind it, and each output a call before it."""
    open_calls: dict[Any, None] = {}
    for number, item in enumerate(items):
        if item.get("type") == "function_call":
            open_calls[item["call_id"]] = None
        elif item.get("type") == "function_call_output":
            if item["call_id"] not in open_calls:
                text = f"No tool call found for function call output with call_id {item['call_id']}."
                raise Invalid(text, f"input[{number}]")
            del open_calls[item["call_id"]]
    for identity in open_calls:
        raise Invalid(f"No tool output found for function call {identity}.", "input")


def _check_reasoning(items: Sequence[Json], issued: Json, *, is_stored: bool) -> None:
    """Check that the calls since the last user message come with the reasoning that led to them, unchanged."""
    last = max((number for number, item in enumerate(items) if item.get("role") == "user"), default=-1)
    found: dict[str, Json] = {}
    for number, item in enumerate(items):
        if item.get("type") == "reasoning":
            _check_reasoning_item(item, items[number + 1 : number + 2], issued, is_stored=is_stored)
            found[item["id"]] = item
        elif item.get("type") == "function_call" and number > last:
            for needed in issued.get(item["call_id"], ()):
                if needed["id"] not in found:
                    text = f"Item '{item.get('id') or item['call_id']}' of type 'function_call' was provided without"
                    raise Invalid(f"{text} its required 'reasoning' item: '{needed['id']}'.", "input")


def _check_reasoning_item(item: Json, following: Sequence[Json], issued: Json, *, is_stored: bool) -> None:
    identity = item["id"]
    content = item.get("encrypted_content")
    known = issued.get(identity)
    if content is None and (known is None or not is_stored):
        text = f"Item with id '{identity}' not found."
        raise Invalid(text if is_stored else f"{text} Items are not persisted when `store` is set to false.", "input")
    if content is not None and known is not None and content != known.get("encrypted_content"):
        raise Invalid(f"The encrypted content for item {identity} could not be verified.", "input")
    after = issued.get(f"after {identity}")
    kind = following[0].get("type", "message") if following else ""
    if not following or following[0].get("role") in ("user", "system", "developer") or (after and after != kind):
        text = f"Item '{identity}' of type 'reasoning' was provided without its required following item."
        raise Invalid(text, "input")
