"""What three providers refuse in a conversation, written from their documentation, on what goes over the wire.

Each `..._problems` takes messages as `prepare_messages` sends them to litellm and says what is wrong with them; an
empty list is a conversation that the provider answers.  `anthropic_body` and `gemini_body` do what litellm does on the way: the system prompt apart, messages of one side joined, results in the user's turn.
Sources: OpenAI "Create chat completion" and its errors; Anthropic "Messages", "Tool use", "Extended thinking" and
their errors; Gemini "generateContent", "Function calling" and its errors.
"""

import json
import re
from itertools import groupby
from typing import Any

from agentkit.models.litellm.requests import MessageForm, SentConversation

Json = dict[str, Any]
OPENAI_KEYS = {
    "system": {"role", "content", "name", "cache_control"},
    "user": {"role", "content", "name", "cache_control"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id", "cache_control"},
}


def prepare_messages(messages: list[Json], provider: str, **form: Any) -> list[Json]:
    """Return the messages to send to a provider in a `MessageForm`, all converted anew."""
    return SentConversation(MessageForm(provider, **form)).prepare(messages)


def unsendable(body: Any) -> list[str]:
    """JSON in UTF-8 is all that a request can hold."""
    try:
        json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return [f"cannot be sent: {error!r}"]
    return []


def openai_problems(messages: list[Json]) -> list[str]:
    if problems := unsendable(messages):
        return problems
    if not messages:
        return ["[] is too short - 'messages'"]
    seen: set[str] = set()
    awaited: list[str] = []
    for place, message in enumerate(messages):
        role = message.get("role")
        if role not in OPENAI_KEYS:
            return [f"messages[{place}].role: {role!r}"]
        if extra := message.keys() - OPENAI_KEYS[role]:
            problems.append(f"messages[{place}]: unknown keys {extra}")
        if role == "tool":
            if message.get("tool_call_id") not in awaited:
                problems.append(f"messages[{place}]: role 'tool' must be a response to a preceding 'tool_calls'")
            else:
                awaited.remove(message["tool_call_id"])
        elif awaited:
            problems.append(f"messages[{place}]: tool_call_ids without response: {awaited}")
            awaited = []
        if role == "assistant":
            calls = message.get("tool_calls")
            problems += openai_call_problems(place, calls, seen) if "tool_calls" in message else []
            awaited = [call["id"] for call in calls or ()]
            if message.get("content") is None and not calls:
                problems.append(f"messages[{place}].content: expected a string, got null")
        if not (role == "assistant" and message.get("content") is None):
            problems += openai_content_problems(place, role, message.get("content"))
        if not re.fullmatch(r"[^\s<|\\/>]{1,64}", message.get("name", "nobody")):
            problems.append(f"messages[{place}].name: {message['name']!r}")
    if awaited:
        problems.append(f"tool_call_ids without response at the end: {awaited}")
    return problems


def openai_call_problems(place: int, calls: Any, seen: set[str]) -> list[str]:
    problems = []
    if not isinstance(calls, list) or not calls:
        return [f"messages[{place}].tool_calls: {calls!r}"]
    for call in calls:
        if call.keys() != {"id", "type", "function"} or call["function"].keys() != {"name", "arguments"}:
            problems.append(f"messages[{place}].tool_calls: {call}")
            continue
        identity = call["id"]
        function = call["function"]
        if not isinstance(identity, str) or not 1 <= len(identity) <= 40 or identity in seen:
            problems.append(f"messages[{place}].tool_calls.id: {identity!r}")
        seen.add(identity)
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"]):
            problems.append(f"messages[{place}].tool_calls.function.name: {function['name']!r}")
        if not isinstance(function["arguments"], str) or not isinstance(json.loads(function["arguments"]), dict):
            problems.append(f"messages[{place}].tool_calls.function.arguments: {function['arguments']!r}")
    return problems


def openai_content_problems(place: int, role: str, content: Any) -> list[str]:
    if isinstance(content, str):
        return [] if content or role == "tool" else [f"messages[{place}].content: empty"]
    if not isinstance(content, list) or not content:
        return [f"messages[{place}].content: {content!r}"]
    problems = []
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            problems.append(f"messages[{place}].content: {part!r}")
        elif part["type"] not in ("text", "refusal") and role in ("assistant", "system"):
            problems.append(f"messages[{place}].content.type: {part['type']!r}")
        elif part["type"] == "text" and not isinstance(part.get("text"), str):
            problems.append(f"messages[{place}].content.text: {part!r}")
    return problems


def text_blocks(content: Any) -> list[Json]:
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else [dict(part) for part in content]


def anthropic_body(messages: list[Json]) -> Json:
    """The system prompt, and the messages of each side in one."""
    system = []
    turns = []
    for message in messages:
        role = message["role"]
        content = text_blocks(message.get("content"))
        if role == "system" and not turns:
            system += content
        elif role == "tool":
            identity = re.sub(r"[^a-zA-Z0-9_-]", "_", message["tool_call_id"])
            block = {"type": "tool_result", "tool_use_id": identity, "content": message["content"]}
            turns.append(("user", [block]))
        elif role == "assistant":
            uses = [anthropic_use(call) for call in message.get("tool_calls", ())]
            turns.append((role, [*message.get("thinking_blocks", ()), *content, *uses]))
        else:
            turns.append((role, content))
    joined = groupby(turns, key=lambda turn: turn[0])
    merged = [{"role": role, "content": [block for _, blocks in same for block in blocks]} for role, same in joined]
    return {"system": system, "messages": merged}


def anthropic_use(call: Json) -> Json:
    identity = re.sub(r"[^a-zA-Z0-9_-]", "_", call["id"])
    arguments = json.loads(call["function"]["arguments"])
    return {"type": "tool_use", "id": identity, "name": call["function"]["name"], "input": arguments}


def anthropic_problems(body: Json) -> list[str]:
    problems = unsendable(body)
    turns = body["messages"]
    if not turns or turns[0]["role"] != "user":
        problems.append("messages: the first message must use the user role")
    used: set[str] = set()
    awaited: list[str] = []
    for place, turn in enumerate(turns):
        blocks = turn["content"]
        if turn["role"] not in ("user", "assistant"):
            problems.append(f"messages.{place}: unexpected role {turn['role']!r}")
        if place and turn["role"] == turns[place - 1]["role"]:
            problems.append(f"messages.{place}: roles must alternate")
        if not blocks:
            problems.append(f"messages.{place}: content must be non-empty")
        problems += blank_texts(place, blocks)
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(awaited):
            problems.append(f"messages.{place}: tool_use ids {awaited} were followed by tool_result ids {results}")
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            problems.append(f"messages.{place}: tool_result blocks must stand first")
        problems += anthropic_assistant_problems(place, blocks, used) if turn["role"] == "assistant" else []
        awaited = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return problems + ([f"`tool_use` ids without `tool_result` at the end: {awaited}"] if awaited else [])


def blank_texts(place: int, blocks: list[Json]) -> list[str]:
    nested = [block["content"] for block in blocks if block["type"] == "tool_result"]
    inner = [part for content in nested if isinstance(content, list) for part in content]
    texts = [block.get("text") for block in [*blocks, *inner] if block["type"] == "text"]
    return [
        f"messages.{place}: text content blocks must contain non-whitespace text" for text in texts if not text.strip()
    ]


def anthropic_assistant_problems(place: int, blocks: list[Json], used: set[str]) -> list[str]:
    problems = []
    thinking = [block["type"] in ("thinking", "redacted_thinking") for block in blocks]
    if any(thinking) and not thinking[0]:
        problems.append(f"messages.{place}: the first block must be thinking, found {blocks[0]['type']}")
    for block in blocks:
        if block["type"] == "thinking" and not block.get("signature"):
            problems.append(f"messages.{place}.thinking.signature: field required")
        if block["type"] == "tool_use":
            if block["id"] in used or not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
                problems.append(f"messages.{place}: `tool_use` id {block['id']!r}")
            used.add(block["id"])
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["name"]) or not isinstance(block["input"], dict):
                problems.append(f"messages.{place}: tool_use {block['name']!r} {block['input']!r}")
    return problems


