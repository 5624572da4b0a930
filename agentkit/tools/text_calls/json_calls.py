"""Tool calls written as JSON: one object or a list, with name and arguments under the keys that models use."""

from collections.abc import Mapping
from typing import Any

from ..registry import ToolRegistry
from .call import TextCall, make_call

_NAME_KEYS = ("name", "tool_name", "tool", "function_name", "function", "action", "recipient_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params", "tool_input", "action_input", "kwargs")
_LIST_KEYS = ("tool_calls", "tool_uses", "calls", "function_calls")
_OTHER_KEYS = frozenset(["id", "type", "index", "call_id", "tool_call_id", "thought", "thoughts", "reasoning"])
"""Keys that may stand beside the name and the arguments; with any other key the object is not a call."""


def read_json_calls(value: Any, source: str, tools: ToolRegistry) -> list[TextCall] | None:
    """Return the calls in a JSON value; None if any part of the value is not a call."""
    if isinstance(value, list):
        return _read_list(value, source, tools)
    if not isinstance(value, Mapping):
        return None
    rest = {key: entry for key, entry in value.items() if key not in _OTHER_KEYS}
    if len(rest) == 1:
        key, inner = next(iter(rest.items()))
        if key in _LIST_KEYS and isinstance(inner, list):
            return _read_list(inner, source, tools)
        if key in ("function", "function_call", "tool_call", "action") and isinstance(inner, Mapping):
            return read_json_calls(inner, source, tools)
        if key in tools and isinstance(inner, Mapping):
            call = make_call(key, inner, source, tools)
            return [call] if call else None
    names = [key for key in _NAME_KEYS if key in rest]
    given = [key for key in _ARGUMENT_KEYS if key in rest]
    if len(names) != 1 or len(given) != 1 or len(rest) != 2:
        return None
    call = make_call(rest[names[0]], rest[given[0]], source, tools)
    return [call] if call else None


def _read_list(values: list[Any], source: str, tools: ToolRegistry) -> list[TextCall] | None:
    found: list[TextCall] = []
    for value in values:
        calls = read_json_calls(value, source, tools) if isinstance(value, Mapping) else None
        if calls is None:
            return None
        found += calls
    return found or None
