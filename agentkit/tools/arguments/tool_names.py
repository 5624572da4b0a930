"""Which tool a name that is no tool's name certainly means."""

import re
from collections.abc import Collection

from .fixes import is_same_name

_PREFIX = re.compile(r"(?:functions?|tools?|default_api)[.:/]", re.IGNORECASE)
_NUMBER = re.compile(r":\d+\Z")
"""Kimi K2 writes `functions.get_weather:0`: its call ids, where other models write names."""
_TOKEN = re.compile(r"<[|｜]")
_PARALLEL_TOOL = "multi_tool_use"
PARALLEL_MESSAGE = f"{_PARALLEL_TOOL}.parallel does not exist here: call the tools directly, several in one message."


def match_tool_name(name: str, tools: Collection[str]) -> str | None:
    """The one tool that `name` is the name of, but for a known prefix, special tokens, case, hyphens or underscores.

    None when there is none, or more than one.
    """
    if name in tools:
        return name
    bare = _TOKEN.split(name)[0].strip()
    bare = _NUMBER.sub("", _PREFIX.sub("", bare, count=1))
    if bare in tools:
        return bare
    same = [tool for tool in tools if is_same_name(tool, bare)]
    return same[0] if len(same) == 1 else None


def is_parallel_wrapper(name: str) -> bool:
    """Whether it is the tool that OpenAI's models make up to call several tools at once."""
    return _TOKEN.split(name)[0].strip().removeprefix("functions.").partition(".")[0] == _PARALLEL_TOOL
