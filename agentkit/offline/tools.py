"""Tools as the planner sees them: their words, and their parameters as a flat list."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .text import GENERIC, LEXICON, concepts

ROLES = frozenset(concepts(LEXICON["roles"]))
_TYPE_OF = {loose: strict for strict, names in LEXICON["types"].items() for loose in names.split()}
_FITS = [({*concepts(words)}, fits) for words, fits in LEXICON["fits"].items()]
_BY_HINT = 6  # so many classes of parameters, the first, are told by a description too
_DEEPEST = 4  # a schema may contain itself
_EXAMPLE = re.compile(
    r"(?<!\w)['\"`]([^'\"`]{2,40})['\"`]|(?:e\.g\.|such as|for example|for instance)[,:]? ([^.()\"']+)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """A parameter that takes one value: where it belongs, its resolved schema, and the words that announce it.

    `names` are the concepts of its name, `hints` those of its description; `fits` says how well each kind of value
    suits it as a text; `options` are the members of its enumeration, `examples` the values its description names.
    """

    path: tuple[str, ...]
    type: str
    schema: Mapping[str, Any]
    required: bool
    description: str
    names: frozenset[str]
    hints: frozenset[str]
    fits: Mapping[str, float]
    options: tuple[Any, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool on offer: its name with its concepts, its parameters, and what each of all its concepts tells of it."""

    name: str
    name_words: tuple[str, ...]
    params: tuple[Param, ...]
    weights: Mapping[str, float]


def read_tool(definition: Mapping[str, Any]) -> Tool:
    """The tool that an OpenAI tool dict (or its bare `function`) declares."""
    function = definition.get("function", definition)
    schema = function.get("parameters") or {}
    params = tuple(_leaves(schema, (), True, schema.get("$defs") or schema.get("definitions") or {}))
    name_words = concepts(function["name"])
    weights = {c: 0.8 for p in params for c in (*p.names, *p.hints, *concepts(" ".join(map(str, p.options))))}
    weights |= dict.fromkeys(concepts(function.get("description") or ""), 1.2) | dict.fromkeys(name_words, 2.0)
    return Tool(function["name"], name_words, params, weights)


def resolve(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without references, unions and loose type names; of a union the first member that is not null."""
    if not isinstance(schema, Mapping):
        return {"type": "any"}
    inner = [definitions.get(str(schema["$ref"]).rsplit("/", 1)[-1], {})] if "$ref" in schema else []
    inner += [m for union in ("anyOf", "oneOf", "allOf") for m in schema.get(union, ()) if m.get("type") != "null"]
    if inner:
        own = {k: v for k, v in schema.items() if k not in ("$ref", "anyOf", "oneOf", "allOf")}
        return {**resolve(inner[0], definitions), **own}
    kind = schema.get("type", "object" if "properties" in schema else "any")
    kind = next((k for k in kind if k != "null"), "any") if isinstance(kind, list) else str(kind)
    return {**schema, "type": _TYPE_OF.get(re.split(r"[,\[ ]", kind.lower().strip())[0], "any")}


def _leaves(
    schema: Mapping[str, Any], path: tuple[str, ...], required: bool, defs: Mapping[str, Any]
) -> Iterator[Param]:
    wanted = schema.get("required")
    for name, raw in (schema.get("properties") or {}).items():
        part = resolve(raw, defs)
        needed = required and isinstance(wanted, list | tuple) and name in wanted
        if part["type"] == "object" and part.get("properties") and len(path) < _DEEPEST:
            yield from _leaves(part, (*path, name), needed, defs)
            continue
        if part["type"] == "array":
            part["items"] = resolve(part.get("items"), defs)
        text, words = str(part.get("description") or ""), frozenset(concepts(name))
        names = frozenset(c for c in words if c in ROLES or c not in GENERIC) or words
        hints = frozenset(concepts(f"{text} {part.get('format', '')}")) - words - GENERIC
        rows = [(words, _FITS), (hints, _FITS[:_BY_HINT])]
        fits = next((fits for said, table in rows for known, fits in table if said & known), _FITS[-1][1])
        options = tuple(part.get("enum") or part.get("items", {}).get("enum") or ())
        listed = [one for m in _EXAMPLE.finditer(text) for one in re.split(r",\s*(?:or |and )?|\sor\s", m[1] or m[2])]
        examples = tuple(one.strip() for one in listed if 2 < len(one.strip()) < 40)
        yield Param((*path, name), part["type"], part, needed, text, names, hints, fits, options, examples)
