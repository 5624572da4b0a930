"""The difference between a replayed run and its recording: the message, the tool's schema, the field."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import RunError
from ...tools.lock import compare_locks

CONTEXT_CHARS = 30
"""Characters that are shown before the first difference of two texts; twice as many after it."""


class ReplayDiffers(RunError):
    """A replayed run differs from the recorded one; the message names the step, the place and both values."""


def compare_messages(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> str:
    """Describe the first difference of two conversations, without their labels; "" if they are equal."""
    old, new = [*map(_without_label, old)], [*map(_without_label, new)]
    for place, (before, now) in enumerate(zip(old, new, strict=False)):
        if before != now:
            return f"message {place} ({now.get('role')}), {compare_values('', before, now)}"
    if len(old) == len(new):
        return ""
    longer, which = (old, "recorded only") if len(old) > len(new) else (new, "new")
    extra = longer[min(len(old), len(new))]
    shown = json.dumps(extra, ensure_ascii=False, default=str)
    return f"message {min(len(old), len(new))} ({extra.get('role')}) is {which}: {shown[: 3 * CONTEXT_CHARS]}"


def _without_label(message: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in message.items() if key != "label"} if "label" in message else message


def compare_tools(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Describe the differences of the tools' schemas; "" if they are equal."""
    if old == new:
        return ""
    changes = compare_locks({"tools": old}, {"tools": new})
    listed = "; ".join(f"{change.tool}{'.' if change.path else ''}{change.path} {change.message}" for change in changes)
    return f"the tools: {listed or compare_values('', old, new)}"


def compare_values(path: str, old: Any, new: Any) -> str:
    """Describe the first difference of two JSON values, with its path."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                return compare_values(f"{path}.{key}".lstrip("."), old.get(key), new.get(key))
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (before, now) in enumerate(zip(old, new, strict=True)):
            if before != now:
                return compare_values(f"{path}[{place}]", before, now)
    texts = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in (old, new)]
    pairs = enumerate(zip(*texts, strict=False))
    same = next((place for place, (before, now) in pairs if before != now), min(map(len, texts)))
    cut = [text[max(0, same - CONTEXT_CHARS) : same + 2 * CONTEXT_CHARS] for text in texts]
    return f"{path or 'the value'}: recorded {cut[0]!r}, now {cut[1]!r}"
