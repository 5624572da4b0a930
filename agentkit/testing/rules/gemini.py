"""Gemini's rules for a generateContent request.

Sources: the API reference of `Content`, `Tool`, `Schema` and `ToolConfig`; "Function calling"; "Thought signatures";
and the API's error messages. Keys may be in camel case or with underscores.
"""

import json
import re
from typing import Any

from .invalid import Invalid, Json, matches_whole, split_keys

_NAME = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"
_PARAMETERS = split_keys("contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent")
_DATA = split_keys(
    "text inlineData functionCall functionResponse fileData executableCode codeExecutionResult toolCall toolResponse"
)
_PART = _DATA | {"thought", "thoughtSignature", "videoMetadata"}
_SCHEMA = split_keys(
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties "
    "minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum"
)
_FORMATS = {
    "STRING": ("enum", "date-time"),
    "INTEGER": ("int32", "int64"),
    "NUMBER": ("float", "double"),
}
_PLACEHOLDER_SIGNATURE = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""The documented signature for calls of another model."""


def check(body: Json, issued: Json) -> None:
    """Raise `Invalid` for a request that Gemini would refuse."""
    body = _to_camel_case(body, _PARAMETERS, "")
    turns = [_parse_turn(turn, f"contents[{place}]") for place, turn in enumerate(body.get("contents") or ())]
    if not turns:
        raise Invalid("* GenerateContentRequest.contents: contents is not specified")
    _check_order(turns)
    _check_signatures(turns, issued)
    _check_tools(body)


def remember(reply: Json, issued: Json) -> None:
    """Store the signatures of a reply's calls, which must come back."""
    for candidate in reply.get("candidates", ()):
        for part in candidate["content"].get("parts", ()):
            if "functionCall" in part:
                issued[_describe_call(part)] = part.get("thoughtSignature")


def _to_camel_case(value: Json, known: set[str], place: str) -> Json:
    found = {re.sub(r"_([a-z])", lambda match: match[1].upper(), key): item for key, item in value.items()}
    for key in found.keys() - known:
        where = f" at '{place}'" if place else ""
        raise Invalid(f'Invalid JSON payload received. Unknown name "{key}"{where}: Cannot find field.', place)
    return found


def _parse_turn(turn: Json, place: str) -> Json:
    role = turn.get("role", "user")
    if role not in ("user", "model", "function"):
        raise Invalid("Please use a valid role: user, model.", place)
    if not turn.get("parts"):
        raise Invalid(f"* GenerateContentRequest.{place}.parts: contents.parts must not be empty.", place)
    parts = [_parse_part(part, f"{place}.parts[{number}]") for number, part in enumerate(turn["parts"])]
    return {"role": "model" if role == "model" else "user", "parts": parts}


def _parse_part(part: Json, place: str) -> Json:
    part = _to_camel_case(part, _PART, place)
    if len(part.keys() & _DATA) != 1 or part.get("text", "x") == "":
        text = "required oneof field 'data' must have one initialized field"
        raise Invalid(f"* GenerateContentRequest.{place}.data: {text}", place)
    for key in ("inlineData", "fileData"):
        if key in part and not _read_media_type(part[key]):
            raise Invalid(f"Unsupported MIME type: {_read_media_type(part[key])}", place)
    for key, field in (("functionCall", "args"), ("functionResponse", "response")):
        if key in part and not matches_whole(_NAME, part[key].get("name")):
            raise Invalid(f"* GenerateContentRequest.{place}.{key}.name: Name cannot be empty or invalid.", place)
        if key in part and not isinstance(part[key].get(field, {}), dict):
            raise Invalid(
                f"Invalid value at '{place}.{key}.{field}' (type.googleapis.com/google.protobuf.Struct)", place
            )
    return part


def _read_media_type(data: Json) -> str:
    return str(data.get("mimeType") or data.get("mime_type") or "")


def _list_names(turn: Json, key: str) -> list[str]:
    return [part[key]["name"] for part in turn["parts"] if key in part]


