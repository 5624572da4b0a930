"""The planner: from a query and the tools on offer to the calls that the query asks for.

1. The query is cut into clauses, and for each the tool is chosen whose words it says best.  Clauses in a row that ask
   for the same tool, or for nothing clearly, are one task.
2. For each task the parameters of its tool get the values that fit them (`fit`), the best fit first, one value each.
3. A value left over that stands beside one already taken ("Rome and *Paris*") makes one more call.
"""

import datetime
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, TypeAlias

from .fit import Fit, Param, Tool, fits_of, known_fits, read_tool
from .text import GENERIC, PATTERNS, STOP, Query, Span, in_one_list, read_query

Call: TypeAlias = tuple[str, dict[str, Any]]
Plan: TypeAlias = tuple[list[Call], dict[str, list[str]]]

# What a value must score; what of it words must tell for an optional parameter; what a value from elsewhere loses.
NEEDED, TOLD, OUTSIDE = 0.3, 0.55, 0.9


def plan(query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date | None = None) -> list[Call]:
    """The calls, as (tool name, arguments), that `query` asks for; `tools` are OpenAI tool dicts."""
    return plan_calls(query, tools, today or datetime.date.today())[0]


def plan_calls(query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date) -> Plan:
    """As `plan`, and for each fitting tool that cannot be called the arguments that the query lacks."""
    tasks = _tasks(read_query(query, today), *_offer(json.dumps(list(tools))))
    done = [(task.tool.name, *task.calls()) for task in tasks]
    calls = [(name, arguments) for name, found, _ in done for arguments in found]
    lacking = {name: missing for name, _, missing in done if missing}
    return [call for n, call in enumerate(calls) if call not in calls[:n]], lacking


