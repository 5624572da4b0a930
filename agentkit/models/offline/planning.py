"""The planner: from a query and the available tools to the calls that the query asks for.

1. The query is split into clauses, and each gets the tool whose words match it best.  Consecutive clauses for the same
   tool, or without a clear tool, are one task until one sets a parameter again.  A clause that sets no parameter again
   also applies to the earlier tasks of the tool ("..., *in miles*").
2. For each task the parameters of its tool get the values that fit them, the best fit first, one value each.
3. An unused value next to a used one ("Rome and *Paris*") makes one more call.  Another value after a preposition goes
   to an optional parameter that the query does not mention.

A value is scored for a parameter by its kind (the table `fits` of the lexicon) and by its context: the parameter's
words near it, or implied by a preposition or a unit.  Values that a schema names itself (enumerations, examples, flags,
codes of currencies and the like) are searched among the words of the query.
"""

import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, reduce
from itertools import combinations, pairwise
from typing import Any, NamedTuple, TypeAlias

from ...core.values import frozen
from ...tools.arguments.validation_errors import find_schemas, list_types
from .words import (
    BOUNDS,
    CALLING,
    CHANGERS,
    CHANGES,
    CONDITION_WORDS,
    DENIALS,
    EXCLUSIONS,
    GENERIC,
    IDENTIFIERS,
    LEADS,
    LEXICON,
    LITERAL_KINDS,
    MANNERS,
    MODIFIERS,
    MOVERS,
    NEGATIONS,
    PATTERNS,
    PREPOSITIONS,
    QUANTITIES,
    REQUESTS,
    SETTERS,
    SHARES,
    STOP,
    SUBJECTS,
    Query,
    TextSpan,
    add_context,
    is_change,
    is_listed_with,
    opens_request,
    parse_query,
    to_concept,
    to_concepts,
)

_TYPES = {"integer", "number", "boolean", "array", "object", "string"}
_FITS = {
    kind: [({*to_concepts(words)}, fits) for words, fits in rows.items()] for kind, rows in LEXICON["fits"].items()
}
_CODES = {of: [one.split(None, 1) for one in listed.split(",")] for of, listed in LEXICON["codes"].items()}
_OPERATORS = {
    word: [to_concept(sign) if sign.isalpha() else sign for sign in signs.split()]
    for words, signs in LEXICON["operators"].items()
    for word in to_concepts(words)
}
_ANTONYMS = {
    to_concept(one): to_concept(other)
    for pair in LEXICON["antonyms"].split(",")
    for one, other in (pair.split(), pair.split()[::-1])
}
_SIGNS = {sign for signs in _OPERATORS.values() for sign in signs}
_WILDCARDS = frozenset("*~<>|^")
"""Signs that change what a value beside them means."""
_MAX_SCHEMA_DEPTH = 5
"""Levels of nested objects that are read; a schema may contain itself."""
MIN_TOOL_SCORE = 1.2
"""The weight that the words of a query need for a tool."""
VERB_BONUS = 1.0
"""Added to the score of a tool whose name or description begins with the verb of the request."""
NEAR = 0.8
"""The share of the best score from which a tool is considered that uses more of the words."""
READ_BONUS = 0.1
"""Added in a question to the score of a tool that only reads."""


@frozen(eq=False)
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
    `verbs` has the first word of its description, or of its name.
    """

    name: str
    params: Sequence[Param]
    weights: Mapping[str, float]
    own: frozenset[str]
    verbs: frozenset[str] = frozenset()

    def is_meant(self, concepts: set[str]) -> bool:
        """Return whether the concepts include the tool's name, or enough of its words."""
        score = sum(self.weights.get(word, 0) for word in concepts - STOP)
        return score >= MIN_TOOL_SCORE or concepts.issuperset(to_concepts(self.name))


def read_tool(definition: Mapping[str, Any]) -> OfferedTool:
    """Return the tool of an OpenAI tool dict (or of its `function`)."""
    function = definition.get("function", definition)
    name = to_concepts(function["name"])
    about = to_concepts(function.get("description") or "")
    initials = ["".join(word[0] for word in pair) for pair in pairwise(name)]  # "*PR* 12" for `merge_pull_request`
    verbs = {*(about or name)[:1]}  # "*assign* T-1 to Ana" announces no `assignee`
    params = []
    for param in _iter_params(function.get("parameters") or {}, (), True):
        labels = (*name, *initials) if param.type == "integer" else ()
        cues = {**dict.fromkeys(labels, 0.0), **_read_preposition(param, function.get("description") or "")}
        cues = {cue: weight for cue, weight in {**cues, **param.cues}.items() if cue not in verbs}
        params.append(replace(param, cues=cues))
    needed = [param for param in params if param.required]
    options = {word for param in params if not param.fits for words, _ in param.known for word in words}
    own = frozenset((*name, *about, *options)).union(*(to_concepts(".".join(param.path)) for param in params))
    weights = dict.fromkeys(own.union(*(p.cues for p in params)), 0.8) | dict.fromkeys({*about, *options}, 1.2)
    weights |= dict.fromkeys(name, 2.0) | {f"<{kind}>": 2.0 for p in needed for kind, fit in p.fits.items() if fit >= 2}
    if len(needed) == 1 and "rest" in needed[0].fits and "web" in weights:
        weights["<question>"] = MIN_TOOL_SCORE  # a web search suits any question
    if sum(param.type in ("integer", "number") for param in needed) > 1:
        weights |= {sign: 2.0 for word in own for sign in _OPERATORS.get(word, ())}
    weights = {word: t * (0.2 if word in GENERIC else 1) for word, t in weights.items()}
    return OfferedTool(function["name"], params, weights, own, frozenset((about or name)[:1]))


