"""`allOf`, alternatives beside properties and tuples in plainer terms: for dialects that have none of them."""

from collections.abc import Callable
from typing import Any

from .. import JsonSchema
from .common_subset import give_items
from .declaration import Loss
from .rewriting import CONDITIONS, LISTED, Node, rewritten

_TIGHTER: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}


def flattened(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """A copy of `schema` in which each `allOf` that says one thing is one schema; `losses` is added to.

    Alternatives that narrow an object with properties of its own are told in its description; tuples have `items`.
    """
    return rewritten(
        schema, losses, _merge, _tell, lambda node: give_items(node.schema), sealed=CONDITIONS - {"prefixItems"}
    )


def _merge(node: Node) -> None:
    """Put the parts of `allOf` into the schema around it; nothing is changed where they contradict."""
    merged: JsonSchema | None = {key: value for key, value in node.schema.items() if key != "allOf"}
    for part in node.schema.get("allOf", ()):
        merged = _both(merged, part) if merged is not None else None
    if merged is not None and "allOf" in node.schema:
        node.lose("allOf", "replaced by its parts")
        node.schema.clear()
        node.schema.update(merged)


def _tell(node: Node) -> None:
    for keyword in [keyword for keyword in ("anyOf", "oneOf") if keyword in node.schema]:
        if {"enum", "const"} & set(node.schema):
            node.lose(keyword, LISTED)
        elif "properties" in node.schema:
            node.describe(keyword)


def _both(left: JsonSchema, right: JsonSchema) -> JsonSchema | None:
    """What both schemas say; None if that cannot be said in one."""
    if any("$ref" in part and set(other) - {"description"} for part, other in ((left, right), (right, left))):
        return None
    merged: dict[str, Any] = dict(left)
    closed = {part.get("additionalProperties", True) is False for part in (left, right) if "properties" in part}
    if len(closed) > 1:
        return None
    for key, value in right.items():
        if key not in merged or merged[key] == value:
            merged[key] = value
        elif key in _TIGHTER:
            merged[key] = _TIGHTER[key](merged[key], value)
        elif key == "required":
            merged[key] = [*merged[key], *(name for name in value if name not in merged[key])]
        elif key == "properties" and all(merged[key].get(name, inner) == inner for name, inner in value.items()):
            merged[key] = {**merged[key], **value}
        elif key == "description":
            merged[key] = f"{merged[key]} ({value})"
        else:
            return None
    return merged
