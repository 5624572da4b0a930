"""A run, a conversation or tools as Markdown, for places that show no HTML; nothing in a text is markup."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...core.delimiters import remove_delimiters
from ...core.masking import mask, mask_data
from .conversation import content_of
from .figures import dollars, duration, tokens
from .run import Talked
from .tool_catalogue import Tool

LONGEST = 300
"""Characters of a value in a line."""
_MARKS = re.compile(r"([\\`*_\[\]<>#|~$&!]|^[-+=:]|(?<=^\d)[.)])")


def result_markdown(result: Mapping[str, Any]) -> str:
    """The answer, the figures and the calls of a result's plain data."""
    result = mask_data(result)
    answer = result.get("error") or result.get("answer")
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
    usage = result.get("usage") or {}
    told = (
        str(result.get("model", "")), f"stopped: {result.get('stopped')}", duration(result.get("seconds", 0.0)),
        f"{usage.get('requests', 0)} requests", tokens(usage), dollars(usage),
    )  # fmt: skip
    messages = result.get("messages", ())
    figures = plain(", ".join(filter(None, told)))
    return "\n\n".join([*map(plain, text.split("\n\n")), f"*{figures}*", *_calls(messages, _results(messages))])


def session_markdown(session: Talked) -> str:
    """What was said, without the instruction."""
    messages = mask_data([*session.messages])
    results, parts = _results(messages), []
    for message in messages:
        if message["role"] in ("user", "assistant"):
            said = [plain(content_of(message)[:LONGEST])] if content_of(message) else []
            parts.append("\n\n".join([f"**{message['role']}**", *said, *_calls([message], results)]))
    return "\n\n".join(parts)


def tools_markdown(tools: Mapping[str, Tool]) -> str:
    """A list of tools with their first lines."""
    return "\n".join(f"- {code(tool.name)} {plain(mask(tool.description).splitlines()[0])}" for tool in tools.values())


def _results(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {message.get("tool_call_id", ""): content_of(message) for message in messages if message["role"] == "tool"}


def _calls(messages: Sequence[Mapping[str, Any]], results: Mapping[str, str]) -> Iterator[str]:
    lines = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            said = (
                call["function"]["name"],
                call["function"]["arguments"],
                remove_delimiters(results.get(call["id"], "")),
            )
            lines.append("- " + " ".join(code(text) for text in said if text))
    if lines:
        yield "\n".join(lines)


def plain(text: str) -> str:
    """Text in which no mark is markup, in one paragraph."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """A span of code that holds exactly this text, of a long one the head."""
    line = " ".join(text.split())
    line = f"{line[:LONGEST]}..." if len(line) > LONGEST else line
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}" if line else ""
