"""The fixes that are certain, at one place of the arguments where validation failed."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ...schemas import JsonSchema
from .json_reader import Unreadable
from .json_text import Path, not_finite, read
from .problem import Finding
from .problems import findings, value_at
from .repair import Repair, repair_of
from .schema_places import Nodes, at, options, properties, type_of, types

Fixer: TypeAlias = Callable[[Any, Iterable[Finding], JsonSchema], list[Repair]]
"""Changes the arguments where the findings say and returns the receipts; an empty list when nothing is certain."""

NULLS = ("null", "None", "")


def fix(given: Any, found: Iterable[Finding], parameters: JsonSchema) -> list[Repair]:
    """Fix keys first; where all keys are right, nulls and values."""
    found = list(found)
    return _fix_keys(given, found, parameters) or [
        *fix_nulls(given, found, parameters),
        *_fix_values(given, found, parameters),
    ]


def fix_nulls(given: Any, found: Iterable[Finding], parameters: JsonSchema) -> list[Repair]:
    """Take away each null that is no valid value of a key that may be left out: its default is meant."""
    receipts = []
    for path in _places(found):
        holder = value_at(given, path[:-1])
        if not (isinstance(holder, dict) and path[-1] in holder and holder[path[-1]] is None):
            continue
        around = at(parameters, path[:-1])
        if any(path[-1] in node.get("properties", {}) and path[-1] not in node.get("required", ()) for node in around):
            del holder[path[-1]]
            receipts.append(repair_of(path, "null for the default", None, "(left out)"))
    return receipts


def _fix_values(given: Any, found: Iterable[Finding], parameters: JsonSchema) -> list[Repair]:
    receipts = []
    for path in _places(found):
        holder, value = value_at(given, path[:-1]), value_at(given, path)
        fitting = {repr(meant): (kind, meant) for kind, meant in _candidates(value, at(parameters, path))}
        if len(fitting) == 1 and holder is not None:
            ((kind, holder[path[-1]]),) = fitting.values()
            receipts.append(repair_of(path, kind, value, holder[path[-1]]))
    return receipts


def _places(found: Iterable[Finding]) -> list[Path]:
    return list(dict.fromkeys(finding.path for finding in found if finding.kind == "value" and finding.path))


def _candidates(value: Any, nodes: Nodes) -> Iterator[tuple[str, Any]]:
    """What `value` may have been meant for, by the schemas of its place."""
    wanted = types(nodes)
    if isinstance(value, str):
        if value in NULLS and "null" in wanted:
            yield "null as a string", None
        yield from _decoded(value, wanted)
    if isinstance(value, str | int | float):
        same = [option for option in options(nodes) if option is not None and _plain_text(option) == _plain_text(value)]
        if len(same) == 1:
            yield "spelling of an option", same[0]


def _plain_text(value: Any) -> str:
    return str(value).casefold()


def _decoded(text: str, wanted: set[str]) -> Iterator[tuple[str, Any]]:
    """The value that the text is the JSON of, if that is of a type that is wanted; scalars only where no text is."""
    try:
        value = read(text).value
    except Unreadable:
        return
    kinds = wanted & {"object", "array"} if "string" in wanted else wanted - {"null", "string"}
    is_wanted = type_of(value) in kinds or (type_of(value) == "integer" and "number" in kinds)
    if is_wanted and not any(True for _ in not_finite(value)):
        yield f"{type_of(value)} as a string", value


def _fix_keys(given: Any, found: Iterable[Finding], parameters: JsonSchema) -> list[Repair]:
    """Rename unknown keys that are a declared one but for case, hyphens and underscores."""
    receipts = []
    for path in dict.fromkeys(finding.path[:-1] for finding in found if finding.kind != "value"):
        holder = value_at(given, path)
        if isinstance(holder, dict):
            for old, new in list(_renamings(holder, at(parameters, path))):
                renamed = {new if key == old else key: value for key, value in holder.items()}
                holder.clear()
                holder.update(renamed)
                receipts.append(repair_of((*path, new), "spelling of a key", old, new))
    return receipts


def _renamings(holder: dict[str, Any], nodes: Nodes) -> Iterator[tuple[str, str]]:
    if any(node.get("patternProperties") or node.get("additionalProperties") for node in nodes):
        return  # any key may be meant as it is
    declared = properties(nodes)
    for key in holder:
        if key not in declared:
            fitting = [name for name in declared if same_name(name, key)]
            rivals = [other for other in holder if same_name(other, key)]
            if len(fitting) == len(rivals) == 1:
                yield key, fitting[0]


def same_name(one: str, other: str) -> bool:
    """Whether two names differ in nothing but case, hyphens, underscores and spaces (camelCase and snake_case do)."""
    return _letters(one) == _letters(other) != ""


def _letters(name: str) -> str:
    return re.sub(r"[-_\s]+", "", name).casefold()


ROUNDS = 10
"""How often the fixes are made and the result is validated: what was decoded may hold the next slip."""
LAYERS = 3
"""How many wrappings may lie around the arguments."""


@dataclass(frozen=True, slots=True)
class Mended:
    """Valid arguments, what validation made of them, and the receipts."""

    value: Any
    call: Callable[[], Any]
    repairs: tuple[Repair, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """What arguments are wanted for: the tool's name, their schema, and what validates them (raises `ValueError`)."""

    name: str
    parameters: JsonSchema
    validate: Callable[[Any], Callable[[], Any]]


def mended(given: dict[str, Any], target: Target, layers: int = LAYERS) -> Mended | None:
    """The arguments with their slips put right, in place or in another shape; None when that is not certain."""
    if done := mended_in_place(given, target, fix):
        return done
    found: dict[str, Mended] = {}
    for value, repair in reshaped(given, target.parameters, target.name) if layers else ():
        if done := mended(value, target, layers - 1):
            key = json.dumps(done.value, sort_keys=True, default=str)
            found.setdefault(key, replace(done, repairs=(repair, *done.repairs)))
    return next(iter(found.values())) if len(found) == 1 else None


def mended_in_place(given: dict[str, Any], target: Target, fixer: Fixer) -> Mended | None:
    """The arguments with what `fixer` does, in as many rounds as it takes; None when they do not become valid."""
    value = copied(given)
    repairs: list[Repair] = []
    for _ in range(ROUNDS):
        try:
            return Mended(value, target.validate(value), tuple(repairs))
        except Unreadable:
            return None
        except ValueError as error:
            made = fixer(value, findings(error, value, target.parameters), target.parameters)
        if not made:
            return None
        repairs += made
    return None


def copied(value: Any) -> Any:
    """The value in objects and arrays of its own; what is neither is shared."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


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