def _check_order(turns: list[Json]) -> None:
    if turns[0]["role"] != "user" or turns[-1]["role"] != "user":
        raise Invalid("Please ensure that multiturn requests start and end with a user turn or a function response.")
    calls: list[str] = []
    for place, turn in enumerate(turns):
        answers = place and _list_names(turns[place - 1], "functionResponse")  # a user message may follow directly
        if place and turn["role"] == turns[place - 1]["role"] and not answers:
            raise Invalid("Please ensure that multiturn requests alternate between user and model.", "contents")
        responses = _list_names(turn, "functionResponse")
        if responses and any("text" in part for part in turn["parts"]):
            raise Invalid("Please ensure that a function response turn holds function responses only.", "contents")
        if responses and not calls:
            raise Invalid("Please ensure that function response turn comes immediately after a function call turn.")
        if len(responses) != len(calls):
            raise Invalid(
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        if responses != calls:
            raise Invalid(f"Function responses {responses} do not match the function calls {calls}.")
        calls = _list_names(turn, "functionCall")
        if calls and turn["role"] != "model":
            raise Invalid("Please ensure that function call turn comes immediately after a user turn.")


def _check_signatures(turns: list[Json], issued: Json) -> None:
    """Check that the calls since the last user message have their original signatures."""
    begins = max(
        place
        for place, turn in enumerate(turns)
        if turn["role"] == "user" and (not place or not _list_names(turn, "functionResponse"))
    )
    for place, turn in enumerate(turns):
        for position, part in enumerate(turn["parts"]):
            if "functionCall" not in part:
                continue
            signature = part.get("thoughtSignature")
            wanted = issued.get(_describe_call(part))
            if place > begins and wanted and signature is None:
                name = part["functionCall"]["name"]
                raise Invalid(
                    "Function call is missing a thought_signature in functionCall parts. Additional data, "
                    f"function call `default_api:{name}`, position {position}."
                )
            if (
                wanted
                and signature not in (None, wanted)
                and not (place < begins and signature == _PLACEHOLDER_SIGNATURE)
            ):
                raise Invalid("Corrupted thought signature.", f"contents[{place}].parts[{position}]")


def _describe_call(part: Json) -> str:
    call = part["functionCall"]
    return f"{call['name']} {json.dumps(call.get('args', {}), sort_keys=True)}"


def _check_tools(body: Json) -> None:
    declared = [
        (declaration, f"tools[{number}].function_declarations[{place}]")
        for number, tool in enumerate(body.get("tools") or ())
        for place, declaration in enumerate(tool.get("function_declarations") or tool.get("functionDeclarations") or ())
    ]
    names = set()
    for declaration, place in declared:
        known = {"name", "description", "parameters", "parametersJsonSchema", "response", "behavior"}
        declaration = _to_camel_case(declaration, known, place)
        if not matches_whole(_NAME, declaration.get("name")):
            text = (
                "Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, "
                "0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
            )
            raise Invalid(f"* GenerateContentRequest.{place}.name: {text}", place)
        if declaration["name"] in names:
            raise Invalid(f"Duplicate function declaration found: {declaration['name']}", place)
        names.add(declaration["name"])
        if "parameters" in declaration:
            _check_schema(declaration["parameters"], f"{place}.parameters")
    config = _to_camel_case(
        body.get("toolConfig") or {},
        {"functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations"},
        "tool_config",
    )
    config = _to_camel_case(config.get("functionCallingConfig") or {}, {"mode", "allowedFunctionNames"}, "tool_config")
    if config.get("mode", "AUTO") not in ("AUTO", "ANY", "NONE", "VALIDATED"):
        raise Invalid(f"Invalid value at 'tool_config.function_calling_config.mode': {config['mode']}", "tool_config")
    if set(config.get("allowedFunctionNames", ())) - names:
        raise Invalid("allowed_function_names should be a subset of the function declarations.", "tool_config")


def _check_schema(schema: Any, place: str) -> None:
    if not isinstance(schema, dict):
        raise Invalid(f"Invalid value at '{place}': a schema is an object", place)
    for key in schema.keys() - _SCHEMA:
        raise Invalid(f"Invalid JSON payload received. Unknown name \"{key}\" at '{place}': Cannot find field.", place)
    kind = str(schema.get("type", "")).upper()
    fault = ""
    if kind == "ARRAY" and "items" not in schema:
        fault = "items: missing field."
    elif schema.get("enum") and kind != "STRING":
        fault = "enum: only allowed for STRING type"
    elif schema.get("format") not in (None, *_FORMATS.get(kind, ())):
        fault = f"format: only {_FORMATS.get(kind, ())} are supported for {kind} type"
    elif missing := set(schema.get("required", ())) - schema.get("properties", {}).keys():
        fault = f"required: property {sorted(missing)[0]} is not defined"
    elif not kind and "anyOf" not in schema:
        fault = "type: must be specified"
    if fault:
        raise Invalid(f"* GenerateContentRequest.{place}.{fault}", place)
    for name, inner in schema.get("properties", {}).items():
        _check_schema(inner, f"{place}.properties[{name}]")
    for number, inner in enumerate(schema.get("anyOf", ())):
        _check_schema(inner, f"{place}.any_of[{number}]")
    if "items" in schema:
        _check_schema(schema["items"], f"{place}.items")
