"""Read tools for the planner, and score how well a value of a query fits one of their parameters.

A value is scored for a parameter by its kind (the table `fits` of the lexicon) and by its context: the parameter's
words near it, or implied by a preposition or a unit. Values that a schema names itself (enumerations, examples, flags,
codes of currencies and the like) are searched among the words of the query.
"""

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...tools.arguments.validation_errors import find_schemas, list_types
from .words import GENERIC, LEXICON, PATTERNS, STOP, Query, TextSpan, add_context, to_concepts

_TYPES = {"integer", "number", "boolean", "array", "object", "string"}
_FITS = {
    kind: [({*to_concepts(words)}, fits) for words, fits in rows.items()] for kind, rows in LEXICON["fits"].items()
}
_CODES = {of: [one.split(None, 1) for one in listed.split(",")] for of, listed in LEXICON["codes"].items()}
_MAX_SCHEMA_DEPTH = 5
"""Levels of nested objects that are read; a schema may contain itself."""
MIN_TOOL_SCORE = 1.2
"""The weight that the words of a query need for a tool."""


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """A parameter: its path, its type (of a list: the type of its items), and the words that announce it.

    `cues` maps the concepts of its name and description to weights, `fits` the kinds of values. `known` lists the
    values that the schema names, with their words; without `fits` no other value is allowed.
    """

    path: Sequence[str]
    type: str
    is_list: bool
    required: bool
    description: str
    cues: Mapping[str, float]
    fits: Mapping[str, float]
    known: Sequence[tuple[Sequence[str], Any]]


class OfferedTool(NamedTuple):
    """An available tool: its name, its parameters, and the weight of each concept for it.

    `own` are the words that are not values: of its name and description, its parameters' names and their options.
    """

    name: str
    params: Sequence[Param]
    weights: Mapping[str, float]
    own: frozenset[str]

    def is_meant(self, concepts: set[str]) -> bool:
        """Return whether the concepts include the tool's name, or enough of its words."""
        score = sum(self.weights.get(word, 0) for word in concepts - STOP)
        return score >= MIN_TOOL_SCORE or concepts.issuperset(to_concepts(self.name))


def read_tool(definition: Mapping[str, Any]) -> OfferedTool:
    """Return the tool of an OpenAI tool dict (or of its `function`)."""
    function = definition.get("function", definition)
    name = to_concepts(function["name"])
    about = to_concepts(function.get("description") or "")
    params = list(_iter_params(function.get("parameters") or {}, (), True))
    needed = [param for param in params if param.required]
    options = {word for param in params if not param.fits for words, _ in param.known for word in words}
    own = frozenset((*name, *about, *options)).union(*(to_concepts(".".join(param.path)) for param in params))
    weights = dict.fromkeys(own.union(*(p.cues for p in params)), 0.8) | dict.fromkeys({*about, *options}, 1.2)
    weights |= dict.fromkeys(name, 2.0) | {f"<{kind}>": 2.0 for p in needed for kind, fit in p.fits.items() if fit >= 2}
    if len(needed) == 1 and "rest" in needed[0].fits and "web" in weights:
        weights["<question>"] = MIN_TOOL_SCORE  # a web search suits any question
    return OfferedTool(function["name"], params, {w: t * (0.2 if w in GENERIC else 1) for w, t in weights.items()}, own)


def schema_at(root: Mapping[str, Any], path: Sequence[str | int]) -> dict[str, Any]:
    """Return the schema at `path`, merged with its references and unions, with one type."""
    nodes = find_schemas(dict(root), tuple(path))
    schema = {key: value for node in reversed(nodes) for key, value in node.items()}
    kinds = sorted(list_types(nodes) - {"null"}) or ["object" if "properties" in schema else "any"]
    return {**schema, "type": kinds[0] if kinds[0] in _TYPES else "any"}