def gemini_body(messages: list[Json]) -> Json:
    """The system instruction, and the contents: texts of one side in one, the responses of one turn in one."""
    system: list[Json] = []
    names: dict[str, str] = {}
    turns: list[tuple[str, list[Json]]] = []
    for message in messages:
        role = message["role"]
        parts = [
            {"text": block["text"]} if block["type"] == "text" else block
            for block in text_blocks(message.get("content"))
        ]
        if role == "system" and not turns:
            system += parts
        elif role == "tool":
            response = {"name": names.get(message["tool_call_id"]), "response": {"content": message["content"]}}
            turns.append(("response", [{"function_response": response}]))
        elif role == "assistant":
            calls = message.get("tool_calls", ())
            names = {call["id"]: call["function"]["name"] for call in calls} or names
            turns.append(("model", parts + [gemini_call(call) for call in calls]))
        else:
            turns.append((role, parts))
    joined = groupby(turns, key=lambda turn: turn[0])
    shown = {"response": "user"}
    merged = [
        {"role": shown.get(role, role), "parts": [part for _, parts in same for part in parts]} for role, same in joined
    ]
    return {"system_instruction": {"parts": system}, "contents": merged}


def gemini_call(call: Json) -> Json:
    return {"function_call": {"name": call["function"]["name"], "args": json.loads(call["function"]["arguments"])}}


def gemini_problems(body: Json) -> list[str]:
    problems = unsendable(body)
    contents = body["contents"]
    if not contents or contents[0]["role"] != "user":
        problems.append("contents must begin with a user turn")
    called: list[str] = []
    for place, content in enumerate(contents):
        parts = content["parts"]
        if content["role"] not in ("user", "model") or not parts:
            problems.append(f"contents[{place}]: role {content['role']!r}, {len(parts)} parts")
        if any(part.get("text") == "" for part in parts):
            problems.append(f"contents[{place}].parts: must have one initialized field")
        answered = [part["function_response"]["name"] for part in parts if "function_response" in part]
        if answered and not called:
            problems.append(
                f"contents[{place}]: function response turn must come immediately after a function call turn"
            )
        if answered != called:
            problems.append(f"contents[{place}]: function responses {answered} to function calls {called}")
        called = [part["function_call"]["name"] for part in parts if "function_call" in part]
        if called and (place == 0 or contents[place - 1]["role"] != "user"):
            problems.append(f"contents[{place}]: function call turn must come after a user or function response turn")
        for name in called:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", name):
                problems.append(f"contents[{place}]: function name {name!r}")
    return problems + ([f"function calls without responses at the end: {called}"] if called else [])
