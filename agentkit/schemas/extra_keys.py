"""Keys that a class does not declare: pydantic drops them without a word; a model that wrote one should hear of it."""

from typing import Any, Literal

from .walk import JsonSchema


def choose_extra_keys(schema: JsonSchema, *classes: type) -> Literal["forbid"] | None:
    """How to validate keys that nobody declared: they are refused, unless a class says what becomes of them.

    `schema` is what pydantic makes of the type: a class with `extra="allow"` shows there.  That `classes` ignore extra
    keys on purpose (`extra="ignore"`) does not.
    """
    says_ignore = any(getattr(entry, "model_config", {}).get("extra") == "ignore" for entry in classes)
    return None if says_ignore or _takes_any_keys(schema) else "forbid"


def _takes_any_keys(node: Any) -> bool:
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict) and node.get("additionalProperties"):
            return True
        return any(map(_takes_any_keys, node.values()))
    return isinstance(node, list) and any(map(_takes_any_keys, node))
