"""Rules about whole tools: their descriptions, tools that a model would confuse, and limits of one request.

Sources: OpenAI refuses more than 128 tools ("array_above_max_length": openai/openai-openapi#76,
claude-code-router#686); Anthropic's limits for strict tools are in its guide "Structured outputs", per request.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import combinations
from typing import Any

from ...schemas.formats.openai import MAX_DESCRIPTION_CHARS
from ...schemas.formats.strict_mode import find_exceeded_limit
from ..json_tool import JsonTool
from .finding import LintFinding, iter_places
from .texts import repeats, split_words

MAX_OPENAI_TOOLS = 128
MAX_STRICT_TOOLS, MAX_STRICT_OPTIONAL, MAX_STRICT_UNIONS = 20, 24, 16
SAME_RATIO, ALIKE_RATIO = 0.9, 0.8
"""The difflib ratio from which two descriptions are as good as the same, or easily confused."""
MIN_SHARED_RATIO = 0.5
"""The part of their words that two descriptions must share to be compared letter by letter, which is slow."""


def check_pairs(tools: Sequence[JsonTool[..., Any]]) -> Iterator[LintFinding]:
    """Yield the pairs of tools that a model cannot tell apart, as findings of the second."""
    names = {tool.name: sorted(split_words(tool.name)) for tool in tools}
    vocabulary = {tool.name: frozenset(split_words(tool.description)) for tool in tools}
    for first, second in combinations(tools, 2):
        one, other = vocabulary[first.name], vocabulary[second.name]
        is_worth_it = 2 * len(one & other) >= MIN_SHARED_RATIO * (len(one) + len(other))
        ratio = _compare_texts(first.description, second.description) if is_worth_it else 0.0
        if ratio >= SAME_RATIO or names[first.name] == names[second.name]:
            message = f"is nearly the same as {first.name}: merge them, or say in both when to use which"
            yield LintFinding(second.name, "", "similar-tools", message, "warning")
        elif ratio >= ALIKE_RATIO and _compare_texts(first.name, second.name) >= ALIKE_RATIO:
            message = f"is easily mistaken for {first.name}: say in both when to use which"
            yield LintFinding(second.name, "", "similar-tools", message, "hint")


def _compare_texts(one: str, other: str) -> float:
    """Return difflib's ratio without regard to capitals: 1 for equal texts."""
    return SequenceMatcher(None, one.lower(), other.lower(), autojunk=False).ratio()


def check_totals(tools: Sequence[JsonTool[..., Any]]) -> Iterator[LintFinding]:
    """Yield what is too much in all tools together for one request."""
    schemas = [place.schema for tool in tools for place in iter_places(tool.schema("json"))]
    optional = sum(len(set(part.get("properties", ())) - set(part.get("required", ()))) for part in schemas)
    unions = sum("anyOf" in part or "oneOf" in part or isinstance(part.get("type"), list) for part in schemas)
    if len(tools) > MAX_OPENAI_TOOLS:
        message = f"{len(tools)} tools in one request; OpenAI takes {MAX_OPENAI_TOOLS}"
        yield LintFinding("", "", "too-many-tools", message, "error")
    for count, limit, what in (
        (len(tools), MAX_STRICT_TOOLS, "tools"),
        (optional, MAX_STRICT_OPTIONAL, "optional parameters"),
        (unions, MAX_STRICT_UNIONS, "parameters of a union type"),
    ):
        if count > limit:
            message = f"{count} {what}; Anthropic takes {limit} in one request of strict tools"
            yield LintFinding("", "", "anthropic-strict", message, "hint")


MIN_DESCRIPTION_WORDS = 3
ADVICE = "say what it does and returns, and when to use it"


def check_tool(tool: JsonTool[..., Any]) -> Iterator[LintFinding]:
    """Yield the problems of the description of `tool`, and of the size or shape of its schema."""
    text, fault = tool.description, ""
    if repeats(text, tool.name):
        fault = "only repeats the name"
    elif len(split_words(text)) < MIN_DESCRIPTION_WORDS:
        fault = "is too short"
    if fault:
        message = f"the description {text!r} {fault}: {ADVICE}"
        yield LintFinding(tool.name, "", "tool-description", message, "warning")
    if len(text) > MAX_DESCRIPTION_CHARS:
        limit = f"OpenAI takes {MAX_DESCRIPTION_CHARS}, the rest is sent elsewhere"
        message = f"the description has {len(text)} characters; {limit}"
        yield LintFinding(tool.name, "", "long-description", message, "warning")
    if reason := find_exceeded_limit(tool.schema("json")):
        message = f"too large for OpenAI's strict mode: {reason}"
        yield LintFinding(tool.name, "", "too-large", message, "warning")
    obstacles = [loss for loss in tool.losses("openai_strict") if loss.keyword == "strict"]
    reasons = [f"{_shorten_path(loss.path)}{loss.moved_to.removeprefix('dropped: ')}" for loss in obstacles]
    if reasons and not reason:
        message = f"cannot be sent in OpenAI's strict mode: {'; '.join(reasons)}"
        yield LintFinding(tool.name, "", "not-strict", message, "hint")


def _shorten_path(path: str) -> str:
    """Return `parameters.properties.lines.items` as "lines[]: "."""
    short = re.sub(r"\.(?:anyOf|properties)(?=\.|$)|\.\d+(?=\.|$)", "", path.removeprefix("parameters"))
    short = re.sub(r"\.items(?=\.|$)", "[]", short).lstrip(".")
    return f"{short}: " if short else ""
