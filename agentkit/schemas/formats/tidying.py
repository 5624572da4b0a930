"""What every format starts from: no titles, no numbers that JSON does not have."""

from math import isfinite
from typing import Any

from .. import JsonSchema
from .declaration import Loss
from .rewriting import Node, rewritten


def tidied(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """A copy of `schema` without titles, and without keywords whose value JSON cannot write; these are in `losses`."""
    return rewritten(schema, losses, _tidy)


def _tidy(node: Node) -> None:
    if isinstance(node.schema.get("title"), str):
        del node.schema["title"]
    for keyword in [keyword for keyword, value in node.schema.items() if not _is_json(value)]:
        node.lose(keyword, "dropped: JSON has no such number")


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return not isinstance(value, float) or isfinite(value)