def read_fields(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The properties of an object schema that a text tells; none where several values fit one of them as well."""
    tool = read_tool({"name": "", "parameters": {**schema, "required": ()}})
    task = Task(tool, read_query(text, datetime.date.today()), 0, len(text))
    fits, (calls, _) = sorted(task.fits(), key=lambda fit: fit.score), task.calls()
    best = {fit.param: fit for fit in fits}
    rivals = [fit for fit in fits if not fit.param.is_list and fit.score == best[fit.param].score]
    return calls[0] if len(calls) == 1 and all(fit.argument == best[fit.param].argument for fit in rivals) else {}


@lru_cache(maxsize=64)
def _offer(definitions: str) -> tuple[Sequence[Tool], Mapping[str, float]]:
    """The tools on offer, and how rare each concept is among them."""
    tools = [read_tool(definition) for definition in json.loads(definitions)]
    counts = Counter(word for tool in tools for word in tool.weights)
    return tools, {w: math.log(1 + len(tools) / n) * (0.2 if w in GENERIC else 1.0) for w, n in counts.items()}


def _tasks(query: Query, tools: Sequence[Tool], rarity: Mapping[str, float]) -> list["Task"]:
    """The stretches of the query, each with the tool it asks for; none when no tool fits."""
    tasks: list[Task] = []

    def relevance(tool: Tool, said: set[str]) -> float:
        return math.fsum(tool.weights.get(word, 0) * rarity.get(word, 0) for word in said)

    for start, end in _clauses(query) if tools else ():
        said = query.concepts(start, end)
        task = Task(max(tools, key=lambda tool: relevance(tool, said)), query, start, end)
        last = tasks[-1] if tasks else task
        if not tasks or (task.tool.is_meant(said) and relevance(task.tool, said) > relevance(last.tool, said)):
            tasks.append(task)
        elif last.filled() > 1:
            tasks.append(replace(task, tool=last.tool))
        else:
            tasks[-1] = replace(last, end=end)
    tails = [task for last, task in pairwise(tasks) if last.tool is task.tool and not task.filled()]
    pairs = pairwise([*tasks, *tasks[:1]])  # the first is no tail
    tasks = [replace(task, end=after.end) if after in tails else task for task, after in pairs if task not in tails]
    return tasks if any(task.tool.is_meant(query.concepts(0, len(query.text))) for task in tasks) else []


def _clauses(query: Query) -> list[tuple[int, int]]:
    """The clauses of a query, as (start, end); quotations and lists of values are not cut."""
    values = [value for value in query.values if value.kind != "phrase"]
    whole = [*zip(values, values, strict=True), *(two for two in pairwise(values) if in_one_list(*two, query.text))]
    breaks = (match.end() for match in PATTERNS["break"].finditer(query.text))
    cuts = [end for end in breaks if not any(first.start < end - 1 < last.end for first, last in whole)]
    return list(pairwise([0, *cuts, len(query.text)]))


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A stretch of a query, and the tool that it asks for."""

    tool: Tool
    query: Query
    start: int
    end: int

    def filled(self) -> int:
        """How many arguments the stretch by itself gives, when it says all that a call needs; else none."""
        columns = self._columns()
        whole = all(param in columns for param in self.tool.params if param.required)
        return len(columns) if whole and all(self._holds(column[0]) for column in columns.values()) else 0

    def calls(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The arguments of each call that the stretch asks for, or the required names it lacks."""
        columns = self._columns()
        if lacking := [".".join(p.path) for p in self.tool.params if p.required and p not in columns]:
            return [], lacking
        spread = {p: column for p, column in columns.items() if not p.is_list or column[0].value.kind == "array"}
        calls: list[dict[str, Any]] = [{} for _ in range(max(map(len, spread.values()), default=1))]
        for index, call in enumerate(calls):
            for param, column in columns.items():
                *above, name = param.path
                place = reduce(lambda place, step: place.setdefault(step, {}), above, call)
                arguments = [fit.argument for fit in column]
                place[name] = arguments[min(index, len(column) - 1)] if param in spread else arguments
        return calls, []

    def _columns(self) -> dict[Param, list[Fit]]:
        """What each parameter gets, in order: the best fits, one to each, then what is left and stands beside them."""
        ranked = sorted(self.fits(), key=lambda fit: (-fit.score, fit.value.start))
        columns: dict[Param, list[Fit]] = {param: [] for param in self.tool.params}
        taken: set[int] = set()
        for is_first in (True, False):
            for fit in ranked:
                column, places, text = columns[fit.param], range(fit.value.start, fit.value.end), self.query.text
                is_next = not column if is_first else any(in_one_list(one.value, fit.value, text) for one in column)
                if is_next and taken.isdisjoint(places):
                    column.append(fit)
                    taken.update(places)
        return {param: sorted(fits, key=lambda fit: fit.value.start) for param, fits in columns.items() if fits}

    def fits(self) -> Iterator[Fit]:
        """The fits that are good enough; those from outside the stretch, at a loss, for required parameters only."""
        values, words = list(self._values()), self.query.said(self.start, self.end)
        for param in self.tool.params:
            for fit in (*fits_of(param, values), *known_fits(param, words, self.query)):
                is_inside, is_told = self._holds(fit), fit.cue >= TOLD or len(self.tool.params) == 1
                fit = fit if is_inside else fit._replace(score=fit.score - OUTSIDE)
                if fit.score >= NEEDED and (param.required or (is_inside and is_told)):
                    yield fit

    def _values(self) -> Iterator[Span]:
        """The values and phrases of the query, without the tool's own words, and the rest of what the stretch says."""
        for value in self.query.values:
            words = self.query.said(value.start, value.end)
            others = [word for word in words if word.value not in self.tool.own]
            if value.kind == "name" and words[0] not in others and [word.text for word in words[1:2]] == ["of"]:
                yield self.query.span("name", words[2].start, value.end, value.context)
            elif value.kind == "phrase" and not GENERIC.issuperset(word.value for word in others):
                yield self.query.span("phrase", others[0].start, others[-1].end, value.context)
            elif value.kind != "phrase" and (others or value.kind != "name"):
                yield value
        known = {*STOP, *self.tool.weights}
        words = self.query.said(self.start, self.end)
        if rest := [word for word in words if word.text[0].isalnum() and known.isdisjoint((word.text, word.value))]:
            yield self.query.span("rest", rest[0].start, len(self.query.text[: self.end].rstrip(" .?!,;")))

    def _holds(self, fit: Fit) -> bool:
        return self.start <= fit.value.start < self.end
