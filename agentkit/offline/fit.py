"""How well each value of a query fits each parameter of a tool.

A value is scored for a parameter by its kind (for texts by the table `fits` of the lexicon, else by the schema's type)
and by its context: which of the parameter's words stand near it, before it mostly, or follow from a preposition or a
unit.  Enumerations, flags and lists are scored on the same scale.
"""

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from .text import COMMANDS, GENERIC, LEXICON, STOP, Query, Span, concept, concepts
from .tools import ROLES, Param, Tool

Context: TypeAlias = Mapping[str, float]
"""Concepts near a value, and how much each says about it."""

LEADS = {word: concepts(hints) for words, hints in LEXICON["leads"].items() for word in words.split()}
UNITS = {concept(unit): concepts(hints) for units, hints in LEXICON["units"].items() for unit in units.split()}
_OPENERS = frozenset(
    [".", "?", "!", ";", ",", ":", "to", "and", "then", "please", "you", "also", "now", "finally", "next"]
)
_LIST = re.compile(r"\s*(?:,|,?\s*(?:and|or|&|to|by|x|versus|vs\.?)\b|,?\s*and\s+(?:the|of|in|for|a)\b)?\s*")
_NEGATION = re.compile(r"\b(?:no|not|without|don't|exclud\w+|disable\w*|never|false)\b")


@dataclass(frozen=True, slots=True)
class Fit:
    """A value as the argument of a parameter: how well it fits, and how much of that the words around it tell."""

    param: Param
    value: Span
    argument: Any
    score: float
    cue: float


def in_one_list(one: Span, other: Span, text: str) -> bool:
    """Whether two values stand side by side, as in "1, 2 and 3"."""
    start, end = min(one.end, other.end), max(one.start, other.start)
    return one.kind == other.kind and end - start < 15 and bool(_LIST.fullmatch(text[start:end]))


def read_for(tool: Tool, query: Query) -> dict[Span, Context]:
    """The values of `query` and its phrases, without the tool's own words at their ends, each in its context."""
    own = {*tool.name_words, *(c for p in tool.params for c in (*p.names, *concepts(" ".join(map(str, p.options)))))}
    values = [*_phrases(query, own)]
    for value in query.values:
        first, _, rest = value.text.partition(" of ")
        if value.kind == "name" and rest and concept(first) in own:  # of "Population of Rome" only the city
            values.append(query.span("name", value.end - len(rest), value.end))
        elif value.kind != "name" or not own.issuperset(map(concept, value.text.split(" "))):
            values.append(value)
    values.sort(key=lambda value: value.start)
    found: dict[Span, Context] = {}
    barrier = 0
    for index, value in enumerate(values):
        limit = next((v.start for v in values[index + 1 :] if v.kind != "phrase"), len(query.text))
        context = _context(value, query.said(barrier, value.start)[-9:], query.said(value.end, limit)[:3], barrier > 0)
        if index and in_one_list(values[index - 1], value, query.text):  # members share what is said of the first
            context = {**found[values[index - 1]], **context}
        found[value] = context
        barrier = barrier if value.kind == "phrase" else value.end
    return found


def _phrases(query: Query, own: set[str]) -> Iterator[Span]:
    """The runs of words that are neither values nor function words, without the words of `own` at their ends."""
    taken = {place for value in query.values for place in range(value.start, value.end)}
    ends = own - UNITS.keys()
    chunk: list[Span] = []
    last = "."
    for word in [*query.words, Span("word", ".", ".", len(query.text), len(query.text))]:
        verb = not chunk and word.text in COMMANDS and last in _OPENERS
        plain = word.text.isalpha() and word.text not in STOP and not verb
        if word.start not in taken and (plain or (chunk and word.text in ("of", "-"))):
            chunk.append(word)
        else:
            while chunk and (chunk[0].value in own or chunk[0].text in ("of", "-")):
                chunk.pop(0)
            while chunk and (chunk[-1].text in ("of", "-") or chunk[-1].value in ends):
                chunk.pop()
            chunk = chunk[2:] if len(chunk) > 2 and chunk[1].text == "of" else chunk
            if not GENERIC.issuperset(part.value for part in chunk):
                yield query.span("phrase", chunk[0].start, chunk[-1].end)
            chunk = []
        last = word.text


def _context(value: Span, before: Sequence[Span], after: Sequence[Span], behind_value: bool) -> dict[str, float]:
    """What the words before and after a value say about it: the nearer, the more."""
    units = [value.unit, *(word.text for word in after[:1])] if value.kind == "number" else []
    context = {hint: 0.6 for unit in units for hint in UNITS.get(concept(unit), ())}
    for away, word in enumerate(after):
        if word.text in STOP or not word.text[0].isalnum():
            break
        context[word.value] = 1.2 / (1 + 0.4 * away)
    for distance, word in enumerate(reversed(before), 1):
        if word.text in ".?!;" or (behind_value and word.text in ("and", ",")):
            break
        hints = LEADS.get(f"{value.kind}_{word.text}", LEADS.get(word.text, ()))
        if hints and "lead" not in context:
            context |= {"lead": 1.0, **dict.fromkeys(hints, 0.7)}
            context |= {word.value: 1.1} if word.value in hints else {}
        if word.value in ROLES or word.text not in STOP:
            context[word.value] = max(context.get(word.value, 0), 1.1 / (0.75 + 0.25 * distance))
    return context


