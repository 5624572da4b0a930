"""Rules about one tool as a whole: its description, and whether it can be strict."""

import re
from collections.abc import Iterator
from typing import Any

from ...schemas.formats.function_fields import DESCRIPTION
from ...schemas.formats.limits import excess
from ..json_tool import JsonTool
from .finding import Finding
from .texts import repeats, words

FEWEST_WORDS = 3
ADVICE = "say what it does and returns, and when to use it"


def tool_findings(tool: JsonTool[..., Any]) -> Iterator[Finding]:
    """What is wrong with the description of `tool`, or with the size or shape of its schema."""
    text = tool.description
    if repeats(text, tool.name):
        message = f"the description {text!r} only repeats the name: {ADVICE}"
        yield Finding(tool.name, "", "tool-description", message, "warning")
    elif len(words(text)) < FEWEST_WORDS:
        message = f"the description {text!r} is too short: {ADVICE}"
        yield Finding(tool.name, "", "tool-description", message, "warning")
    if len(text) > DESCRIPTION:
        message = f"the description has {len(text)} characters; OpenAI takes {DESCRIPTION}, the rest is sent elsewhere"
        yield Finding(tool.name, "", "long-description", message, "warning")
    if reason := excess(tool.schema("json")):
        message = f"too large for OpenAI's strict mode: {reason}"
        yield Finding(tool.name, "", "too-large", message, "warning")
    reasons = [f"{_path(loss.path)}{_reason(loss.moved_to)}" for loss in _obstacles(tool)]
    if reasons and not reason:
        message = f"cannot be sent in OpenAI's strict mode: {'; '.join(reasons)}"
        yield Finding(tool.name, "", "not-strict", message, "hint")


def _obstacles(tool: JsonTool[..., Any]) -> Iterator[Any]:
    return (loss for loss in tool.losses("openai_strict") if loss.keyword == "strict")


def _path(path: str) -> str:
    """`parameters.properties.lines.items` -> "lines[]: "."""
    short = re.sub(r"\.(?:anyOf|properties)(?=\.|$)|\.\d+(?=\.|$)", "", path.removeprefix("parameters"))
    short = re.sub(r"\.items(?=\.|$)", "[]", short).lstrip(".")
    return f"{short}: " if short else ""


def _reason(moved_to: str) -> str:
    return moved_to.removeprefix("dropped: ")
