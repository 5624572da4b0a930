"""The planner: from a query and the tools on offer to the calls that the query asks for.

1. The query is cut into clauses, and for each the tool is chosen whose words it says best.  Clauses in a row that ask
   for the same tool, or for nothing clearly, are one task, until one gives parameters anew.  A clause that gives none
   anew is shared with the earlier tasks of the tool ("..., *in miles*").
2. For each task the parameters of its tool get the values that fit them (`fit`), the best fit first, one value each.
3. A value left over that stands beside one already taken ("Rome and *Paris*") makes one more call; another one to which
   a preposition leads goes to an optional parameter of which nothing is said.
"""

import datetime
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from .fill_arguments import Fit, OfferedTool, Param, read_tool, score_values
from .words import GENERIC, PATTERNS, STOP, Query, TextSpan, is_listed_with, read_query

Call: TypeAlias = tuple[str, dict[str, Any]]
Plan: TypeAlias = tuple[list[Call], dict[str, list[str]]]

# The clauses that a query is cut into, at most; what a value must score, and a good one; what of it words must tell for
# an optional parameter; what a value from elsewhere loses, and one that a pronoun may refer to.
MAX_CLAUSES, MIN_SCORE, GOOD_SCORE, MIN_CUE, OUTSIDE_PENALTY, PRONOUN_PENALTY = 30, 0.3, 0.7, 0.55, 0.9, 0.4


def plan(query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date | None = None) -> list[Call]:
    """The calls, as (tool name, arguments), that `query` asks for; `tools` are OpenAI tool dicts."""
    return plan_calls(query, tools, today or datetime.date.today())[0]


def plan_calls(query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date) -> Plan:
    """As `plan`, and for each fitting tool that cannot be called the arguments that the query lacks."""
    offer = _read_tools(json.dumps(list(tools)))
    done = [(task.tool.name, *task.build_calls()) for task in _find_tasks(read_query(query, today), *offer)]
    calls = [(name, arguments) for name, found, _ in done for arguments in found]
    calls = [call for n, call in enumerate(calls) if call not in calls[:n]]
    return calls, {name: missing for name, _, missing in done if missing}


