"""References in a JSON Schema: inlined where they can be, kept where a type contains itself."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NoReturn

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


def inline(schema: JsonSchema) -> JsonSchema:
    """A copy of `schema` with its local references replaced by what they refer to; recursive schemas stay as they are.

    Keywords beside a `$ref` win over those of its target.  A reference that leads out of the schema is refused with a
    `DefinitionError`: nothing is ever fetched.
    """
    if "$defs" not in schema or is_recursive(schema):
        return deepcopy(schema)
    import jsonref  # imports requests, hence here

    resolved: Any = jsonref.replace_refs(schema, proxies=False, lazy_load=False, merge_props=True, loader=_refuse)
    del resolved["$defs"]
    return rebuild(resolved, lambda part: part)  # jsonref gives equal parts as one shared object; these are separate


def _refuse(uri: str, **_: Any) -> NoReturn:
    raise DefinitionError(f"the schema refers to {uri!r}: only references within the schema (#/...) are followed")
