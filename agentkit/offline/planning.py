"""The planner: from a query and the tools on offer to the calls that the query asks for.

1. The query is cut into clauses, and for each the tool is chosen whose words it says best.  Clauses in a row that ask
   for the same tool, or for nothing clearly, are one task.
2. For each task the parameters of its tool get the values that fit them (`fit`), the best fit first, one value each.
3. A value left over that is like one already taken ("Rome and *Paris*") makes one more call.
"""

import datetime
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

from .fit import Context, Fit, fits_of, in_one_list, read_for
from .text import GENERIC, LEXICON, STOP, Query, Span, concepts, read_query
from .tools import Param, Tool, read_tool

Call: TypeAlias = tuple[str, dict[str, Any]]

NEEDED, TOLD, OUTSIDE, ABOUT, NAMED = 0.3, 0.55, 0.9, 2.0, 0.5
"""The score a value needs; what of it words must tell for an optional parameter; what a value from outside the task
loses; the weight of a tool's words that a clause must say; the share of a tool's name that is enough by itself."""

_BREAK = re.compile(
    r"(?<=[.?!;])\s+|\n+|,?\s+(?:and then|then|and also|also|as well as|and|plus|while|after that)\s+|,\s+(?=[a-z]+\s)"
)
_FREE_TEXT = frozenset(concepts(LEXICON["free_text"]))
_FORMULA = frozenset(concepts("expression equation formula"))
_AT_LARGE = frozenset(concepts("web internet online"))


def plan(query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date | None = None) -> list[Call]:
    """The calls, as (tool name, arguments), that `query` asks for; `tools` are OpenAI tool dicts."""
    return plan_calls(query, tools, today or datetime.date.today())[0]


def plan_calls(
    query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date
) -> tuple[list[Call], dict[str, list[str]]]:
    """As `plan`, and for each fitting tool that cannot be called the arguments that the query lacks."""
    calls: list[Call] = []
    lacking: dict[str, list[str]] = {}
    for reading, start, end in _tasks(read_query(query, today), *_offer(json.dumps(list(tools)))):
        arguments, missing = reading.calls(start, end)
        calls += [call for found in arguments if (call := (reading.tool.name, found)) not in calls]
        if missing:
            lacking[reading.tool.name] = missing
    return calls, lacking


@lru_cache(maxsize=64)
def _offer(definitions: str) -> tuple[Sequence[Tool], Mapping[str, float]]:
    """The tools on offer, and how rare each concept is among them."""
    tools = [read_tool(definition) for definition in json.loads(definitions)]
    counts = {word: sum(word in tool.weights for tool in tools) for tool in tools for word in tool.weights}
    return tools, {w: math.log(1 + len(tools) / n) * (0.2 if w in GENERIC else 1.0) for w, n in counts.items()}


def _tasks(query: Query, tools: Sequence[Tool], rarity: Mapping[str, float]) -> list[tuple["Reading", int, int]]:
    """The stretches of the query, each with its tool as it reads the query; none when no tool fits."""
    readings = cache(lambda tool: Reading.of(tool, query))
    tasks: list[tuple[Reading, int, int]] = []

    def relevance(tool: Tool, said: set[str]) -> float:
        return sum(tool.weights.get(word, 0) * rarity.get(word, 0) for word in said)

    for start, end in _clauses(query) if tools else ():
        said = query.concepts(start, end)
        best = readings(max(tools, key=lambda tool: relevance(tool, said)))
        name = sum(rarity[word] for word in best.tool.name_words)
        named = sum(rarity[word] for word in best.tool.name_words if word in said) >= NAMED * name
        clear = named or (best.is_about(said) and best.filled(start, end))
        if tasks and not (clear and relevance(best.tool, said) > relevance(tasks[-1][0].tool, said)):
            current, begun, _ = tasks[-1]
            again = current.filled(begun, start) > 1 and current.filled(start, end) > 1
            tasks[-1:] = [(current, begun, start), (current, start, end)] if again else [(current, begun, end)]
        else:
            tasks.append((best, start, end))
    whole = query.concepts(0, len(query.text))
    if tasks and not any(reading.is_about(whole) for reading, *_ in tasks):
        return [(readings(tool), 0, len(query.text)) for tool in tools if _may_serve(tool, query)][:1]
    return tasks


def _may_serve(tool: Tool, query: Query) -> bool:
    """Whether a tool may serve a query that names none: one that takes a formula, or one that searches at large."""
    if any(value.kind == "expression" for value in query.values):
        return any(param.required and param.names & _FORMULA for param in tool.params)
    asks = query.text.rstrip().endswith("?") and sum(word.text not in STOP for word in query.words) > 2
    return asks and _searches_all(tool)


def _clauses(query: Query) -> list[tuple[int, int]]:
    """The clauses of a query, as (start, end); quotations and lists of values are not cut."""
    cuts = []
    for match in _BREAK.finditer(query.text, 0, query.words[-1].end if query.words else 0):
        last = next((v for v in reversed(query.values) if v.start < match.end()), None)
        following = next((v for v in query.values if v.start >= match.end()), None)
        within = last and last.end > match.start() + 1
        if not within and not (last and following and in_one_list(last, following, query.text)):
            cuts.append(match.end())
    return list(pairwise([0, *cuts, len(query.text)]))


