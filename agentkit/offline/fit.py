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

from ..repairs import at
from .text import ASKED, GENERIC, LEXICON, PATTERNS, Query, Span, concepts

_TYPE_OF = {loose: strict for strict, names in LEXICON["types"].items() for loose in names.split()}
_FITS = {kind: [({*concepts(words)}, fits) for words, fits in rows.items()] for kind, rows in LEXICON["fits"].items()}
_AT_LARGE = frozenset(concepts("web internet online"))
_DEEPEST = 5  # a schema may contain itself


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """A parameter: its path, its type (a list's: the type of its items), and the words that announce it.

    `names` are the concepts of its name, `hints` those of its description; `fits` says how well each kind of value
    suits it; `known` are the values that the schema names, by their words, and all there are if it is `closed`.
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
    closed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool on offer: its name and parameters, what each of its concepts tells of it, and how much is enough.

    `own` are the words that are not values: of its name, its parameters' names and their options.
    """

    name: str
    name_words: Sequence[str]
    params: Sequence[Param]
    weights: Mapping[str, float]
    enough: float
    own: frozenset[str]

    def is_meant(self, said: set[str]) -> bool:
        """Whether some concepts say the tool's name, enough of its words, or an option, and so are meant for it."""
        named = (self.name_words, *(words for param in self.params for words, _ in param.known))
        told = sum(self.weights.get(word, 0) for word in said - GENERIC)
        return told >= self.enough or any(words and said.issuperset(words) for words in named)


def read_tool(definition: Mapping[str, Any]) -> Tool:
    """The tool that an OpenAI tool dict (or its bare `function`) declares."""
    function = definition.get("function", definition)
    params, name_words = list(_params(function.get("parameters") or {}, (), True)), concepts(function["name"])
    needed = [param for param in params if param.required]
    own = {c for p in params for c in (*p.names, *(c for words, _ in p.known if p.closed for c in words))}
    weights = dict.fromkeys(own.union(*(param.hints for param in params)), 0.8)
    weights |= dict.fromkeys(concepts(function.get("description") or ""), 1.2) | dict.fromkeys(name_words, 2.0)
    weights |= {f"<{kind}>": 2.0 for p in needed for kind, fit in p.fits.items() if fit >= 2 and kind != "quoted"}
    at_large = len(needed) == 1 and "rest" in needed[0].fits and not _AT_LARGE.isdisjoint(weights)
    weights |= {ASKED: 1.0} if at_large else {}
    enough = 1.0 if at_large or GENERIC.issuperset(name_words) else 2.0
    return Tool(function["name"], name_words, params, weights, enough, frozenset({*own, *name_words}))


def schema_at(root: Mapping[str, Any], path: Sequence[str | int]) -> dict[str, Any]:
    """The schema that `path` leads to, with what its references and unions hold, and one of the strict types."""
    nodes = [node for node in at(dict(root), tuple(path)) if node.get("type") != "null"]
    schema = {key: value for node in reversed(nodes) for key, value in node.items()}
    kind = schema.get("type", "object" if "properties" in schema else "any")
    kind = next((k for k in kind if k != "null"), "any") if isinstance(kind, list) else str(kind)
    return {**schema, "type": _TYPE_OF.get(re.split(r"\W", kind.lower())[0], "any")}


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
    known: list[tuple[Sequence[str], Any]] = [(concepts(str(value)), value) for value in options or _examples(text)]
    if one["type"] == "boolean":
        known, options = [(tuple(c for c in words if c not in GENERIC) or words, True)], (True, False)
    yield Param(path, one["type"], is_list, required, text, names, hints, fits, known, bool(options))


def _examples(description: str) -> Iterator[str]:
    """The values that a description names: quoted ones, and those listed after "such as" and the like."""
    for match in PATTERNS["examples"].finditer(description):
        listed = re.split(r",\s*(?:or |and )?|\sor\s", match[1] or match[2])
        yield from (example for one in listed if 2 < len(example := one.strip()) < 40)


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
                place = query.span("known" if param.closed else "name", said[0].start, said[-1].end)
                denied = argument is True and PATTERNS["negation"].search(
                    query.text[max(0, place.start - 25) : place.start]
                )
                score = 1.0 + param.closed + (place.text.lower() == str(argument).lower()) + 0.1 * len(known)
                yield Fit(param, place, False if denied else argument, score, 1.0)


def fits_of(param: Param, value: Span) -> Iterator[Fit]:
    """The value for the parameter, if it can be it, scored by its kind and by the words around it."""
    is_literal = value.kind in ("array", "object")
    is_asked = value.kind == ("array" if param.is_list else param.type)
    score = 2.5 if is_literal and is_asked else param.fits.get(value.kind, 0.0)
    argument = value.value if is_literal else _argument(param, value) if score else None
    if score and argument is not None and not param.closed:
        named, hinted = (sum(value.context.get(word, 0) for word in words) for words in (param.names, param.hints))
        cue = named / len(param.names) ** 0.5 + 0.25 * hinted
        cue -= 0.1 * (value.kind in ("name", "phrase") and "lead" not in value.context)
        yield Fit(param, value, argument, score + cue, cue + (score >= 1.3 and value.kind != "rest"))


def _argument(param: Param, value: Span) -> Any:
    """The value as the parameter's type and description want it written; None where it cannot be."""
    given, told = value.value, param.description
    match param.type, given:
        case "integer" | "number", str() | datetime.date():
            year = re.search(r"\d{4}", value.text)
            return int(year[0]) if year else None
        case "integer", _:
            return int(given) if given == int(given) else None
        case "number", _:
            is_share = value.unit in ("%", "percent") and not re.search(r"(?i)percent|%", told)
            return round(given / 100, 10) if is_share else given
        case "string", datetime.date() if re.search("(?i)date|YY", told) or not value.text.endswith("day"):
            form = re.search(r"(?:YYYY|MM|DD)(?:[-/.]?(?:YYYY|MM|DD)){2}", told.upper())
            parts = (form[0] if form else "YYYY-MM-DD").replace("YYYY", "%Y").replace("MM", "%m").replace("DD", "%d")
            return given.strftime(parts)
        case "string", datetime.time() if re.search(r"HH:MM|24", told):
            return given.strftime("%H:%M:%S" if "SS" in told else "%H:%M")
        case "string", _:
            return str(given) if value.kind == "quoted" else value.text.strip(" $€£")
    return given
