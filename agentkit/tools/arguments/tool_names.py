"""Match a misspelled tool name with the one tool that it certainly means."""

import re
from collections.abc import Collection

from .fixes import is_same_name

_PREFIX = re.compile(r"(?:functions?|tools?|default_api)[.:/]", re.IGNORECASE)
_NUMBER = re.compile(r":\d+\Z")
"""Kimi K2 uses its call ids (`functions.get_weather:0`) as names."""
_TOKEN = re.compile(r"<[|｜]")
_PARALLEL_TOOL = "multi_tool_use"
PARALLEL_MESSAGE = f"{_PARALLEL_TOOL}.parallel does not exist here: call the tools directly, several in one message."


def match_tool_name(name: str, tools: Collection[str]) -> str | None:
    """Return the one tool that `name` means in another spelling, with a prefix or special tokens; None if unclear."""
    if name in tools:
        return name
    bare = _TOKEN.split(name)[0].strip()
    bare = _NUMBER.sub("", _PREFIX.sub("", bare, count=1))
    if bare in tools:
        return bare
    same = [tool for tool in tools if is_same_name(tool, bare)]
    return same[0] if len(same) == 1 else None


def is_parallel_wrapper(name: str) -> bool:
    """Return whether it is the tool that OpenAI's models invent to call several tools at once."""
    return _TOKEN.split(name)[0].strip().removeprefix("functions.").partition(".")[0] == _PARALLEL_TOOL
