"""Calls written as JSON: an object or a list of objects, with the name and the arguments under the keys models use."""

from collections.abc import Mapping
from typing import Any

from ..registry import ToolRegistry
from .call import WrittenCall, call_of

_NAMES = ("name", "tool_name", "tool", "function_name", "function", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "params", "tool_input", "action_input", "kwargs")
_LISTS = ("tool_calls", "tool_uses", "calls", "function_calls")
_BESIDE = frozenset(["id", "type", "index", "call_id", "tool_call_id", "thought", "thoughts", "reasoning"])
"""What may stand beside the name and the arguments; any other key says that this is no call."""


def calls_in_json(value: Any, source: str, tools: ToolRegistry) -> list[WrittenCall] | None:
    """The calls that a JSON value is; None if any part of it is none."""
    if isinstance(value, list):
        return _all(value, source, tools)
    if not isinstance(value, Mapping):
        return None
    rest = {key: entry for key, entry in value.items() if key not in _BESIDE}
    if len(rest) == 1:
        key, inner = next(iter(rest.items()))
        if key in _LISTS and isinstance(inner, list):
            return _all(inner, source, tools)
        if key in ("function", "function_call", "tool_call", "action") and isinstance(inner, Mapping):
            return calls_in_json(inner, source, tools)
        if key in tools and isinstance(inner, Mapping):
            call = call_of(key, inner, source, tools)
            return [call] if call else None
    names = [key for key in _NAMES if key in rest]
    given = [key for key in _ARGUMENTS if key in rest]
    if len(names) != 1 or len(given) != 1 or len(rest) != 2:
        return None
    call = call_of(rest[names[0]], rest[given[0]], source, tools)
    return [call] if call else None


def _all(values: list[Any], source: str, tools: ToolRegistry) -> list[WrittenCall] | None:
    found: list[WrittenCall] = []
    for value in values:
        calls = calls_in_json(value, source, tools) if isinstance(value, Mapping) else None
        if calls is None:
            return None
        found += calls
    return found or None
