"""Undeclared keys: pydantic drops them silently by default; a model that sent one is informed."""

from typing import Any, Literal

from .walk import JsonSchema


def choose_extra_keys(schema: JsonSchema, *classes: type) -> Literal["forbid"] | None:
    """Return how to validate undeclared keys: "forbid", unless a class decides otherwise.

    A class with `extra="allow"` shows in pydantic's `schema`, one of `classes` with `extra="ignore"` does not.
    """
    says_ignore = any(getattr(entry, "model_config", {}).get("extra") == "ignore" for entry in classes)
    return None if says_ignore or _takes_any_keys(schema) else "forbid"


def _takes_any_keys(node: Any) -> bool:
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict) and node.get("additionalProperties"):
            return True
        return any(map(_takes_any_keys, node.values()))
    return isinstance(node, list) and any(map(_takes_any_keys, node))