def _read_preposition(param: Param, text: str) -> dict[str, float]:
    """Return the cue of the preposition before a parameter in a description: "~to" for "Add a person to a *team*"."""
    words = [(word.lower(), to_concept(word)) for word in PATTERNS["token"].findall(text.partition(".")[0])]
    name = to_concept(str(param.path[-1]))
    at = next((at for at, (_, concept) in enumerate(words) if concept == name), 0)
    before = next((word for word, _ in reversed(words[:at]) if word in PREPOSITIONS or word not in STOP), None)
    return {f"~{before}" if before in PREPOSITIONS else "~": 0.25} if before else {}


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
    form = next((kind for kind, sign in (("date", "YY"), ("time", "HH")) if sign in text), "")
    hints = [c for c in to_concepts(f"{text} {schema.get('format', form)}") if c not in GENERIC.union(words)]
    units = to_concepts(" ".join(PATTERNS["measured"].findall(text)))
    cues = {word: 1.0 if word in LEADS else len(words) ** -0.5 for word in words} | {
        c: 1.0 if c in units else 0.25 for c in hints
    }
    *kinds, (_, other) = _FITS.get(one["type"], [(set(), {})])
    head = [word for word in words if word not in GENERIC][-1:]  # "mail_id" is an id
    forms = ([form], head, words, hints)
    fits = next((fits for cues in forms for known, fits in kinds if not known.isdisjoint(cues)), other)
    fits = {} if one.get("enum") else {**fits, "array": 2.5} if is_list else fits
    listed = ([a] if a else PATTERNS["or"].split(b.strip()) for a, b in PATTERNS["examples"].findall(text))
    values = one.get("enum") or [example for examples in listed for example in examples if len(example) > 2]
    known: list[tuple[Sequence[str], Any]] = [(to_concepts(str(value)), value) for value in values]
    coded = [of for of, rows in _CODES.items() if {*values} and {*values} <= {code for code, _ in rows}]
    if "code" in text.lower() or coded:
        rows = [row for of in _CODES if of in coded or of in text.lower() for row in _CODES[of]]
        rows = [row for row in rows if row[0] in one.get("enum", (row[0],))]
        known += [(to_concepts(each), code) for code, name in rows for each in (code, name)]
        cues = {word: 0.0 for words, _ in known for word in words} | cues
    if one["type"] == "boolean":
        known = [(tuple(c for c in words if c not in GENERIC) or words, True)]
        known += [((_ANTONYMS[word],), False) for word in words if word in _ANTONYMS]
    yield Param(path, one["type"], is_list, required, text, cues, fits, known)


class Fit(NamedTuple):
    """A value as the argument of a parameter, with its score and the part of the score that its context adds.

    `denial` is where a word begins that denies the value ("not *Paris*"); such a value is never an argument.
    """

    param: Param
    value: TextSpan
    argument: Any
    score: float
    cue: float
    denial: int | None = None


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
            denial = None if value.kind == "rest" else query.find_denial(value.start, DENIALS, param.cues)
            yield Fit(param, value, argument, score + cue, cue + (score >= 1.3 and value.kind != "rest"), denial)
    yield from _find_denied_flag(param, query)
    mentioned = {word.value for word in query.words}
    literal = [one for one in query.values if one.kind in LITERAL_KINDS]
    capitals = {word.start for word in query.words if query.text[word.start : word.end].isupper()}
    for known, argument in (one for one in param.known if mentioned.issuperset(one[0])):
        spoken = [w for w in query.words if w.text[0].isalnum() and (w.text not in STOP or w.value in known)]
        for words in zip(*(spoken[skip:] for skip in range(len(known))), strict=False):
            is_code = param.fits and argument == str(argument).upper() == "".join(known).upper()  # "IN" is not "in"
            if [word.value for word in words] == [*known] and not (is_code and words[0].start not in capitals):
                place = add_context(
                    query.make_span("name" if param.fits else "known", words[0].start, words[-1].end), query
                )
                if any(_is_part(place, one) for one in literal):
                    continue
                score = 1.0 + (not param.fits) + (place.text.lower() == str(argument).lower()) + 0.1 * len(known)
                score += min(0.5, sum(place.context.get(word, 0) * weight for word, weight in param.cues.items()) / 2)
                if argument is True:
                    place, argument = _read_flag(place, query)
                    yield Fit(param, place, argument, score, 1.0)
                else:
                    yield Fit(param, place, argument, score, 1.0, query.find_denial(place.start, DENIALS))


def _is_part(value: TextSpan, whole: TextSpan) -> bool:
    """Return whether a value is within another one, and not all of its words."""
    is_inside = whole.start <= value.start and value.end <= whole.end
    return is_inside and to_concepts(whole.value) != to_concepts(value.text)


def _find_denied_flag(param: Param, query: Query) -> Iterator[Fit]:
    """Yield that a flag is False where a word for it is denied: "without notifying them" for `notify_guests`."""
    if param.type != "boolean" or not DENIALS.isdisjoint(param.description.lower().split()):
        return
    for word in query.words:
        is_cue = word.value in param.cues and word.value not in GENERIC
        if is_cue and (denial := query.find_denial(word.start, NEGATIONS)) is not None:
            place = query.make_span("known", denial, word.end)
            yield Fit(param, place, False, 2.0, 1.0)