def read_fields(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The properties of an object schema that a text tells; none where several values fit one of them as well."""
    tool = read_tool({"name": "", "parameters": {**schema, "required": ()}})
    task = Task(tool, read_query(text, datetime.date.today()), 0, len(text))
    fits, (calls, _) = sorted(task.iter_fits(), key=lambda fit: fit.score), task.build_calls()
    best = {fit.param: fit for fit in fits}
    rivals = [fit for fit in fits if not fit.param.is_list and fit.score == best[fit.param].score]
    return calls[0] if len(calls) == 1 and all(fit.argument == best[fit.param].argument for fit in rivals) else {}


@lru_cache(maxsize=64)
def _read_tools(definitions: str) -> tuple[Sequence[OfferedTool], Mapping[str, float]]:
    """The tools on offer, and how rare each concept is among them."""
    tools = [read_tool(definition) for definition in json.loads(definitions)]
    counts = Counter(word for tool in tools for word in tool.weights).items()
    return tools, {word: math.log(1 + len(tools) / count) for word, count in counts}


def _find_tasks(query: Query, tools: Sequence[OfferedTool], rarity: Mapping[str, float]) -> list["Task"]:
    """The stretches of the query, each with the tool it asks for; none when no tool fits."""
    tasks: list[Task] = []
    for start, end in _split_clauses(query) if tools else ():
        said = query.concepts_in(start, end)
        told = [math.fsum(tool.weights.get(word, 0) * rarity.get(word, 0) for word in said) for tool in tools]
        best = tools[told.index(max(told))]
        last = tasks[-1] if tasks else None
        if not last or (best.is_meant(said) and max(told) > told[tools.index(last.tool)]):
            tasks.append(Task(best, query, start, end))
        elif (task := Task(last.tool, query, start, end)).is_next(last, "another" in said or last.tool.is_meant(said)):
            tasks.append(task)
        else:
            tasks[-1] = last._replace(end=end)
            tasks[:-1] = [t._replace(suffixes=[*t.suffixes, task]) if t.tool is last.tool else t for t in tasks[:-1]]
    return tasks if any(task.tool.is_meant(query.concepts_in(0, len(query.text))) for task in tasks) else []


def _split_clauses(query: Query) -> list[tuple[int, int]]:
    """The clauses of a query, as (start, end); quotations and lists of values are not cut."""
    values = [value for value in query.values if value.kind != "phrase"]
    whole = [*zip(values, values, strict=True), *(two for two in pairwise(values) if is_listed_with(*two, query.text))]
    cuts = [match.end() for match in PATTERNS["break"].finditer(query.text)]
    cuts = [cut for cut in cuts if not any(first.start < cut - 1 < last.end for first, last in whole)]
    return list(pairwise([0, *cuts[:MAX_CLAUSES], len(query.text)]))


class Task(NamedTuple):
    """A stretch of a query, and the tool that it asks for."""

    tool: OfferedTool
    query: Query
    start: int
    end: int
    suffixes: Sequence["Task"] = ()

    def is_next(self, last: "Task", is_named: bool) -> bool:
        """Whether the stretch asks for one more call of the tool of the last, which it may say that it does."""
        again = [
            param
            for param in self._filled_params(GOOD_SCORE) & last._filled_params(GOOD_SCORE)
            if is_named or not param.is_list
        ]
        needed = {param for param in self.tool.params if param.required}
        return len(again) > 1 or (len(again) == 1 and needed <= last._filled_params(MIN_SCORE))

    def _filled_params(self, least: float) -> set[Param]:
        return {p for p, (fit, *_) in self._assign_values().items() if self._contains(fit) and fit.score >= least}

    def build_calls(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The arguments of each call that the stretch asks for, or the required names it lacks."""
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
        """What each parameter gets, in order: the best fits, one to each, then what is left and stands beside them."""
        ranked = sorted(self.iter_fits(), key=lambda fit: (not self._contains(fit), -fit.score, fit.value.start))
        columns: dict[Param, list[Fit]] = {param: [] for param in self.tool.params}
        taken: set[int] = set()
        for is_first in (True, False):
            for fit in ranked:
                column, places, text = columns[fit.param], range(fit.value.start, fit.value.end), self.query.text
                is_listed = any(is_listed_with(one.value, fit.value, text) for one in column)
                is_next = is_listed and not is_first if column else is_first != self._is_loose(fit)
                if is_next and taken.isdisjoint(places):
                    column.append(fit)
                    taken.update(places)
        return {param: sorted(fits, key=lambda fit: fit.value.start) for param, fits in columns.items() if fits}

    def iter_fits(self) -> Iterator[Fit]:
        """The fits that are good enough; those from outside the stretch, at a loss, for required parameters only."""
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
        """Whether a preposition leads to a value, but nothing tells that it is for this optional parameter."""
        is_good = "<lead>" in fit.value.context and fit.param.fits.get(fit.value.kind, 0) >= GOOD_SCORE
        return (is_good or len(self.tool.params) == 1) and fit.cue < MIN_CUE and not fit.param.required

    def _iter_values(self) -> Iterator[TextSpan]:
        """The values and phrases of the query, without the tool's own words, and the rest of what the stretch says."""
        for value in self.query.values:
            others = [w for w in self.query.words_in(value.start, value.end) if w.value not in self.tool.own]
            if value.kind == "phrase" and not GENERIC.issuperset(word.value for word in others):
                yield self.query.make_span("phrase", others[0].start, others[-1].end, value.context)
            elif value.kind != "phrase" and (others or value.kind != "name"):
                yield value
        words = [word for word in self.query.words_in(self.start, self.end) if word.text[0].isalnum()]
        if rest := [word for word in words if word.text not in STOP and word.value not in self.tool.weights]:
            yield self.query.make_span("rest", rest[0].start, len(self.query.text[: self.end].rstrip(" .?!,;")))

    def _contains(self, fit: Fit) -> bool:
        return self.start <= fit.value.start < self.end
