"""The planner: from a query and the tools on offer to the calls that the query asks for.

1. The query is cut into clauses, and for each the tool is chosen whose words it says best.  Clauses in a row that ask
   for the same tool, or for nothing clearly, are one task.
2. For each task the parameters of its tool get the values that fit them (`fit`), the best fit first, one value each.
3. A value left over that stands beside one already taken ("Rome and *Paris*") makes one more call.
"""

import datetime
import json
import math
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


def read_field(name: str, schema: Any, text: str, told: float = 0) -> Any:
    """The value of a field that a text tells; None where it tells none, or several that fit as well.

    `told` is how much of that the words around the value must tell.
    """
    tool = read_tool({"name": name, "parameters": {"properties": {name: schema}}})
    fits = [fit for fit in Task(tool, read_query(text, datetime.date.today()), 0, len(text)).fits() if fit.cue >= told]
    best = max((fit.score for fit in fits), default=0)
    found = [fit.argument for fit in fits if fit.score == best]
    return found[0] if len(found) == 1 else None


@lru_cache(maxsize=64)
def _offer(definitions: str) -> tuple[Sequence[Tool], Mapping[str, float]]:
    """The tools on offer, and how rare each concept is among them."""
    tools = [read_tool(definition) for definition in json.loads(definitions)]
    counts = {word: sum(word in tool.weights for tool in tools) for tool in tools for word in tool.weights}
    return tools, {w: math.log(1 + len(tools) / n) * (0.2 if w in GENERIC else 1.0) for w, n in counts.items()}


def _tasks(query: Query, tools: Sequence[Tool], rarity: Mapping[str, float]) -> list["Task"]:
    """The stretches of the query, each with the tool it asks for; none when no tool fits."""
    tasks: list[Task] = []

    def relevance(tool: Tool, said: set[str]) -> float:
        return sum(tool.weights.get(word, 0) * rarity.get(word, 0) for word in said)

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
    lists = [(a.start, b.end) for a, b in pairwise(values) if in_one_list(a, b, query.text)]
    whole = [*lists, *((value.start, value.end) for value in values)]
    breaks = [match.end() for match in PATTERNS["break"].finditer(query.text)]
    cuts = [end for end in breaks if not any(first < end - 1 < behind for first, behind in whole)]
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
        calls: list[dict[str, Any]] = [{} for _ in range(max(map(len, columns.values()), default=1))]
        for index, call in enumerate(calls):
            for param, column in columns.items():
                *above, name = param.path
                place = reduce(lambda place, step: place.setdefault(step, {}), above, call)
                place[name] = column[min(index, len(column) - 1)].argument
        return calls, []

    def _columns(self) -> dict[Param, list[Fit]]:
        """What each parameter gets, in order: the best fits, one to each, then what is left and stands beside them."""
        ranked = sorted(self.fits(), key=lambda fit: (-fit.score, fit.value.start))
        columns: dict[Param, list[Fit]] = {param: [] for param in self.tool.params}
        for is_first in (True, False):
            for fit in ranked:
                column, text = columns[fit.param], self.query.text
                is_next = not column if is_first else any(in_one_list(one.value, fit.value, text) for one in column)
                if is_next and not any(fit.value.overlaps(one.value) for taken in columns.values() for one in taken):
                    column.append(fit)
        for param, column in columns.items():
            column.sort(key=lambda fit: fit.value.start)
            if column and param.is_list and column[0].value.kind != "array":
                column[:] = [replace(column[0], argument=[fit.argument for fit in column])]
        return {param: column for param, column in columns.items() if column}

    def fits(self) -> Iterator[Fit]:
        """The fits that are good enough; those from outside the stretch, at a loss, for required parameters only."""
        values = list(self._values())
        for param in self.tool.params:
            fits = (fit for value in values for fit in fits_of(param, value))
            for fit in (*fits, *known_fits(param, self.query, self.start, self.end)):
                is_inside, is_told = self._holds(fit), fit.cue >= TOLD or len(self.tool.params) == 1
                fit = fit if is_inside else replace(fit, score=fit.score - OUTSIDE)
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