def _read_flag(place: TextSpan, query: Query) -> tuple[TextSpan, bool]:
    """Return the place of a flag with the word that negates it before or behind, and whether the flag is set."""
    start = query.find_denial(place.start, NEGATIONS)
    behind = next((word for word in query.words_in(place.end, place.end + 12) if word.text[0].isalpha()), None)
    end = behind.end if behind and behind.text in NEGATIONS else place.end
    return place._replace(start=place.start if start is None else start, end=end), start is None and end == place.end


def _names_itself(text: str, param: Param) -> bool:
    """Return whether an identifier begins with a word of the parameter's name, as `node-3` does for `node`."""
    first, *rest = re.split(r"[-_./:@]", text)
    return bool(rest) and not set(to_concepts(first)).isdisjoint(to_concepts(str(param.path[-1])))


_DATE_CODES = {"YYYY": "Y", "YYY": "Y", "YEAR": "Y", "YY": "y", "MM": "m", "MONTH": "m", "DD": "d", "DAY": "d"}
_DATE_PART = re.compile("|".join(_DATE_CODES))
_DATE_FORM = re.compile(rf"\b(?:{_DATE_PART.pattern})(?:[-/.]?(?:{_DATE_PART.pattern})){{2}}\b")


def _convert_value(param: Param, value: TextSpan) -> Any:
    """Return the value in the form of the parameter's type and description; None if it has no such form."""
    given = value.value
    about = f"{param.path[-1]}: {param.description}"
    match param.type, given:
        case "integer" | "number", str():
            (*label, digits) = given.replace("#", "# ").split()
            is_label = all(word == "#" or to_concept(word) in param.cues for word in label)  # "#482", "PR 482"
            return int(digits) if digits.isdecimal() and is_label else None
        case "integer", float():
            return None
        case "number", int() | float() if PATTERNS["share"].search(value.text) and not PATTERNS["share"].search(about):
            return round(given / 100, 10)
        case "string", datetime.date() if re.search("(?i)date|YY", about) or not value.text.endswith("day"):
            form = _DATE_FORM.search(f"{about.upper()} YYYY-MM-DD")
            return given.strftime(_DATE_PART.sub(lambda part: f"%{_DATE_CODES[part[0]]}", form[0] if form else ""))
        case "string", datetime.time() if re.search(r"HH:MM|24", about):
            return given.strftime("%H:%M:%S" if "SS" in about else "%H:%M")
        case "string", _ if value.kind not in ("quoted", "array", "object"):
            return value.text.strip(" $€£")
    return given


MIN_SCORE = 0.3
GOOD_SCORE = 0.7
"""The score that a value needs for a parameter, and that of a good value."""
MIN_CUE = 0.55
"""The part of the score that the context must add for an optional parameter."""
OUTSIDE_PENALTY = 0.9
NAME_PENALTY = 0.5
"""Deducted from the score of an option that is a word of the tool's name."""
MIN_CERTAIN_FIT = 0.35
"""The least fit of a kind of value that makes the value certain."""
TIE = 0.05
"""Two fillings whose scores differ by less are equally good."""
PRONOUN_PENALTY = 0.4
"""Deducted from the score of a value outside of the clause; the lesser one if a pronoun may refer to it."""


