"""Arguments in the wrong shape as a whole: wrapped once too often, or laid flat."""

from collections.abc import Iterator
from typing import Any

from ...schemas import JsonSchema
from .fixes import same_name
from .json_reader import Unreadable
from .json_text import read
from .repair import Repair, repair_of
from .schema_places import at, properties

WRAPPERS = ("arguments", "args", "input", "parameters")
"""Under which key call objects and models put the arguments."""


def reshaped(given: dict[str, Any], parameters: JsonSchema, name: str) -> Iterator[tuple[dict[str, Any], Repair]]:
    """Other shapes that `given` may have been meant in, for the tool `name`; which of them is valid is to be seen."""
    yield from _unwrapped(given, parameters, name)
    yield from _wrapped(given, parameters)


def _unwrapped(given: dict[str, Any], parameters: JsonSchema, name: str) -> Iterator[tuple[dict[str, Any], Repair]]:
    """What stands under a key that is no parameter (the tool's name or last word, say), alone or beside the name."""
    known = properties(at(parameters, ()))
    for key in (*WRAPPERS, name, name.rpartition("_")[2]):
        rest = {other: value for other, value in given.items() if other != key}
        if key in given and key not in known and ("name" not in known or not rest) and rest in ({}, {"name": name}):
            inner = given[key]
            if isinstance(inner, str):
                try:
                    inner = read(inner).value
                except Unreadable:
                    continue
            if isinstance(inner, dict):
                yield inner, repair_of((), f"wrapped in {key!r}", given, inner)


def _wrapped(given: dict[str, Any], parameters: JsonSchema) -> Iterator[tuple[dict[str, Any], Repair]]:
    """The keys that are no parameters, put under the one parameter that is an object with such keys."""
    known = properties(at(parameters, ()))
    inside = {name: properties(at(parameters, (name,))) for name in known}
    models = [name for name in known if inside[name]]
    if len(models) != 1 or models[0] in given or set(inside[models[0]]) & set(known):
        return
    flat = {key: value for key, value in given.items() if key not in known}
    if flat and all(any(same_name(key, field) for field in inside[models[0]]) for key in flat):
        rest = {key: value for key, value in given.items() if key in known}
        yield {models[0]: flat, **rest}, repair_of((models[0],), "fields laid flat", given, {models[0]: flat})
