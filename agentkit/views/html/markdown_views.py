"""A run, a conversation or tools as Markdown, for places that show no HTML; markup in a text has no effect."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...core.delimiters import remove_delimiters
from ...core.masking import mask, mask_data
from .conversation import content_of
from .figures import format_cost, format_seconds, format_tokens
from .run import SessionLike
from .tool_catalogue import ToolLike

MAX_VALUE_CHARS = 300
"""Characters of a value in a line."""
_MARKS = re.compile(r"([\\`*_\[\]<>#|~$&!]|^[-+=:]|(?<=^\d)[.)])")


def result_markdown(result: Mapping[str, Any]) -> str:
    """Return the answer, the figures and the calls of a result's plain data."""
    result = mask_data(result)
    answer = result.get("error") or result.get("answer")
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
    usage = result.get("usage") or {}
    parts = (
        str(result.get("model", "")), f"stopped: {result.get('stopped')}", format_seconds(result.get("seconds", 0.0)),
        f"{usage.get('requests', 0)} requests", format_tokens(usage), format_cost(usage),
    )  # fmt: skip
    messages = result.get("messages", ())
    figures = escape_markdown(", ".join(filter(None, parts)))
    calls = _call_lists(messages, _results(messages))
    return "\n\n".join([*map(escape_markdown, text.split("\n\n")), f"*{figures}*", *calls])


def session_markdown(session: SessionLike) -> str:
    """Return the conversation without the instruction."""
    messages = mask_data([*session.messages])
    results, parts = _results(messages), []
    for message in messages:
        if message["role"] in ("user", "assistant"):
            text = [escape_markdown(content_of(message)[:MAX_VALUE_CHARS])] if content_of(message) else []
            parts.append("\n\n".join([f"**{message['role']}**", *text, *_call_lists([message], results)]))
    return "\n\n".join(parts)


def tools_markdown(tools: Mapping[str, ToolLike]) -> str:
    """Return a list of tools with the first lines of their descriptions."""
    first_lines = ((tool.name, mask(tool.description).splitlines()[0]) for tool in tools.values())
    return "\n".join(f"- {code_span(name)} {escape_markdown(line)}" for name, line in first_lines)


def _results(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {message.get("tool_call_id", ""): content_of(message) for message in messages if message["role"] == "tool"}


def _call_lists(messages: Sequence[Mapping[str, Any]], results: Mapping[str, str]) -> Iterator[str]:
    """Yield one list of all calls with their results, if there are calls."""
    lines = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            result = remove_delimiters(results.get(call["id"], ""))
            texts = (call["function"]["name"], call["function"]["arguments"], result)
            lines.append("- " + " ".join(code_span(text) for text in texts if text))
    if lines:
        yield "\n".join(lines)


def escape_markdown(text: str) -> str:
    """Return the text as one paragraph without markup."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def code_span(text: str) -> str:
    """Return a span of code with exactly this text, truncated to `MAX_VALUE_CHARS`."""
    line = " ".join(text.split())
    line = f"{line[:MAX_VALUE_CHARS]}..." if len(line) > MAX_VALUE_CHARS else line
    ticks = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    return f"{ticks} {line} {ticks}" if line else ""
