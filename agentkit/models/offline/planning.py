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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from ...tools.arguments.validation_errors import find_schemas, list_types
from .words import (
    GENERIC,
    LEXICON,
    PATTERNS,
    STOP,
    Query,
    TextSpan,
    add_context,
    is_listed_with,
    opens_request,
    parse_query,
    to_concepts,
)

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


MIN_SCORE = 0.3
GOOD_SCORE = 0.7
"""The score that a value needs for a parameter, and that of a good value."""
MIN_CUE = 0.55
"""The part of the score that the context must add for an optional parameter."""
OUTSIDE_PENALTY = 0.9
PRONOUN_PENALTY = 0.4
"""Deducted from the score of a value outside of the clause; the lesser one if a pronoun may refer to it."""


class Task(NamedTuple):
    """A part of a query, and the tool that it asks for."""

    tool: OfferedTool
    query: Query
    start: int
    end: int
    suffixes: Sequence["Task"] = ()

    def is_next(self, last: "Task", is_named: bool) -> bool:
        """Return whether this part asks for another call of the last task's tool; `is_named` if it names the tool."""
        shared = self._filled_params(GOOD_SCORE) & last._filled_params(GOOD_SCORE)
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
        return {p for p, (fit, *_) in self._assign_values().items() if self._contains(fit) and fit.score >= least}

    def list_places(self) -> Iterator[int]:
        """Yield the positions in the text of the values that this part uses."""
        for column in self._assign_values().values():
            for fit in column:
                yield from range_of(fit.value)

    def find_unsure(self) -> list[str]:
        """Return the parameters whose values are uncertain, as "name (value)"; the tool itself as "the tool".

        A value is certain if this part contains it, the query has no unused value that suits the parameter too, and it
        is not merely the rest of the text. The tool is certain if the words of this part name it, without the kinds
        of the values.
        """
        words = {word for word in self.query.concepts_in(self.start, self.end) if not word.startswith("<")}
        unsure = [] if self.tool.is_meant(words) else ["the tool"]
        columns = self._assign_values()
        fits = list(self.iter_fits())
        taken = set(self.list_places())
        for param, column in columns.items():
            own = (fit for fit in fits if fit.param is param and self._contains(fit))
            free = [fit for fit in own if taken.isdisjoint(range_of(fit.value))]
            for fit in column:
                if free or fit.value.kind == "rest" or not self._contains(fit):
                    unsure.append(f"{'.'.join(param.path)} ({fit.value.text})")
        return unsure

    def build_calls(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the arguments of each call that this part asks for, or the missing required names."""
        columns = self._assign_values()
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

    def _assign_values(self) -> dict[Param, list[Fit]]:
        """Return each parameter's values in order: the best fit each, then unused values that are listed with it."""
        ranked = sorted(self.iter_fits(), key=lambda fit: (not self._contains(fit), -fit.score, fit.value.start))
        columns: dict[Param, list[Fit]] = {param: [] for param in self.tool.params}
        taken: set[int] = set()
        for is_first in (True, False):
            for fit in ranked:
                column = columns[fit.param]
                places = range(fit.value.start, fit.value.end)
                text = self.query.text
                is_listed = any(is_listed_with(one.value, fit.value, text) for one in column)
                is_next = is_listed and not is_first if column else is_first != self._is_loose(fit)
                if is_next and taken.isdisjoint(places):
                    column.append(fit)
                    taken.update(places)
        return {param: sorted(fits, key=lambda fit: fit.value.start) for param, fits in columns.items() if fits}

    def iter_fits(self) -> Iterator[Fit]:
        """Yield the fits with a sufficient score; from outside this part, at a penalty, for required ones only."""
        loss = PRONOUN_PENALTY if PATTERNS["pronoun"].search(self.query.text, self.start, self.end) else OUTSIDE_PENALTY
        values = list(self._iter_values())
        for param in self.tool.params:
            for fit in score_values(param, values, self.query):
                is_inside = self._contains(fit) or any(suffix._contains(fit) for suffix in self.suffixes)
                fit = fit if is_inside else fit._replace(score=fit.score - loss)
                if fit.score >= MIN_SCORE and (
                    param.required or (is_inside and (fit.cue >= MIN_CUE or self._is_loose(fit)))
                ):
                    yield fit

    def _is_loose(self, fit: Fit) -> bool:
        """Return whether a preposition announces the value, but no context does for this optional parameter."""
        is_good = "<lead>" in fit.value.context and fit.param.fits.get(fit.value.kind, 0) >= GOOD_SCORE
        return (is_good or len(self.tool.params) == 1) and fit.cue < MIN_CUE and not fit.param.required

    def _iter_values(self) -> Iterator[TextSpan]:
        """Yield the query's values and phrases without the tool's own words, then the rest of this part's text."""
        for value in self.query.values:
            others = [w for w in self.query.words_in(value.start, value.end) if w.value not in self.tool.own]
            if value.kind == "phrase" and not GENERIC.issuperset(word.value for word in others):
                start, end = self.query.widen(others[0].start, others[-1].end)
                yield self.query.make_span("phrase", start, end, value.context)
            elif value.kind == "name" and others and opens_request(self.query.text, value.start):
                yield self.query.make_span("name", others[0].start, value.end, value.context)
            elif value.kind != "phrase" and (others or value.kind != "name"):
                yield value
        words = [word for word in self.query.words_in(self.start, self.end) if word.text[0].isalnum()]
        if rest := [word for word in words if word.text not in STOP and word.value not in self.tool.weights]:
            yield self.query.make_span("rest", rest[0].start, len(self.query.text[: self.end].rstrip(" .?!,;")))

    def _contains(self, fit: Fit) -> bool:
        return self.start <= fit.value.start < self.end


def range_of(value: TextSpan) -> range:
    """Return the positions in the text that a value takes."""
    return range(value.start, value.end)


Call: TypeAlias = tuple[str, dict[str, Any]]

MAX_CLAUSES = 30
_INFERRED_KINDS = frozenset({"phrase", "rest", "question", "asked"})
"""Kinds of values that a query need not use up."""


class Plan(NamedTuple):
    """The calls of a query, and what was not done.

    `missing` are the required arguments that the query lacks, by tool; `unsure` the uncertain arguments, by tool, of
    calls with side effects, which are not made; `unused` are the parts of the query that no call uses.
    """

    calls: list[Call]
    missing: dict[str, list[str]]
    unsure: dict[str, list[str]]
    unused: list[str]


def plan(query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date | None = None) -> list[Call]:
    """Return the calls, as (tool name, arguments), that `query` asks for; `tools` are OpenAI tool dicts."""
    return plan_calls(query, tools, today or datetime.date.today()).calls


def plan_calls(
    query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date, writing: Collection[str] = ()
) -> Plan:
    """Plan the calls of a query; `today` is the date that "tomorrow" is relative to.

    The tools named in `writing` have side effects; they are called with certain arguments only.
    """
    read = parse_query(query, today)
    tasks = _find_tasks(read, *_read_tools(json.dumps(list(tools))))
    result = Plan([], {}, {}, _find_unused(read, tasks))
    for task in tasks:
        name = task.tool.name
        calls, missing = task.build_calls()
        if missing:
            result.missing[name] = missing
        elif name in writing and (unsure := task.find_unsure()):
            result.unsure[name] = unsure
        else:
            result.calls.extend(call for arguments in calls if (call := (name, arguments)) not in result.calls)
    return result


def _find_unused(query: Query, tasks: Sequence[Task]) -> list[str]:
    """Return the values of a query that no task uses, and the requests that no tool matches."""
    used = {place for task in tasks for place in task.list_places()}
    own = {word for task in tasks for word in (*task.tool.weights, *task.tool.own)}.union(GENERIC) - STOP
    found: list[str] = []
    for start, end in _split_clauses(query) if tasks else ():
        words = [word for word in query.words_in(start, end) if word.text[0].isalnum() and word.text not in STOP]
        news = {word.start for word in words if own.isdisjoint((word.value, word.text))}
        if news and len(news) == len(words) and used.isdisjoint(range(start, end)):
            found.append(query.text[start:end].strip(" ,;.?!"))
            continue
        values = [value for value in query.values if start <= value.start < end and value.kind not in _INFERRED_KINDS]
        values += [one for two in pairwise(query.values) if _is_listed_phrase(*two, query.text, used) for one in two]
        for value in values:
            is_used = not used.isdisjoint(range_of(value)) or news.isdisjoint(range_of(value))
            if not is_used and value.text.lower() != "one":
                found.append(value.text)
    return list(dict.fromkeys(found))


def _is_listed_phrase(one: TextSpan, other: TextSpan, text: str, used: Collection[int]) -> bool:
    """Return whether two phrases stand in one list, of which one is used."""
    return is_listed_with(one, other, text) and (one.start in used or other.start in used)


def read_fields(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the properties of an object schema that a text contains; {} if several values fit one equally well."""
    tool = read_tool({"name": "", "parameters": {**schema, "required": ()}})
    task = Task(tool, parse_query(text, datetime.date.today()), 0, len(text))
    fits = sorted(task.iter_fits(), key=lambda fit: fit.score)
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


def _find_tasks(query: Query, tools: Sequence[OfferedTool], rarity: Mapping[str, float]) -> list[Task]:
    """Return the parts of the query, each with its tool; [] if no tool fits."""
    tasks: list[Task] = []
    for start, end in _split_clauses(query) if tools else ():
        mentioned = query.concepts_in(start, end)
        scores = [math.fsum(tool.weights.get(word, 0) * rarity.get(word, 0) for word in mentioned) for tool in tools]
        best = tools[scores.index(max(scores))]
        last = tasks[-1] if tasks else None
        if not last or (best.is_meant(mentioned) and max(scores) > scores[tools.index(last.tool)]):
            tasks.append(Task(best, query, start, end))
        elif (task := Task(last.tool, query, start, end)).is_next(
            last, is_named := "another" in mentioned or last.tool.is_meant(mentioned)
        ):
            if is_named or not task.asks_for_other():
                tasks.append(task)
        else:
            tasks[-1] = last._replace(end=end)
            tasks[:-1] = [t._replace(suffixes=[*t.suffixes, task]) if t.tool is last.tool else t for t in tasks[:-1]]
    return tasks if any(task.tool.is_meant(query.concepts_in(0, len(query.text))) for task in tasks) else []


def _split_clauses(query: Query) -> list[tuple[int, int]]:
    """Split a query into clauses, as (start, end); quotations and lists of values are not split."""
    values = [value for value in query.values if value.kind != "phrase"]
    whole = [*zip(values, values, strict=True), *(two for two in pairwise(values) if is_listed_with(*two, query.text))]
    cuts = [match.end() for match in PATTERNS["break"].finditer(query.text)]
    cuts = [cut for cut in cuts if not any(first.start < cut - 1 < last.end for first, last in whole)]
    return list(pairwise([0, *cuts[:MAX_CLAUSES], len(query.text)]))