@frozen(slots=False, eq=False)
class Task:
    """A part of a query, and the tool that it asks for.

    `is_tied` if its words suit another tool as well, `is_further` if it lists values for one more call.
    """

    tool: OfferedTool
    query: Query
    start: int
    end: int
    suffixes: Sequence["Task"] = ()
    is_tied: bool = False
    is_further: bool = False

    def is_next(self, last: "Task", is_named: bool) -> bool:
        """Return whether this part asks for another call of the last task's tool; `is_named` if it names the tool."""
        opening = next((w.value for w in self.query.words_in(self.start, self.end) if w.text not in STOP), "")
        least = MIN_SCORE if opening in self.tool.verbs else GOOD_SCORE
        shared = self._filled_params(least) & last._filled_params(least)
        again = [param for param in shared if is_named or not param.is_list]
        needed = {param for param in self.tool.params if param.required}
        return len(again) > 1 or (len(again) == 1 and needed <= last._filled_params(MIN_SCORE))

    def asks_for_other(self) -> bool:
        """Return whether this part has a word that neither the tool knows nor a value is beside: "the *capital* of"."""
        known = {*self.tool.weights, *self.tool.own, *STOP}
        used = set(self.list_places())
        words = [word for word in self.query.words_in(self.start, self.end) if word.text[0].isalnum()]
        beside = [word.start in used for word in words]
        return any(
            known.isdisjoint((word.text, word.value)) and not any(beside[max(0, at - 1) : at + 2])
            for at, word in enumerate(words)
        )

    def _filled_params(self, least: float) -> set[Param]:
        return {p for p, (fit, *_) in self.columns.items() if self._contains(fit) and fit.score >= least}

    def list_places(self) -> Iterator[int]:
        """Yield the positions in the text of the values that this part uses."""
        for column in self.columns.values():
            for fit in column:
                yield from range_of(fit.value)

    def find_unsure(self) -> list[str]:
        """Return what is uncertain: the tool as "the tool", values as "name (value)", and parts without a place.

        The tool is certain if the words of this part name it, without the kinds of the values, and no other tool as
        well. A value is certain if this part contains it in a form that suits the parameter, and no other filling is as
        good. Every other word must be one of the tool's, or without content; what denies or limits has no such place.
        """
        words = drop_kinds(self.query.concepts_in(self.start, self.end))
        unsure = [] if self.is_further or (self.tool.is_meant(words) and not self.is_tied) else ["the tool"]
        unsure += self.find_refusal() + self._find_report()
        unread = self.find_unread()
        for param, column in self.columns.items():
            values = [range_of(fit.value) for fit in self.fits if fit.param is param]
            is_open = any(word.start in value for word in unread for value in values)
            for fit in column:
                if is_open or not self._is_certain(fit) or self._is_contradicted(fit):
                    unsure.append(f"{'.'.join(param.path)} ({fit.value.text})")
        unsure += self._find_ranges() + self._find_ties() + [f'the part "{part}"' for part in self._join_words(unread)]
        return list(dict.fromkeys(unsure))

    def find_refusal(self) -> list[str]:
        """Return the word at the start of this part that forbids the call: "*Don't* show the logs"."""
        words = self.query.words_in(self.start, self.end)
        opening = next((word for word in words if word.text in DENIALS or word.text not in STOP), None)
        return [f'the part "{opening.text}"'] if opening and opening.text in DENIALS else []

    def _find_report(self) -> list[str]:
        """Return the words that report what was done, or ask how it is done: "*I cancelled* it", "tell me *how to*"."""
        used = set(self.list_places())
        words = [word for word in self.query.words_in(self.start, self.end) if word.start not in used]
        found = [
            self.query.text[subject.start : verb.end]
            for subject, verb in pairwise(words)
            if subject.text in SUBJECTS and verb.value in self.tool.verbs and verb.text.endswith("ed")
        ]
        manners = PATTERNS["manner"].finditer(self.query.text, self.start, self.end)
        found += [manner[0] for manner in manners if manner.start() not in used]
        return [f'the part "{part}"' for part in found]

    def _find_ranges(self) -> list[str]:
        """Return the values of a range ("5 *to* 9"), and those that may belong to the first of a list only.

        So it is with a value directly before the list: "*3* chairs and tables".
        """
        found = []
        for column in self.columns.values():
            if len(column) > 1:
                ends = [
                    f"{one.text} to {other.text}"
                    for one, other in pairwise(fit.value for fit in column)
                    if self.query.text[one.end : other.start].strip() == "to"
                ]
                behind = column[0].value.start
                found += ends + [
                    other[0].value.text
                    for other in self.columns.values()
                    if len(other) == 1 and self.query.text[other[0].value.end : behind] == " "
                ]
        return [f'the part "{part}"' for part in found]

    def _find_ties(self) -> list[str]:
        """Return the values that two parameters can have as well the one way as the other, as "a or b (value)"."""
        scores = {(id(fit.param), fit.value.start): fit.score for fit in self.fits}
        singles = [column[0] for column in self.columns.values() if column[0].param.fits]
        ties = [
            (one, other.param)
            for one, other in combinations(singles, 2)
            if (there := scores.get((id(other.param), one.value.start))) is not None
            and (here := scores.get((id(one.param), other.value.start))) is not None
            and there + here >= one.score + other.score - TIE
            and not self._are_in_order(one.value, other.value)
        ]
        ties += [
            (fit, other.param)
            for fit in singles
            for other in self.fits
            if other.value.start == fit.value.start
            and other.param not in self.columns
            and (other.param.required or other.cue >= MIN_CUE)
            and other.score >= fit.score - TIE
        ]
        ties += [
            (fit, column[0].param)
            for fit in singles
            for column in self.columns.values()
            if len(column) > 1 and column[0].param is not fit.param and self._is_in_list(fit, column)
        ]
        return [f"{'.'.join(fit.param.path)} or {'.'.join(param.path)} ({fit.value.text})" for fit, param in ties]

    def _is_in_list(self, fit: Fit, column: Sequence[Fit]) -> bool:
        """Return whether a value stands in the same list as those of another parameter: "add *2* and 3 and 4"."""
        others = [other.value for other in column]
        return fit.value not in others and any(is_listed_with(fit.value, one, self.query.text) for one in others)

    def _are_in_order(self, one: TextSpan, other: TextSpan) -> bool:
        """Return whether two values stand in a list, or at the sides of an operator, in this order."""
        between = self.query.text[one.end : other.start]
        return one.start < other.start and (is_listed_with(one, other, self.query.text) or is_operator(between))

    def _is_certain(self, fit: Fit) -> bool:
        """Return whether a value is in this part, suits its parameter, and does not include the verb of the request."""
        is_known = any(fit.argument == value for _, value in fit.param.known)
        kind_fits = MIN_CERTAIN_FIT if is_known else fit.param.fits.get(fit.value.kind, MIN_CERTAIN_FIT)
        opens = fit.value.kind in ("name", "phrase", "rest") and not self.query.words_in(self.start, fit.value.start)
        is_clear = self._contains(fit) and kind_fits >= MIN_CERTAIN_FIT and not opens and fit.value.kind != "rest"
        return is_clear and not (self._is_agent(fit.value) or self._is_guessed(fit) or self._is_description(fit))

    def _is_description(self, fit: Fit) -> bool:
        """Return whether a value describes a thing and does not name it: "my *oldest* project", "the one of *Ana*"."""
        if fit.value.kind not in ("name", "phrase") or not fit.param.fits:
            return False
        first, *_ = self.query.words_in(fit.value.start, fit.value.end)
        before = [word for word in self.query.words_in(self.start, fit.value.start) if word.text != "the"][-2:]
        is_owned = [word.text for word in before[1:]] == ["of"] and before[0].value in self.tool.own
        return (fit.value.kind == "phrase" and PATTERNS["superlative"].fullmatch(first.text) is not None) or (
            is_owned
            and not IDENTIFIERS.isdisjoint(to_concepts(fit.param.path[-1]))
            and before[0].value not in IDENTIFIERS
        )

    def _is_agent(self, value: TextSpan) -> bool:
        """Return whether a value is the one that shall do what the tool does: "ask *Ada* to close the ticket"."""
        behind = next((word for word in self.query.words_in(value.end, self.end) if word.text not in STOP), None)
        is_person = value.kind in ("name", "phrase", "email") and value.start > self.start
        return is_person and behind is not None and behind.value in self.tool.verbs

    def _is_guessed(self, fit: Fit) -> bool:
        """Return whether nothing but the kind of a value suits a parameter.

        So it is where no word announces an optional parameter, behind a direction that another one has ("*from* Ada"
        for `to`), with a percentage that is no share, with a change of what is set ("*by* 2"), and the other way round.
        """
        name = {*to_concepts(str(fit.param.path[-1]))}
        for here, there in (("from", "to"), ("to", "from")):
            is_other = name.isdisjoint(LEADS[here]) and not name.isdisjoint(LEADS[there])
            is_set = here == "to" and not MOVERS.union(SETTERS).isdisjoint(self.tool.verbs)
            if f"~{here}" in fit.value.context and is_other and not is_set:
                return True
        if fit.value.kind == "number" and "~to" in fit.value.context and not CHANGERS.isdisjoint(self.tool.verbs):
            return not name.isdisjoint(CHANGES)  # "raise it *to* 5" for `percent`
        is_by = "~by" in fit.value.context and "~by" not in fit.param.cues
        if fit.value.kind == "number" and is_by and not SETTERS.isdisjoint(self.tool.verbs):
            return name.isdisjoint(CHANGES)
        is_share = fit.param.type == "number" and PATTERNS["share"].search(fit.value.text)
        if is_share and fit.param.cues.keys().isdisjoint(SHARES):
            return True
        return self._is_loose(fit) and fit.value.kind != "number"

    def _is_contradicted(self, fit: Fit) -> bool:
        """Return whether this part has another option of the parameter too: "*off* ... on"."""
        taken = set(self.list_places())
        others = [
            other for other in self.fits if other.param is fit.param and not (fit.param.fits or self._is_named(other))
        ]
        return any(other.argument != fit.argument and other.value.start not in taken for other in others)

    def find_unread(self) -> list[TextSpan]:
        """Return the words of this part that no value, no word of the tool and no word without content explains."""
        read = set(self.list_read())
        explained = STOP.union(
            _SIGNS.intersection(self.tool.weights), ("x",), self.tool.own, *(param.cues for param in self.columns)
        )
        if self.query.concepts_in(self.start, self.end).issuperset(to_concepts(self.tool.name)):
            explained = explained.union(CALLING)  # "*call* price_of"
        unread = []
        for word in self.query.words_in(self.start, self.end):
            if word.start in read or not (word.text[0].isalnum() or word.text in _WILDCARDS):
                continue
            is_limit = self._limits(word, explained) and not (word.text == "but" and self._leads_to(word, read))
            if is_limit or {word.text, word.value}.isdisjoint(explained):
                unread.append(word)
        return unread

    def _leads_to(self, word: TextSpan, read: Collection[int]) -> bool:
        """Return whether only words without content or denial stand between a word and what is read."""
        behind = self.query.words_in(word.end, self.end)
        found = next((one for one in behind if one.text in DENIALS or one.text not in STOP), None)
        return found is not None and found.start in read

    def _limits(self, word: TextSpan, explained: Container[str]) -> bool:
        """Return whether a word denies, limits or conditions the request, where no parameter is for such a limit."""
        if word.text in BOUNDS:
            names = {one for param in self.columns for one in to_concepts(param.path[-1])}
            return word.value not in names and not any(
                hint in explained and hint not in STOP for hint in LEADS[word.text][1:]
            )
        is_question = word.text == "when" and not self.query.words_in(self.start, word.start)
        before = [one.text for one in self.query.words_in(self.start, word.start)[-1:]]
        if word.text in REQUESTS and before == ["and"]:
            return word.value not in self.tool.own  # one more request, or the name of a thing
        return word.text in DENIALS.union(CONDITION_WORDS, QUANTITIES - self.tool.own) and not is_question

    def list_read(self) -> Iterator[int]:
        """Yield the positions of values that this part uses, denies ("*not Rome*") or changes ("from *3* to 5")."""
        used = set(self.list_places())
        yield from used
        excluded = {word.start for word in self.query.words if word.text in EXCLUSIONS}
        for fit in self._all_fits:
            if fit.denial is None or fit.denial in excluded:
                continue
            column = self.columns.get(fit.param, ())
            if not fit.param.is_list and any(one.value.kind == fit.value.kind for one in column):
                yield from range(fit.denial, fit.value.end)
        named = {word for param in self.tool.params for word in to_concepts(param.path[-1])}
        has_start = not named.isdisjoint(LEADS["from"])
        for one, other in pairwise([] if has_start else self.query.values):
            if other.start in used and is_change(one, other, self.query.text):
                yield from range_of(one)

    def _join_words(self, words: Sequence[TextSpan]) -> list[str]:
        """Return the parts of the text that the words form: whole values, and words side by side."""
        spans: list[tuple[int, int]] = []
        for word in words:
            holding = (value for value in self.query.values if value.kind != "phrase" and word.start in range_of(value))
            place = next(holding, word)
            if spans and place.start <= spans[-1][1] + 1:
                spans[-1] = (spans[-1][0], max(place.end, spans[-1][1]))
            else:
                spans.append((place.start, place.end))
        return [self.query.text[start:end] for start, end in spans]

    def is_complete(self) -> bool:
        """Return whether each required parameter has a value of this part, and each word of this part has a place."""
        filled = {param for param, column in self.columns.items() if self._contains(column[0])}
        return filled.issuperset(param for param in self.tool.params if param.required) and not self.find_unread()

    def _is_named(self, fit: Fit) -> bool:
        """Return whether the value is an option that the tool's name contains, such as "merge" of `merge_request`."""
        return not fit.param.fits and set(to_concepts(fit.value.text)) <= set(to_concepts(self.tool.name))

    def build_calls(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the arguments of each call that this part asks for, or the missing required names."""
        columns = self.columns
        if missing := [".".join(p.path) for p in self.tool.params if p.required and p not in columns]:
            return [], missing
        spread = {p: column for p, column in columns.items() if not p.is_list or column[0].value.kind == "array"}
        calls: list[dict[str, Any]] = [{} for _ in range(max(map(len, spread.values()), default=1))]
        for index, call in enumerate(calls):
            for param, column in columns.items():
                place = reduce(lambda place, step: place.setdefault(step, {}), param.path[:-1], call)
                arguments = [fit.argument for fit in column]
                place[param.path[-1]] = arguments[min(index, len(column) - 1)] if param in spread else arguments
        return calls, []

    @cached_property
    def columns(self) -> Mapping[Param, Sequence[Fit]]:
        """Return each parameter's values in order: the best fit each, then unused values that are listed with it."""
        ranked = sorted(self.fits, key=lambda fit: (not self._contains(fit), -fit.score, fit.value.start))
        columns: dict[Param, list[Fit]] = {param: [] for param in self.tool.params}
        taken: set[int] = set()
        for is_first in (True, False):
            for fit in ranked:
                column = columns[fit.param]
                if not column and is_first != self._is_loose(fit) and taken.isdisjoint(range_of(fit.value)):
                    column.append(fit)
                    taken.update(range_of(fit.value))
                if column and (fit.param.is_list or not is_first):
                    self._add_listed(column, ranked, taken)
            self._swap_better(columns.values())
        return {param: sorted(fits, key=lambda fit: fit.value.start) for param, fits in columns.items() if fits}

    def _swap_better(self, columns: Collection[list[Fit]]) -> None:
        """Exchange the single values of two parameters where both together fit better the other way round."""
        fits = {(id(fit.param), range_of(fit.value)): fit for fit in self.fits}
        for one, other in combinations([column for column in columns if len(column) == 1], 2):
            there = fits.get((id(other[0].param), range_of(one[0].value)))
            here = fits.get((id(one[0].param), range_of(other[0].value)))
            if there and here and there.score + here.score > one[0].score + other[0].score + TIE:
                one[:] = [here]
                other[:] = [there]

    def _add_listed(self, column: list[Fit], ranked: Sequence[Fit], taken: set[int]) -> None:
        """Add to a parameter's values the unused ones that are listed with them."""
        for fit in ranked:
            is_own = fit.param is column[0].param and not self._is_named(fit) and taken.isdisjoint(range_of(fit.value))
            if is_own and any(is_listed_with(one.value, fit.value, self.query.text) for one in column):
                column.append(fit)
                taken.update(range_of(fit.value))

    @cached_property
    def fits(self) -> Sequence[Fit]:
        """The fits with a sufficient score that no word denies."""
        return [fit for fit in self._all_fits if fit.denial is None]

    @cached_property
    def _all_fits(self) -> Sequence[Fit]:
        """The fits with a sufficient score; from outside this part, at a penalty, for required parameters only."""
        found = list[Fit]()
        loss = PRONOUN_PENALTY if PATTERNS["pronoun"].search(self.query.text, self.start, self.end) else OUTSIDE_PENALTY
        values = list(self._iter_values())
        for param in self.tool.params:
            for fit in score_values(param, values, self.query):
                is_inside = self._contains(fit) or any(suffix._contains(fit) for suffix in self.suffixes)
                fit = fit if is_inside else fit._replace(score=fit.score - loss)
                fit = fit._replace(score=fit.score - NAME_PENALTY) if self._is_named(fit) else fit
                if fit.score >= MIN_SCORE and (
                    param.required or (is_inside and (fit.cue >= MIN_CUE or self._is_loose(fit)))
                ):
                    found.append(fit)
        return found

    def _is_loose(self, fit: Fit) -> bool:
        """Return whether a preposition announces the value, but no context does for this optional parameter."""
        is_good = "<lead>" in fit.value.context and fit.param.fits.get(fit.value.kind, 0) >= GOOD_SCORE
        is_good = is_good or (fit.value.kind == "number" and self._is_only_number(fit))
        return (is_good or len(self.tool.params) == 1) and fit.cue < MIN_CUE and not fit.param.required

    def _is_only_number(self, fit: Fit) -> bool:
        """Return whether a number counts no thing, and only one optional parameter takes it: "*19.90* of order 7"."""
        behind = next(iter(self.query.words_in(fit.value.end, self.end)), None)
        takers = [one for one in self.tool.params if one.type in ("integer", "number") and not one.required]
        return len(takers) == 1 and (behind is None or behind.text in STOP or not behind.text[0].isalnum())

    def _iter_values(self) -> Iterator[TextSpan]:
        """Yield the query's values and phrases without the tool's own words, then the rest of this part's text."""
        for value in self.query.values:
            others = [w for w in self.query.words_in(value.start, value.end) if w.value not in self.tool.own]
            while len(others) > 1 and value.kind == "phrase" and others[-1].text in MANNERS:  # "ban miller *forever*"
                others.pop()
            if value.kind == "phrase" and not GENERIC.issuperset(word.value for word in others):
                behind = self.query.words_in(others[-1].end, value.end)[:1]
                last = behind[0] if behind and others[-1].text in MODIFIERS else others[-1]  # "the *living room* light"
                start, end = self.query.widen(others[0].start, last.end)
                yield self.query.make_span("phrase", start, end, value.context)
            elif value.kind == "name" and others and opens_request(self.query.text, value.start):
                yield self.query.make_span("name", others[0].start, value.end, value.context)
            elif value.kind == "expression" and not any("expression" in param.fits for param in self.tool.params):
                operands = self.query.read_operands(value)
                needed = {word for operand in operands for word in operand.context}
                is_read = operands and needed <= {cue for param in self.tool.params for cue in param.cues}
                yield from operands if is_read else [value]
            elif value.kind != "phrase" and (others or value.kind != "name"):
                yield value
        words = [word for word in self.query.words_in(self.start, self.end) if word.text[0].isalnum()]
        if rest := [word for word in words if word.text not in STOP and word.value not in self.tool.weights]:
            yield self.query.make_span("rest", rest[0].start, len(self.query.text[: self.end].rstrip(" .?!,;")))

    def _contains(self, fit: Fit) -> bool:
        return self.start <= fit.value.start < self.end


def drop_kinds(concepts: Collection[str]) -> set[str]:
    """Return the concepts without the kinds of values; arithmetic asks for a tool that takes it."""
    return {concept for concept in concepts if not concept.startswith("<") or concept == "<expression>"}


def is_operator(text: str) -> bool:
    """Return whether a text is a sign between two numbers, in words or not: "plus", "divided by"."""
    words = [word for word in to_concepts(text) if word not in STOP]
    return text.strip() in _SIGNS or (len(words) == 1 and words[0] in _SIGNS.union(_OPERATORS))


def range_of(value: TextSpan) -> range:
    """Return the positions in the text that a value takes."""
    return range(value.start, value.end)


Call: TypeAlias = tuple[str, dict[str, Any]]

MAX_CLAUSES = 30
_INFERRED_KINDS = frozenset({"phrase", "rest", "question", "asked"})
"""Kinds of values that a query need not use up."""


class CallPlan(NamedTuple):
    """The calls of a query, and what was not done.

    `missing` are the required arguments that the query lacks, by tool; `unsure` the uncertain arguments, by tool, of
    calls with side effects, which are not made; `unused` are the parts of the query that no call uses.
    """

    calls: list[Call]
    missing: dict[str, list[str]]
    unsure: dict[str, list[str]]
    unused: list[str]


def plan(query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date | None = None) -> list[Call]:
    """Return the calls, as (tool name, arguments), that `query` asks for; `tools` are OpenAI dicts that only read."""
    names = [tool.get("function", tool)["name"] for tool in tools]
    return plan_calls(query, tools, today or datetime.date.today(), dict.fromkeys(names, "read")).calls


def name_tools(query: str, tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the tools that the parts of `query` ask for; [] if its words suit none."""
    effects = dict.fromkeys((tool["name"] for tool in tools), "read")
    tasks = _find_tasks(parse_query(query, datetime.date.today()), *_read_tools(json.dumps(list(tools))), effects)
    return list(dict.fromkeys(task.tool.name for task in tasks))


def plan_calls(
    query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date, effects: Mapping[str, str | None]
) -> CallPlan:
    """Plan the calls of a query; `today` is the date that "tomorrow" is relative to.

    A tool is called with certain arguments only, unless `effects` states that the tool of this name only reads.  What
    writes is called only if the whole query can be done.
    """
    read = parse_query(query, today)
    tasks = _find_tasks(read, *_read_tools(json.dumps(list(tools))), effects)
    result = CallPlan([], {}, {}, _find_unused(read, tasks))
    for task in tasks:
        name = task.tool.name
        calls, missing = task.build_calls()
        if missing:
            result.missing[name] = missing
        elif unsure := task.find_refusal() if effects.get(name) == "read" else task.find_unsure():
            result.unsure[name] = unsure
        else:
            result.calls.extend(call for arguments in calls if (call := (name, arguments)) not in result.calls)
    if result.missing or result.unsure or result.unused:
        rest = [f'the part "{part}"' for part in result.unused] or ["the other parts of the query"]
        result.unsure.update((name, rest) for name, _ in result.calls if effects.get(name) != "read")
        result.calls[:] = [call for call in result.calls if call[0] not in result.unsure]
    return result


def _find_unused(query: Query, tasks: Sequence[Task]) -> list[str]:
    """Return the values of a query that no task uses, and the requests that no tool matches."""
    used = {place for task in tasks for place in task.list_read()}
    own = {word for task in tasks for word in (*task.tool.weights, *task.tool.own)}.union(GENERIC) - STOP
    found: list[str] = []
    for start, end in _split_clauses(query) if tasks else ():
        words = [word for word in query.words_in(start, end) if word.text[0].isalnum() and word.text not in STOP]
        news = {word.start for word in words if own.isdisjoint((word.value, word.text))}
        if news and len(news) == len(words) and used.isdisjoint(range(start, end)):
            found.append(query.text[start:end].strip(" ,;.?!"))
            continue
        values = [value for value in query.values if start <= value.start < end and value.kind not in _INFERRED_KINDS]
        for one, other in pairwise(query.values):
            if is_listed_with(one, other, query.text) and (one.start in used or other.start in used):
                values += (one, other)
        for value in values:
            is_used = not used.isdisjoint(range_of(value)) or news.isdisjoint(range_of(value))
            if not is_used and value.text.lower() != "one":
                found.append(value.text)
    return list(dict.fromkeys(found))


def read_fields(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the properties of an object schema that a text contains; {} if several values fit one equally well."""
    tool = read_tool({"name": "", "parameters": {**schema, "required": ()}})
    task = Task(tool, parse_query(text, datetime.date.today()), 0, len(text))
    fits = sorted(task.fits, key=lambda fit: fit.score)
    (calls, _) = task.build_calls()
    best = {fit.param: fit for fit in fits}
    rivals = [fit for fit in fits if not fit.param.is_list and fit.score == best[fit.param].score]
    return calls[0] if len(calls) == 1 and all(fit.argument == best[fit.param].argument for fit in rivals) else {}


@lru_cache(maxsize=64)
def _read_tools(definitions: str) -> tuple[Sequence[OfferedTool], Mapping[str, float]]:
    """Return the available tools, and how rare each concept is among them."""
    tools = [read_tool(definition) for definition in json.loads(definitions)]
    counts = Counter(word for tool in tools for word in tool.weights).items()
    return tools, {word: math.log(1 + len(tools) / count) for word, count in counts}


def _score_tools(
    query: Query,
    start: int,
    end: int,
    tools: Sequence[OfferedTool],
    rarity: Mapping[str, float],
    effects: Mapping[str, str | None],
    mentioned: Collection[str],
) -> list[float]:
    """Return how well the `mentioned` concepts of a clause suit each tool; a question asks for no tool that writes."""
    scores = [math.fsum(tool.weights.get(word, 0) * rarity.get(word, 0) for word in mentioned) for tool in tools]
    words = [word for word in query.words_in(start, end) if word.text[0].isalnum() and word.text not in STOP]
    opening = words[0].value if words else ""
    text = query.text[start:end].strip()
    asks = text.endswith("?") and not PATTERNS["polite"].search(text)
    is_question = asks and bool(PATTERNS["question"].search(text))
    for at, tool in enumerate(tools):
        effect = effects.get(tool.name)
        is_writing = effect is None and is_question and not tool.verbs.isdisjoint(mentioned)
        if asks and (is_writing or effect not in (None, "read")):
            scores[at] = 0.0
        elif scores[at]:
            scores[at] += VERB_BONUS * (opening in tool.verbs and not asks) + READ_BONUS * (asks and effect == "read")
    return scores


def _find_tasks(
    query: Query, tools: Sequence[OfferedTool], rarity: Mapping[str, float], effects: Mapping[str, str | None]
) -> list[Task]:
    """Return the parts of the query, each with its tool; [] if no tool fits."""
    tasks: list[Task] = []
    unknown: int | None = None
    for start, end in _split_clauses(query) if tools else ():
        start = start if unknown is None else unknown
        mentioned = query.concepts_in(start, end)
        scores = _score_tools(query, start, end, tools, rarity, effects, mentioned)
        best = tools[scores.index(max(scores))]
        is_unknown = not (tasks or best.is_meant(mentioned)) and query.text[start:end].endswith(" and ")
        unknown = start if is_unknown else None  # "*squash* and merge 482" is one request
        if is_unknown:
            continue
        last = tasks[-1] if tasks else None
        named = drop_kinds(mentioned)
        is_open = last and best is not last.tool and not last.is_complete()
        if last and is_open and (whole := replace(last, end=end)).is_complete():
            tasks[-1] = whole
        elif not last or (best.is_meant(named) and max(scores) > scores[tools.index(last.tool)]):
            tasks.append(Task(best, query, start, end))
        elif (task := Task(last.tool, query, start, end, is_further=True)).is_next(
            last, is_named := "another" in mentioned or last.tool.is_meant(mentioned)
        ):
            if is_named or not task.asks_for_other():
                tasks.append(task)
        else:
            tasks[-1] = replace(last, end=end)
            tasks[:-1] = [replace(t, suffixes=[*t.suffixes, task]) if t.tool is last.tool else t for t in tasks[:-1]]
    tasks = [_choose_tool(task, tools, rarity, effects) for task in tasks]
    return tasks if any(task.tool.is_meant(query.concepts_in(0, len(query.text))) for task in tasks) else []


def _choose_tool(
    task: Task, tools: Sequence[OfferedTool], rarity: Mapping[str, float], effects: Mapping[str, str | None]
) -> Task:
    """Return the task with the one tool of those that its words suit about equally well that uses all of its words."""
    named = drop_kinds(task.query.concepts_in(task.start, task.end))
    scores = _score_tools(task.query, task.start, task.end, tools, rarity, effects, named)
    best = scores[tools.index(task.tool)]
    if task.is_further or not best:
        return task
    equal = [tool for tool, score in zip(tools, scores, strict=True) if score >= best - TIE and tool is not task.tool]
    if task.is_complete():
        return replace(task, is_tied=any(replace(task, tool=tool).is_complete() for tool in equal))
    near = [tool for tool, score in zip(tools, scores, strict=True) if score >= best * NEAR and tool is not task.tool]
    others = [other for tool in near if (other := replace(task, tool=tool)).is_complete()]
    return others[0] if len(others) == 1 else replace(task, is_tied=bool(equal))


def _split_clauses(query: Query) -> list[tuple[int, int]]:
    """Split a query into clauses, as (start, end); quotations and lists of values are not split."""
    values = [value for value in query.values if value.kind != "phrase"]
    whole = [*zip(values, values, strict=True), *(two for two in pairwise(values) if is_listed_with(*two, query.text))]
    cuts = [match.end() for match in PATTERNS["break"].finditer(query.text)]
    cuts = [cut for cut in cuts if not any(first.start < cut - 1 < last.end for first, last in whole)]
    return list(pairwise([0, *cuts[:MAX_CLAUSES], len(query.text)]))