def _searches_all(tool: Tool) -> bool:
    """Whether a tool searches at large: it needs nothing but a free text, and its description names the web."""
    needed = [param for param in tool.params if param.required]
    return len(needed) == 1 and bool(needed[0].names & _FREE_TEXT and tool.weights.keys() & _AT_LARGE)


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A query as one tool reads it: its values, each with the concepts around it."""

    tool: Tool
    query: Query
    values: Mapping[Span, Context]

    @classmethod
    def of(cls, tool: Tool, query: Query) -> "Reading":
        """`query` as `tool` reads it."""
        return cls(tool, query, read_for(tool, query))

    def is_about(self, said: set[str]) -> bool:
        """Whether some concepts say the tool's name, enough of its words, or an option, and so are meant for it."""
        told = {word: weight for word in said - GENERIC if len(word) > 1 and (weight := self.tool.weights.get(word))}
        options = [concepts(str(option)) for p in self.tool.params for option in (*p.options, *p.examples)]
        names = [self.tool.name_words, *options]
        vague = GENERIC.issuperset(self.tool.name_words) or _searches_all(self.tool)
        return sum(told.values()) >= (1.0 if vague else ABOUT) or any(name and said.issuperset(name) for name in names)

    def filled(self, start: int, end: int) -> int:
        """How many arguments a stretch by itself gives, when it says all that a call needs; else none."""
        inside = {value: context for value, context in self.values.items() if start <= value.start < end}
        columns = replace(self, values=inside)._columns(start, end)
        return len(columns) if all(param in columns for param in self.tool.params if param.required) else 0

    def calls(self, start: int, end: int) -> tuple[list[dict[str, Any]], list[str]]:
        """The arguments of each call that a stretch asks for, or the required names it lacks."""
        columns = self._columns(start, end)
        for param in self.tool.params:
            given = param in columns and (not _searches_all(self.tool) or columns[param][0].value.kind == "quoted")
            if not given and (rest := self._rest(param, start, end)):
                columns[param] = [Fit(param, rest, rest.text, 1, 0)]
        if lacking := [".".join(p.path) for p in self.tool.params if p.required and p not in columns]:
            return [], lacking
        calls: list[dict[str, Any]] = []
        for index in range(max((len(column) for column in columns.values()), default=1)):
            calls.append({})
            for param in (param for param in self.tool.params if param in columns):
                column, place = sorted(columns[param], key=lambda fit: fit.value.start), calls[-1]
                for step in param.path[:-1]:
                    place = place.setdefault(step, {})
                place[param.path[-1]] = column[min(index, len(column) - 1)].argument
        return calls, []

    def _columns(self, start: int, end: int) -> dict[Param, list[Fit]]:
        """The values of each parameter: first one each, best first, then of the values left over what is like them.

        Values from outside the stretch serve only required parameters that none from inside fits.
        """
        ranked: list[Fit] = []
        for param in self.tool.params:
            fits = [f for f in fits_of(param, self.query, self.values, start, end) if f.score >= NEEDED]
            near = [f for f in fits if start <= f.value.start < end]
            if param.required and all(f.value.kind == "phrase" for f in near):
                near += [replace(f, score=s) for f in fits if f not in near and (s := f.score - OUTSIDE) >= NEEDED]
            sure = param.required or len(self.tool.params) == 1
            ranked += [f for f in near if sure or f.cue >= TOLD]
        columns: dict[Param, list[Fit]] = {}
        used: list[Span] = []
        for fit in sorted(ranked, key=lambda f: (-round(f.score, 2), f.value.start)):
            if fit.param not in columns and not any(_overlap(fit.value, value) for value in used):
                columns[fit.param] = [fit]
                used.append(fit.value)
        beside = {fit.value: self.query.beside(fit.value) for fit in ranked}
        for fit in sorted(ranked, key=lambda f: (f.value.start, -f.score)):
            free = start <= fit.value.start < end and not any(_overlap(fit.value, value) for value in used)
            for first in columns.get(fit.param, ()) if free else ():
                close = beside[first.value] & beside[fit.value] or in_one_list(first.value, fit.value, self.query.text)
                if close and first.value.kind == fit.value.kind != "flag" and fit.score >= 0.65 * first.score:
                    columns[fit.param].append(fit)
                    used.append(fit.value)
                    break
        return columns

    def _rest(self, param: Param, start: int, end: int) -> Span | None:
        """What is said besides the request itself, for a required parameter that takes free text."""
        if param.required and param.type in ("string", "any") and not param.options and param.names & _FREE_TEXT:
            for word in self.query.said(start, end):
                if not word.text.isalpha() or (word.text not in STOP and word.value not in self.tool.weights):
                    text = self.query.text[word.start : end].rstrip(" .?!,;")
                    return Span("rest", text, text, word.start, end)
        return None


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end
