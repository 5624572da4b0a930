"""Tools as the planner sees them, and how well a value of a query fits one of their parameters.

A value is scored for a parameter by its kind (the table `fits` of the lexicon) and by its context: which of the
parameter's words stand near it, or follow from a preposition or a unit.  What a schema names itself, the options of an
enumeration, examples and flags, is looked for in the words.
"""

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..repairs import at, types
from .text import GENERIC, LEXICON, PATTERNS, Query, Span, concepts

_TYPE_OF = {loose: strict for strict, names in LEXICON["types"].items() for loose in names.split()}
_FITS = {kind: [({*concepts(words)}, fits) for words, fits in rows.items()] for kind, rows in LEXICON["fits"].items()}
_DEEPEST, ENOUGH = 5, 1.2  # levels of a schema, which may contain itself; what words must tell of a tool


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """A parameter: its path, its type (a list's: the type of its items), and the words that announce it.

    `names` are the concepts of its name, `hints` those of its description; `fits` says how well each kind of value
    suits it; `known` are the values that the schema names, by their words: all there are if no other fits.
    """

    path: Sequence[str]
    type: str
    is_list: bool
    required: bool
    description: str
    names: frozenset[str]
    hints: frozenset[str]
    fits: Mapping[str, float]
    known: Sequence[tuple[Sequence[str], Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool on offer: its name and parameters, and what each concept tells of it.

    `own` are the words that are not values: of its name, its parameters' names and their options.
    """

    name: str
    name_words: Sequence[str]
    params: Sequence[Param]
    weights: Mapping[str, float]
    own: frozenset[str]

    def is_meant(self, said: set[str]) -> bool:
        """Whether some concepts say the tool's name, or enough of its words, and so are meant for it."""
        return said.issuperset(self.name_words) or sum(self.weights.get(word, 0) for word in said - GENERIC) >= ENOUGH


def read_tool(definition: Mapping[str, Any]) -> Tool:
    """The tool that an OpenAI tool dict (or its bare `function`) declares."""
    function = definition.get("function", definition)
    params, name_words = list(_params(function.get("parameters") or {}, (), True)), concepts(function["name"])
    needed = [param for param in params if param.required]
    own = {c for p in params for c in (*p.names, *(c for words, _ in p.known if not p.fits for c in words))}
    weights = dict.fromkeys(own.union(*(param.hints for param in params)), 0.8)
    weights |= dict.fromkeys(concepts(function.get("description") or ""), 1.2) | dict.fromkeys(name_words, 2.0)
    weights |= {f"<{kind}>": 2.0 for p in needed for kind, fit in p.fits.items() if fit >= 2 and kind != "quoted"}
    if len(needed) == 1 and "rest" in needed[0].fits and "web" in weights:
        weights["<question>"] = ENOUGH  # a search of the web serves any
    return Tool(function["name"], name_words, params, weights, frozenset({*own, *name_words}))


def schema_at(root: Mapping[str, Any], path: Sequence[str | int]) -> dict[str, Any]:
    """The schema that `path` leads to, with what its references and unions hold, and one of the strict types."""
    nodes = at(dict(root), tuple(path))
    schema = {key: value for node in reversed(nodes) for key, value in node.items()}
    kinds = sorted(types(nodes) - {"null"}) or ["object" if "properties" in schema else "any"]
    return {**schema, "type": _TYPE_OF.get(re.split(r"\W", kinds[0].lower())[0], "any")}


def _params(root: Mapping[str, Any], path: Sequence[str], required: bool) -> Iterator[Param]:
    schema = schema_at(root, path)
    if not path or (schema.get("properties") and len(path) < _DEEPEST):
        for name in schema.get("properties") or ():
            yield from _params(root, (*path, name), required and name in (schema.get("required") or ()))
        return
    is_list, text, words = schema["type"] == "array", str(schema.get("description") or ""), concepts(path[-1])
    one = {**schema, **schema_at(root, (*path, 0))} if is_list else schema
    names, hints = frozenset(words), frozenset(concepts(f"{text} {schema.get('format', '')}")) - {*words} - GENERIC
    *rows, (_, other) = _FITS.get(one["type"], [(set(), {})])
    fits = next((fits for said in (names, hints) for known, fits in rows if not known.isdisjoint(said)), other)
    options = one.get("enum") or ()
    fits = {} if options else {**fits, "array": 2.5} if is_list else fits
    listed = (re.split(r",\s*(?:or |and )?|\sor\s", a or b.strip()) for a, b in PATTERNS["examples"].findall(text))
    values = options or [example for examples in listed for example in examples if len(example) > 2]
    known: list[tuple[Sequence[str], Any]] = [(concepts(str(value)), value) for value in values]
    if one["type"] == "boolean":
        known = [(tuple(c for c in words if c not in GENERIC) or words, True)]
    yield Param(path, one["type"], is_list, required, text, names, hints, fits, known)


@dataclass(frozen=True, slots=True)
class Fit:
    """A value as the argument of a parameter: how well it fits, and how much of that the words around it tell."""

    param: Param
    value: Span
    argument: Any
    score: float
    cue: float


def known_fits(param: Param, query: Query, start: int, end: int) -> Iterator[Fit]:
    """The values named by the schema that are said with all their words; a flag is False after a negation."""
    words = [word for word in query.said(start, end) if word.text[0].isalnum()]
    for known, argument in param.known:
        for said in zip(*(words[skip:] for skip in range(len(known))), strict=False):
            if [word.value for word in said] == [*known]:
                place = query.span("name" if param.fits else "known", said[0].start, said[-1].end)
                score = 1.0 + (not param.fits) + (place.text.lower() == str(argument).lower()) + 0.1 * len(known)
                denied = PATTERNS["negation"].search(query.text, max(0, place.start - 25), place.start)
                yield Fit(param, place, False if argument is True and denied else argument, score, 1.0)


def fits_of(param: Param, value: Span) -> Iterator[Fit]:
    """The value for the parameter, if it can be it, scored by its kind and by the words around it."""
    score = param.fits.get(value.kind, 0.0)
    argument = _argument(param, value) if score else None
    if argument is not None:
        named, hinted = (sum(value.context.get(word, 0) for word in words) for words in (param.names, param.hints))
        cue = named / len(param.names) ** 0.5 + 0.25 * hinted
        cue -= 0.1 * (value.kind in ("name", "phrase") and "<lead>" not in value.context)
        yield Fit(param, value, argument, score + cue, cue + (score >= 1.3 and value.kind != "rest"))


def _argument(param: Param, value: Span) -> Any:
    """The value as the parameter's type and description want it written; None where it cannot be."""
    given, told = value.value, param.description
    match param.type, given:
        case _, list() | dict():
            return given
        case "integer", _:
            return int(given) if given == int(given) else None
        case "number", _ if PATTERNS["share"].search(value.text) and not PATTERNS["share"].search(told):
            return round(given / 100, 10)
        case "string", datetime.date() if re.search("(?i)date|YY", told) or not value.text.endswith("day"):
            form = re.findall(r"(?:YYYY|MM|DD)(?:[-/.]?(?:YYYY|MM|DD)){2}", f"{told.upper()} YYYY-MM-DD")[0]
            return given.strftime(form.replace("YYYY", "%Y").replace("MM", "%m").replace("DD", "%d"))
        case "string", datetime.time() if re.search(r"HH:MM|24", told):
            return given.strftime("%H:%M:%S" if "SS" in told else "%H:%M")
        case "string", _ if value.kind != "quoted":
            return value.text.strip(" $€£")
    return given
