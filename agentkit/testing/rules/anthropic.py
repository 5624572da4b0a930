"""Anthropic's rules for a Messages request.

Sources: the API reference of Messages; "How to implement tool use"; "Extended thinking", preserving thinking blocks;
and the API's error messages.
"""

from typing import Any

from .invalid import IMAGE_TYPES, Invalid, Json, matches_whole, split_keys

_ID = r"[a-zA-Z0-9_-]+"
_NAME = r"[a-zA-Z0-9_-]{1,128}"
_PROPERTY = r"[a-zA-Z0-9_.-]{1,64}"
_PARAMETERS = split_keys(
    "model messages max_tokens system tools tool_choice stream temperature top_p top_k stop_sequences metadata "
    "thinking service_tier container mcp_servers context_management output_config output_format cache_control"
)
_SOURCES: dict[str, tuple[str, ...]] = {"image": IMAGE_TYPES, "document": ("application/pdf",)}
"""The media types of base64 sources."""
_MAX_MARKS = 4
_THOUGHTS = ("thinking", "redacted_thinking")
_SERVER_RESULTS = tuple(
    f"{name}_tool_result"
    for name in ("web_search", "web_fetch", "code_execution", "bash_code_execution", "text_editor_code_execution")
)
"""The results of tools that Anthropic runs, which stand in the same message as their calls."""
_BLOCKS = {
    "user": ("text", "image", "document", "search_result", "tool_result"),
    "assistant": ("text", "tool_use", "server_tool_use", *_SERVER_RESULTS, *_THOUGHTS),
}
_FIELDS = {
    "text": {"text", "citations"},
    "tool_use": {"id", "name", "input", "caller"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "server_tool_use": {"id", "name", "input", "caller"},
    **{kind: {"tool_use_id", "content", "caller"} for kind in _SERVER_RESULTS},
}


def check(body: Json, issued: Json) -> None:
    """Raise `Invalid` for a request that Anthropic would refuse."""
    for key in body.keys() - _PARAMETERS:
        raise Invalid(f"{key}: Extra inputs are not permitted")
    for key in ("model", "messages", "max_tokens"):
        if key not in body:
            raise Invalid(f"{key}: Field required")
    messages = [
        {**message, "content": [{"type": "text", "text": content}] if isinstance(content, str) else content}
        for message in body["messages"]
        for content in [message.get("content")]
    ]
    _check_roles(messages)
    for place, message in enumerate(messages):
        _check_blocks(message, f"messages.{place}", is_last=place == len(messages) - 1)
    _check_results(messages)
    _check_marks(body, messages)
    _check_thoughts(messages, issued)
    _check_tools(body, messages)


def remember(reply: Json, issued: Json) -> None:
    """Store the thinking of a reply with calls, which must come back unchanged."""
    thoughts = [block for block in reply["content"] if block["type"] in _THOUGHTS]
    for block in reply["content"] if thoughts else ():
        if block["type"] == "tool_use":
            issued[block["id"]] = thoughts
        elif "signature" in block:
            issued[block["signature"]] = block


def _check_roles(messages: list[Json]) -> None:
    if not messages:
        raise Invalid("messages: at least one message is required")
    if messages[0].get("role") != "user":
        raise Invalid('messages: first message must use the "user" role')
    for place, message in enumerate(messages):
        if message.get("role") not in _BLOCKS:
            raise Invalid(f"messages.{place}.role: Input should be 'user' or 'assistant'")
        if place and message["role"] == messages[place - 1]["role"]:
            found = f'found multiple "{message["role"]}" roles in a row'
            raise Invalid(f'messages: roles must alternate between "user" and "assistant", but {found}')


def _check_blocks(message: Json, place: str, *, is_last: bool) -> None:
    for key in message.keys() - {"role", "content"}:
        raise Invalid(f"{place}.{key}: Extra inputs are not permitted")
    role = message["role"]
    blocks = message["content"]
    if not isinstance(blocks, list):
        raise Invalid(f"{place}.content: Input should be a valid list")
    if not blocks and not (is_last and role == "assistant"):
        raise Invalid(
            f"{place}: all messages must have non-empty content except for the optional final assistant message"
        )
    for number, block in enumerate(blocks):
        at = f"{place}.content.{number}"
        kind = block.get("type")
        if kind not in _BLOCKS[role]:
            expected = ", ".join(f"'{name}'" for name in _BLOCKS[role])
            raise Invalid(
                f"{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {expected}"
            )
        for key in block.keys() - _FIELDS.get(kind, block.keys()) - {"type", "cache_control"}:
            raise Invalid(f"{at}.{kind}.{key}: Extra inputs are not permitted")
        _check_block(block, f"{at}.{kind}")
    if (
        is_last
        and role == "assistant"
        and blocks
        and blocks[-1].get("text", "x") != blocks[-1].get("text", "x").rstrip()
    ):
        raise Invalid("messages: final assistant content cannot end with trailing whitespace")


def _check_block(block: Json, at: str) -> None:
    kind = block["type"]
    if kind == "text":
        _check_text(block, at)
    elif kind in _SOURCES:
        _check_source(block, at)
    elif kind == "tool_use":
        if not matches_whole(_ID, block.get("id")):
            raise Invalid(f"{at}.id: String should match pattern '^{_ID}$'")
        if not matches_whole(_NAME, block.get("name")):
            raise Invalid(f"{at}.name: String should match pattern '^{_NAME}$'")
        if not isinstance(block.get("input"), dict):
            raise Invalid(f"{at}.input: Input should be a valid dictionary")
    elif kind == "tool_result":
        if not matches_whole(_ID, block.get("tool_use_id")):
            raise Invalid(f"{at}.tool_use_id: String should match pattern '^{_ID}$'")
        content = block.get("content", "")
        for number, inner in enumerate(content if isinstance(content, list) else ()):
            if inner.get("type") == "text":
                _check_text(inner, f"{at}.content.{number}.text")
            elif inner.get("type") in _SOURCES:
                _check_source(inner, f"{at}.content.{number}.{inner['type']}")
            elif inner.get("type") != "search_result":
                raise Invalid(f"{at}.content.{number}: Input tag '{inner.get('type')}' is not expected here")
        if not isinstance(content, str | list):
            raise Invalid(f"{at}.content: Input should be a valid string")
    elif kind == "thinking" and not isinstance(block.get("signature"), str):
        raise Invalid(f"{at}.signature: Field required")


def _check_source(block: Json, at: str) -> None:
    """Check that data in base64 has a media type that its block takes."""
    source = block.get("source") or {}
    types = _SOURCES[block["type"]]
    if source.get("type") == "base64" and source.get("media_type") not in types:
        expected = " or ".join(f"'{kind}'" for kind in types)
        raise Invalid(f"{at}.source.base64.media_type: Input should be {expected}")


def _check_text(block: Json, at: str) -> None:
    if not isinstance(block.get("text"), str):
        raise Invalid(f"{at}.text: Input should be a valid string")
    if not block["text"]:
        raise Invalid("messages: text content blocks must be non-empty")
    if not block["text"].strip():
        raise Invalid("messages: text content blocks must contain non-whitespace text")


def _check_results(messages: list[Json]) -> None:
    """Check that all calls of a turn have results in the next message, before its other blocks."""
    known: set[str] = set()
    uses: list[str] = []
    for place, message in enumerate([*messages, {"role": "end", "content": []}]):
        kinds = [block["type"] for block in message["content"]]
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        if "tool_result" in kinds[len(results) :] or len(set(results)) < len(results):
            text = "`tool_result` blocks must come first in a message, one for each `tool_use`"
            raise Invalid(f"messages.{place}: {text}")
        for identity in results:
            if identity not in uses:
                text = f"unexpected `tool_use_id` found in `tool_result` blocks: {identity}. Each `tool_result` block"
                must = "must have a corresponding `tool_use` block in the previous message."
                raise Invalid(f"messages.{place}.content: {text} {must}")
        if missing := [identity for identity in uses if identity not in results]:
            raise Invalid(
                f"messages.{place - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        uses = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if len(set(uses)) < len(uses) or known & set(uses):
            raise Invalid("messages: `tool_use` ids must be unique")
        known.update(uses)


def _check_marks(body: Json, messages: list[Json]) -> None:
    """Check that at most four blocks are marked for the cache."""
    system = body.get("system") if isinstance(body.get("system"), list) else []
    blocks = [*(system or ()), *(body.get("tools") or ()), *(block for one in messages for block in one["content"])]
    if (found := sum("cache_control" in block for block in blocks)) > _MAX_MARKS:
        raise Invalid(f"A maximum of {_MAX_MARKS} blocks with cache_control may be provided. Found {found}.")


def _check_thoughts(messages: list[Json], issued: Json) -> None:
    """Check that thinking is unchanged, and that it precedes the calls during a tool loop."""
    if not issued:
        return
    starts = [
        place
        for place, message in enumerate(messages)
        if message["role"] == "user" and any(block["type"] != "tool_result" for block in message["content"])
    ]
    for place, message in enumerate(messages):
        thoughts = [block for block in message["content"] if block["type"] in _THOUGHTS]
        for block in thoughts:
            if issued.get(block.get("signature", ""), block) != block:
                raise Invalid(f"messages.{place}.content.0: Invalid `signature` in `thinking` block")
        uses = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        wanted: list[Json] = next((issued[identity] for identity in uses if identity in issued), [])
        if not wanted or place < starts[-1]:
            continue
        if not thoughts:
            found = message["content"][0]["type"]
            text = f"Expected `thinking` or `redacted_thinking`, but found `{found}`"
            raise Invalid(f"messages.{place}.content.0.type: {text}")
        if message["content"][: len(wanted)] != wanted or len(thoughts) != len(wanted):
            raise Invalid(
                f"messages.{place}.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message "
                "cannot be modified. These blocks must remain as they were in the original response."
            )


def _check_tools(body: Json, messages: list[Json]) -> None:
    tools = body.get("tools") or []
    names = [tool.get("name") for tool in tools]
    if len(set(names)) < len(names):
        raise Invalid("tools: Tool names must be unique.")
    for number, tool in enumerate(tools):
        if "input_schema" in tool:  # other tools are the provider's own
            _check_tool(tool, f"tools.{number}.custom")
    if not tools and any(block["type"] == "tool_use" for message in messages for block in message["content"]):
        raise Invalid("Requests which include `tool_use` or `tool_result` blocks must define tools")
    choice = body.get("tool_choice") or {"type": "auto"}
    if "tool_choice" in body and not tools:
        raise Invalid("tool_choice: may only be specified while providing tools")
    if choice.get("type") not in ("auto", "any", "tool", "none"):
        raise Invalid(f"tool_choice: Input tag '{choice.get('type')}' is not expected")
    if choice["type"] == "tool" and choice.get("name") not in names:
        raise Invalid(f"tool_choice: Tool '{choice.get('name')}' not found in provided tools")
    thinks = (body.get("thinking") or {}).get("type") == "enabled"
    if thinks and choice["type"] in ("any", "tool"):
        raise Invalid("Thinking may not be enabled when tool_choice forces tool use.")
    if thinks and body["max_tokens"] <= body["thinking"].get("budget_tokens", 0):
        raise Invalid("`max_tokens` must be greater than `thinking.budget_tokens`")


def _check_tool(tool: Json, at: str) -> None:
    if not matches_whole(_NAME, tool.get("name")):
        raise Invalid(f"{at}.name: String should match pattern '^{_NAME}$'")
    schema: Any = tool["input_schema"]
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise Invalid(f"{at}.input_schema.type: Input should be 'object'")
    if schema.keys() & {"oneOf", "allOf", "anyOf"}:
        raise Invalid(f"{at}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level")
    for name in schema.get("properties", {}):
        if not matches_whole(_PROPERTY, name):
            raise Invalid(f"{at}.input_schema.properties: Property keys should match pattern '^{_PROPERTY}$'")