def _iter_params(root: Mapping[str, Any], path: Sequence[str], required: bool) -> Iterator[Param]:
    schema = schema_at(root, path)
    if not path or (schema.get("properties") and len(path) < _MAX_SCHEMA_DEPTH):
        for name in schema.get("properties") or ():
            yield from _iter_params(root, (*path, name), required and name in (schema.get("required") or ()))
        return
    is_list = schema["type"] == "array"
    text = str(schema.get("description") or "")
    words = to_concepts(path[-1])
    one = {**schema, **schema_at(root, (*path, 0))} if is_list else schema
    form = "date" if "YY" in text else ""
    hints = [c for c in to_concepts(f"{text} {schema.get('format', form)}") if c not in GENERIC.union(words)]
    units = to_concepts(" ".join(PATTERNS["measured"].findall(text)))
    cues = dict.fromkeys(words, max(len(words), 1) ** -0.5) | {c: 1.0 if c in units else 0.25 for c in hints}
    *rows, (_, other) = _FITS.get(one["type"], [(set(), {})])
    fits = next((fits for cues in (words, hints) for known, fits in rows if not known.isdisjoint(cues)), other)
    fits = {} if one.get("enum") else {**fits, "array": 2.5} if is_list else fits
    listed = ([a] if a else PATTERNS["or"].split(b.strip()) for a, b in PATTERNS["examples"].findall(text))
    values = one.get("enum") or [example for examples in listed for example in examples if len(example) > 2]
    known: list[tuple[Sequence[str], Any]] = [(to_concepts(str(value)), value) for value in values]
    if "code" in text.lower():
        known += [(to_concepts(name), code) for of in _CODES if of in text.lower() for code, name in _CODES[of]]
        cues = {word: 0.0 for words, _ in known for word in words} | cues
    if one["type"] == "boolean":
        known = [(tuple(c for c in words if c not in GENERIC) or words, True)]
    yield Param(path, one["type"], is_list, required, text, cues, fits, known)


class Fit(NamedTuple):
    """A value as the argument of a parameter, with its score and the part of the score that its context adds."""

    param: Param
    value: TextSpan
    argument: Any
    score: float
    cue: float


def score_values(param: Param, values: Sequence[TextSpan], query: Query) -> Iterator[Fit]:
    """Yield the values that the parameter can have, scored by their kinds and their context.

    A value that the schema names must occur in the query in full; a flag is False after a negation.
    """
    for value in values:
        if value.kind in param.fits and (argument := _convert_value(param, value)) is not None:
            score = param.fits[value.kind]
            cue = sum(value.context.get(word, 0) * weight for word, weight in param.cues.items())
            cue += 0.8 * _names_itself(value.text, param)
            cue -= 0.1 * (value.kind in ("name", "phrase") and "<lead>" not in value.context)
            yield Fit(param, value, argument, score + cue, cue + (score >= 1.3 and value.kind != "rest"))
    mentioned = {word.value for word in query.words}
    for known, argument in (one for one in param.known if mentioned.issuperset(one[0])):
        spoken = [w for w in query.words if w.text[0].isalnum() and (w.text not in STOP or w.value in known)]
        for words in zip(*(spoken[skip:] for skip in range(len(known))), strict=False):
            if [word.value for word in words] == [*known]:
                place = add_context(
                    query.make_span("name" if param.fits else "known", words[0].start, words[-1].end), query
                )
                score = 1.0 + (not param.fits) + (place.text.lower() == str(argument).lower()) + 0.1 * len(known)
                denied = PATTERNS["negation"].search(query.text, max(0, place.start - 25), place.start)
                score += min(0.5, sum(place.context.get(word, 0) * weight for word, weight in param.cues.items()) / 2)
                yield Fit(param, place, False if argument is True and denied else argument, score, 1.0)


def _names_itself(text: str, param: Param) -> bool:
    """Return whether an identifier begins with a word of the parameter's name, as `node-3` does for `node`."""
    first, *rest = re.split(r"[-_./:@]", text)
    return bool(rest) and not set(to_concepts(first)).isdisjoint(to_concepts(str(param.path[-1])))


def _convert_value(param: Param, value: TextSpan) -> Any:
    """Return the value in the form of the parameter's type and description; None if it has no such form."""
    given = value.value
    about = param.description
    match param.type, given:
        case "integer", float():
            return None
        case "number", int() | float() if PATTERNS["share"].search(value.text) and not PATTERNS["share"].search(about):
            return round(given / 100, 10)
        case "string", datetime.date() if re.search("(?i)date|YY", about) or not value.text.endswith("day"):
            form = re.findall(r"(?:YYYY|MM|DD)(?:[-/.]?(?:YYYY|MM|DD)){2}", f"{about.upper()} YYYY-MM-DD")[0]
            return given.strftime(form.replace("YYYY", "%Y").replace("MM", "%m").replace("DD", "%d"))
        case "string", datetime.time() if re.search(r"HH:MM|24", about):
            return given.strftime("%H:%M:%S" if "SS" in about else "%H:%M")
        case "string", _ if value.kind not in ("quoted", "array", "object"):
            return value.text.strip(" $€£")
    return given
