"""References in a JSON Schema: inlined where they can be, kept where a type contains itself."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import unquote

from ..errors import DefinitionError
from .walk import JsonSchema, children, rebuild


def is_recursive(schema: JsonSchema) -> bool:
    """Whether following the local references of `schema` ever comes back to where it was."""
    definitions: Mapping[str, JsonSchema] = schema.get("$defs") or {}
    reached = {name: set(_referred(definition)) for name, definition in definitions.items()}
    reached["#"] = set(_referred({key: value for key, value in schema.items() if key != "$defs"}))
    return any(_leads_to(start, start, reached) for start in reached)


def _leads_to(start: str, goal: str, reached: Mapping[str, set[str]]) -> bool:
    seen: set[str] = set()
    waiting = list(reached[start])
    while waiting:
        name = waiting.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            waiting.extend(reached.get(name, ()))
    return False


def _referred(schema: JsonSchema) -> list[str]:
    """The names of the definitions that `schema` refers to ("#" for the whole)."""
    reference = schema.get("$ref")
    own = [reference.removeprefix("#/$defs/")] if isinstance(reference, str) else []
    return own + [name for _, inner in children(schema) for name in _referred(inner)]


def check_references(schema: JsonSchema) -> None:
    """Raise `DefinitionError` for a reference that leads nowhere or out of the schema: nothing is ever fetched."""
    for reference in _pointers(schema):
        node: Any = schema
        for key in reference.removeprefix("#").split("/")[1:]:
            name = unquote(key).replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and name.isdigit():
                node = dict(enumerate(node)).get(int(name))
            else:
                node = node.get(name) if isinstance(node, dict) else None
        if not reference.startswith("#") or node is None:
            raise DefinitionError(f"the schema refers to {reference!r}: only references within it (#/$defs/...) work")


def _pointers(schema: JsonSchema) -> Iterator[str]:
    if isinstance(reference := schema.get("$ref"), str):
        yield reference
    for _, inner in children(schema):
        yield from _pointers(inner)


def inline(schema: JsonSchema) -> JsonSchema:
    """A copy of `schema` with its local references replaced by what they refer to; recursive schemas stay as they are.

    Keywords beside a `$ref` win over those of its target.  Raises `DefinitionError` as `check_references` does.
    """
    check_references(schema)
    if "$defs" not in schema or is_recursive(schema):
        return deepcopy(schema)
    import jsonref  # imports requests, hence here

    resolved: Any = jsonref.replace_refs(schema, proxies=False, lazy_load=False, merge_props=True)
    del resolved["$defs"]
    return rebuild(resolved, lambda part: part)  # jsonref gives equal parts as one shared object; these are separate
