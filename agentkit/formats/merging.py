"""`allOf` as one schema, where that says the same."""

from typing import Any

from ..schemas import JsonSchema
from .node import Node

_EASY = {"type", "description", "properties", "required"}


def merge_all_of(node: Node) -> bool:
    """Replace the node's `allOf` by its parts' keywords; False, and nothing changed, where they contradict."""
    beside = {key: value for key, value in node.schema.items() if key != "allOf"}
    merged = beside
    for part in node.schema["allOf"]:
        both = _both(merged, part)
        if both is None:
            return False
        merged = both
    node.lose("allOf", "replaced by its parts")
    node.schema.clear()
    node.schema.update(merged)
    return True


def _both(left: JsonSchema, right: JsonSchema) -> JsonSchema | None:
    """What both schemas say; None if that cannot be said in one.  The text of `left` stands above that of `right`."""
    merged: dict[str, Any] = dict(left)
    closed = {part.get("additionalProperties", True) is False for part in (left, right) if "properties" in part}
    if len(closed) > 1:
        return None
    for key, value in right.items():
        if key not in merged or merged[key] == value:
            merged[key] = value
        elif key == "required":
            merged[key] = [*merged[key], *(name for name in value if name not in merged[key])]
        elif key == "properties" and all(merged[key].get(name, inner) == inner for name, inner in value.items()):
            merged[key] = {**merged[key], **value}
        elif key != "description":
            return None
    return merged
