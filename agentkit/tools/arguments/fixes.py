"""Repairs of arguments that are certain, each with its record; and of a misspelled tool name.

A repair is at the place of a validation error, or of the shape of the whole object.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from ...core.portable import copy_value, format_value
from ...core.values import frozen
from ...schemas.walk import JsonSchema, Nodes, json_type
from .json_text import InvalidJson, ValuePath, iter_not_finite, parse_lenient
from .validation_errors import (
    ArgumentProblem,
    find_schemas,
    find_value,
    list_options,
    list_problems,
    list_properties,
    list_types,
)


@frozen
class Repair:
    """One mistake of the model that was repaired, with the text before and after, truncated.

    `path` is the place in the arguments ("order.items.0"; "" for all of them or for the tool's name).
    """

    path: str
    kind: str
    before: str
    after: str

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return " ".join(f"{place}{self.kind}: {self.before} -> {self.after}".splitlines())


def make_repair(path: tuple[int | str, ...], kind: str, before: Any, after: Any) -> Repair:
    """Return the record for values, which are written as JSON."""
    return Repair(".".join(map(str, path)), kind, format_value(before), format_value(after))


Fixer: TypeAlias = Callable[[Any, Iterable[ArgumentProblem], JsonSchema], list[Repair]]
"""Changes the arguments at the problems' places and returns the repairs; an empty list when none is certain."""

NULL_TEXTS = ("null", "None", "")


def apply_fixes(given: Any, found: Iterable[ArgumentProblem], parameters: JsonSchema) -> list[Repair]:
    """Fix the names of keys first; where all keys are correct, nulls, values and missing keys."""
    found = list(found)
    return _fix_keys(given, found, parameters) or [
        *fix_nulls(given, found, parameters),
        *_fix_values(given, found, parameters),
        *_fill_defaults(given, found, parameters),
    ]


def fix_nulls(given: Any, found: Iterable[ArgumentProblem], parameters: JsonSchema) -> list[Repair]:
    """Remove each invalid null of an optional key, because it means the default."""
    repairs = []
    for path in _list_value_paths(found):
        holder = find_value(given, path[:-1])
        if not (isinstance(holder, dict) and path[-1] in holder and holder[path[-1]] is None):
            continue
        around = find_schemas(parameters, path[:-1])
        if any(path[-1] in node.get("properties", {}) and path[-1] not in node.get("required", ()) for node in around):
            del holder[path[-1]]
            repairs.append(make_repair(path, "null for the default", None, "(left out)"))
    return repairs


def _fix_values(given: Any, found: Iterable[ArgumentProblem], parameters: JsonSchema) -> list[Repair]:
    repairs = []
    for path in _list_value_paths(entry for entry in found if not entry.is_strict):
        holder = find_value(given, path[:-1])
        value = find_value(given, path)
        fitting = {
            repr(meant): (kind, meant) for kind, meant in _iter_candidates(value, find_schemas(parameters, path))
        }
        if len(fitting) == 1 and holder is not None:
            ((kind, holder[path[-1]]),) = fitting.values()
            repairs.append(make_repair(path, kind, value, holder[path[-1]]))
    return repairs


def _fill_defaults(given: Any, found: Iterable[ArgumentProblem], parameters: JsonSchema) -> list[Repair]:
    """Add each missing key that is required and has a default, as zod's schemas of outputs list it."""
    repairs = []
    for path in (finding.path for finding in found if finding.kind == "missing"):
        holder = find_value(given, path[:-1])
        objects = [node for node in find_schemas(parameters, path[:-1]) if "properties" in node]
        if not isinstance(holder, dict) or len(objects) != 1 or holder.keys() - objects[0]["properties"].keys():
            continue  # an alternative, or an unknown key, may be another reading
        defaults = [node["default"] for node in find_schemas(parameters, path) if "default" in node]
        if len(defaults) == 1:
            holder[path[-1]] = copy_value(defaults[0])
            repairs.append(make_repair(path, "default for a missing key", None, defaults[0]))
    return repairs


def _list_value_paths(found: Iterable[ArgumentProblem]) -> list[ValuePath]:
    return list(dict.fromkeys(finding.path for finding in found if finding.kind == "value" and finding.path))


def _iter_candidates(value: Any, nodes: Nodes) -> Iterator[tuple[str, Any]]:
    """Yield the values that `value` may stand for by the schemas of its place, each with the kind of repair."""
    wanted = list_types(nodes)
    if isinstance(value, str):
        if value in NULL_TEXTS and "null" in wanted:
            yield "null as a string", None
        yield from _decode(value, wanted)
    if isinstance(value, str | int | float) and value not in list_options(nodes):
        same = [
            option for option in list_options(nodes) if option is not None and _fold_case(option) == _fold_case(value)
        ]
        if len(same) == 1:
            yield "spelling of an option", same[0]


def _fold_case(value: Any) -> str:
    return str(value).casefold()


def _decode(text: str, wanted: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the JSON value in `text` if its type is allowed; a scalar only where a string is not allowed."""
    try:
        value = parse_lenient(text).value
    except InvalidJson:
        return
    kinds = wanted & {"object", "array"} if "string" in wanted else wanted - {"null", "string"}
    is_wanted = json_type(value) in kinds or (json_type(value) == "integer" and "number" in kinds)
    if is_wanted and not any(True for _ in iter_not_finite(value)):
        yield f"{json_type(value)} as a string", value


def _fix_keys(given: Any, found: Iterable[ArgumentProblem], parameters: JsonSchema) -> list[Repair]:
    """Rename each unknown key that differs from one declared key only in case, hyphens or underscores."""
    repairs = []
    for path in dict.fromkeys(finding.path[:-1] for finding in found if finding.kind != "value"):
        holder = find_value(given, path)
        if isinstance(holder, dict):
            for old, new in list(_iter_renamings(holder, find_schemas(parameters, path))):
                renamed = {new if key == old else key: value for key, value in holder.items()}
                holder.clear()
                holder.update(renamed)
                repairs.append(make_repair((*path, new), "spelling of a key", old, new))
    return repairs


def _iter_renamings(holder: dict[str, Any], nodes: Nodes) -> Iterator[tuple[str, str]]:
    if any(node.get("patternProperties") or node.get("additionalProperties") for node in nodes):
        return  # every key is allowed
    declared: dict[str, list[str]] = {}
    for name in list_properties(nodes):
        declared.setdefault(_normalize_name(name), []).append(name)
    spellings = Counter(map(_normalize_name, holder))
    for key in holder:
        spelling = _normalize_name(key)
        fitting = declared.get(spelling, [])
        if spelling and len(fitting) == spellings[spelling] == 1 and key not in fitting:
            yield key, fitting[0]


def is_same_name(one: str, other: str) -> bool:
    """Return whether two names differ only in case, hyphens, underscores and spaces: `maxItems` and `max_items`."""
    return _normalize_name(one) == _normalize_name(other) != ""


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_\s]+", "", name).casefold()


MAX_FIX_ROUNDS = 10
"""Rounds of fixing and validating; decoded JSON text may need fixes of its own."""
MAX_WRAPPER_LAYERS = 3
"""Wrappers around the arguments that are removed."""


@frozen
class RepairedArguments:
    """Valid arguments, the prepared call and the repairs."""

    value: Any
    call: Callable[[], Any]
    repairs: tuple[Repair, ...]


@frozen
class RepairTarget:
    """The tool that the arguments are for: its name, their schema, and the validation (raises `ValueError`)."""

    name: str
    parameters: JsonSchema
    validate: Callable[[Any], Callable[[], Any]]


def repair_arguments(
    given: dict[str, Any], target: RepairTarget, layers: int = MAX_WRAPPER_LAYERS
) -> RepairedArguments | None:
    """Return the arguments repaired in place or reshaped; None when the repair is not certain."""
    if done := repair_in_place(given, target, apply_fixes):
        return done
    found: dict[str, RepairedArguments] = {}
    reshaped = (*_iter_unwrapped(given, target), *_iter_wrapped(given, target.parameters)) if layers else ()
    for value, repair in reshaped:
        if done := repair_arguments(value, target, layers - 1):
            key = json.dumps(done.value, sort_keys=True, default=str)
            found.setdefault(key, replace(done, repairs=(repair, *done.repairs)))
    return next(iter(found.values())) if len(found) == 1 else None


def repair_in_place(given: dict[str, Any], target: RepairTarget, fixer: Fixer) -> RepairedArguments | None:
    """Apply `fixer` until the arguments are valid; None when they do not become valid.

    A value that one of several alternatives takes is changed only where nothing else can be fixed.
    """
    value = copy_value(given)
    repairs: list[Repair] = []
    for _ in range(MAX_FIX_ROUNDS):
        try:
            return RepairedArguments(value, target.validate(value), tuple(repairs))
        except InvalidJson:
            return None
        except ValueError as error:
            found = list_problems(error, value, target.parameters)
        unfit = [problem for problem in found if not _is_taken(problem, value, target.parameters)]
        made = fixer(value, unfit, target.parameters) or fixer(value, found, target.parameters)
        if not made:
            return None
        repairs += made
    return None


def _is_taken(problem: ArgumentProblem, given: Any, parameters: JsonSchema) -> bool:
    """Return whether an alternative at the place of a problem takes the value, by its type and its options."""
    if problem.kind != "value" or not problem.path:
        return False
    value = find_value(given, problem.path)
    return any(
        json_type(value) in list_types([node]) and value in (list_options([node]) or [value])
        for node in find_schemas(parameters, problem.path)
    )


WRAPPER_KEYS = ("arguments", "args", "input", "parameters")
"""Keys under which models and tool call objects put the arguments."""


def _iter_unwrapped(given: dict[str, Any], target: RepairTarget) -> Iterator[tuple[dict[str, Any], Repair]]:
    """Yield the object under a key that is no parameter (or is the tool's name), alone or beside the tool's name."""
    known = list_properties(find_schemas(target.parameters, ()))
    name = target.name
    for key in (*WRAPPER_KEYS, name, name.rpartition("_")[2]):
        rest = {other: value for other, value in given.items() if other != key}
        if key in given and key not in known and ("name" not in known or not rest) and rest in ({}, {"name": name}):
            inner = given[key]
            if isinstance(inner, str):
                try:
                    inner = parse_lenient(inner).value
                except InvalidJson:
                    continue
            if isinstance(inner, dict):
                yield inner, make_repair((), f"wrapped in {key!r}", given, inner)


def _iter_wrapped(given: dict[str, Any], parameters: JsonSchema) -> Iterator[tuple[dict[str, Any], Repair]]:
    """Yield the object with its unknown keys moved under the one parameter that is an object with such keys."""
    known = list_properties(find_schemas(parameters, ()))
    inside = {name: list_properties(find_schemas(parameters, (name,))) for name in known}
    models = [name for name in known if inside[name]]
    if len(models) != 1 or models[0] in given or set(inside[models[0]]) & set(known):
        return
    flat = {key: value for key, value in given.items() if key not in known}
    if flat and all(any(is_same_name(key, field) for field in inside[models[0]]) for key in flat):
        rest = {key: value for key, value in given.items() if key in known}
        yield {models[0]: flat, **rest}, make_repair((models[0],), "fields laid flat", given, {models[0]: flat})


_PREFIX = re.compile(r"(?:functions?|tools?|default_api)[.:/]", re.IGNORECASE)
_NUMBER = re.compile(r":\d+\Z")
"""Kimi K2 uses its call ids (`functions.get_weather:0`) as names."""
_TOKEN = re.compile(r"<[|｜]")
_PARALLEL_TOOL = "multi_tool_use"
PARALLEL_MESSAGE = f"{_PARALLEL_TOOL}.parallel does not exist here: call the tools directly, several in one message."


def match_tool_name(name: str, tools: Collection[str]) -> str | None:
    """Return the one tool that `name` means in another spelling, with a prefix or special tokens; None if unclear."""
    if name in tools:
        return name
    bare = _TOKEN.split(name)[0].strip()
    bare = _NUMBER.sub("", _PREFIX.sub("", bare, count=1))
    if bare in tools:
        return bare
    same = [tool for tool in tools if is_same_name(tool, bare)]
    return same[0] if len(same) == 1 else None


def is_parallel_wrapper(name: str) -> bool:
    """Return whether it is the tool that OpenAI's models invent to call several tools at once."""
    return _TOKEN.split(name)[0].strip().removeprefix("functions.").partition(".")[0] == _PARALLEL_TOOL