def fits_of(param: Param, query: Query, values: Mapping[Span, Context], start: int, end: int) -> list[Fit]:
    """Every way to fill `param`; options and flags only from what the stretch `start` to `end` says."""
    said = [word for word in query.said(start, end) if word.text[0].isalnum()]
    if param.type == "boolean":
        return _flag(param, query, said)
    if param.options:
        return _known(param, param.options, query, said)
    if param.type == "array":
        return list(_lists(param, query, values))
    found = [fit for value, context in values.items() if (fit := _fit(param, value, context))]
    return found + (_known(param, param.examples, query, said) if param.type == "string" else [])


def _known(param: Param, known: Sequence[Any], query: Query, said: Sequence[Span]) -> list[Fit]:
    """The values named by the schema that are said with all their words; of an array, all of them."""
    best: dict[int, Fit] = {}
    for option in known:
        words = [concept(word) for word in re.findall(r"[^\W\d_]+|\d+(?:\.\d+)?", str(option))]
        for index, word in enumerate(said):
            if words and [w.value for w in said[index : index + len(words)]] == words:
                place = query.span("option" if param.options else "name", word.start, said[index + len(words) - 1].end)
                exact = query.text[word.start :].lower().startswith(str(option).lower())
                fit = Fit(param, place, option, 1.0 + bool(param.options) + exact + 0.1 * len(words), 1.0)
                best[word.start] = max(best.get(word.start, fit), fit, key=lambda one: one.score)
    if param.type == "array" and best:
        return [replace(best[min(best)], argument=list(dict.fromkeys(best[at].argument for at in sorted(best))))]
    return list(best.values())


def _flag(param: Param, query: Query, said: Sequence[Span]) -> list[Fit]:
    """True when the words of the parameter's name are said, False when they are after a negation."""
    named = [word for word in said if word.value in param.names]
    if len({word.value for word in named}) < min(2, len(param.names)):
        return []
    value = not _NEGATION.search(query.text[max(0, named[0].start - 25) : named[0].start].lower())
    return [Fit(param, query.span("flag", named[0].start, named[0].start), value, 1.0, 1.0)]


def _lists(param: Param, query: Query, values: Mapping[Span, Context]) -> Iterator[Fit]:
    """A bracketed list, or a run of values ("1, 2 and 3") whose members fit the items."""
    items = param.schema.get("items") or {}
    inner = replace(param, type=items.get("type", "any"), schema=items)
    run: list[Fit] = []
    for value, context in values.items():
        if value.kind == "list":
            yield Fit(param, value, value.value, 2.5 + _cue(param, context), 1.0)
        elif fit := _fit(inner, value, context):
            run = [*run, fit] if run and in_one_list(run[-1].value, value, query.text) else [fit]
            whole = query.span("run", run[0].value.start, value.end)
            yield Fit(param, whole, [f.argument for f in run], run[0].score + 0.15 * len(run), run[0].cue)


def _fit(param: Param, value: Span, context: Context) -> Fit | None:
    if param.type in ("integer", "number") or (param.type == "any" and value.kind == "number"):
        score, argument = _as_number(param, value)
    elif value.kind in ("object", "list"):
        score, argument = 1.5, value.value if param.type in (value.kind, "any") else None
    else:
        score, argument = param.fits.get(value.kind, 0.0), _written(param, value)
        score -= param.fits.get("unled", 0.1) * (value.kind in ("name", "phrase") and "lead" not in context)
    if argument is None or (param.type == "object" and not isinstance(argument, dict)):
        return None
    cue = _cue(param, context)
    return Fit(param, value, argument, score + cue, cue + (score >= 1.3))


def _cue(param: Param, context: Context) -> float:
    """How much the words around a value say that it belongs to `param`: two of its name, two of its description."""
    named, hinted = (
        sum(sorted((weight for word, weight in context.items() if word in words), reverse=True)[:2])
        for words in (param.names, param.hints)
    )
    return float(named / min(len(param.names), 3) ** 0.5 + 0.25 * hinted)


def _as_number(param: Param, value: Span) -> tuple[float, Any]:
    number, of_years = value.value, concept("year") in param.names
    if value.kind == "date" and of_years and (found := re.search(r"\d{4}", value.text)):
        return 1.1, int(found[0])
    if value.kind not in ("number", "year"):
        return 0, None
    if value.unit in ("%", "percent") and param.type == "number" and not re.search(r"(?i)percent|%", param.description):
        number = round(number / 100, 10)
    if param.type == "integer" and number != int(number):
        return 0, None
    score = 0.4 if (value.kind == "year") != of_years else 1.5 if of_years else 0.8
    return score, int(number) if param.type == "integer" else number


def _written(param: Param, value: Span) -> str | None:
    """A value as the text that the parameter's description asks for; None where no text will do."""
    text = param.description
    if isinstance(value.value, datetime.date) and (re.search("(?i)date|YY", text) or not value.text.endswith("day")):
        form = re.search(r"(?:YYYY|MM|DD)(?:[-/.]?(?:YYYY|MM|DD)){2}", text.upper())
        parts = (form[0] if form else "YYYY-MM-DD").replace("YYYY", "%Y").replace("MM", "%m").replace("DD", "%d")
        return value.value.strftime(parts)
    if isinstance(value.value, datetime.time) and re.search(r"HH:MM|24", text):
        return value.value.strftime("%H:%M:%S" if "SS" in text else "%H:%M")
    plain = str(value.value) if value.kind == "quoted" else value.text.strip(" $€£")
    return plain if value.kind in param.fits else None
