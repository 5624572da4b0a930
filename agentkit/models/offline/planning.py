"""The planner: from a query and the available tools to the calls that the query asks for.

1. The query is split into clauses, and each gets the tool whose words match it best. Consecutive clauses for the same
   tool, or without a clear tool, are one task until one sets a parameter again. A clause that sets no parameter again
   also applies to the earlier tasks of the tool ("..., *in miles*").
2. For each task the parameters of its tool get the values that fit them, the best fit first, one value each.
3. An unused value next to a used one ("Rome and *Paris*") makes one more call. Another value after a preposition goes
   to an optional parameter that the query does not mention.
"""

import datetime
import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from .fill_arguments import OfferedTool, read_tool
from .tasks import Task, range_of
from .words import GENERIC, PATTERNS, STOP, Query, TextSpan, is_listed_with, read_query

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
    read = read_query(query, today)
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
    task = Task(tool, read_query(text, datetime.date.today()), 0, len(text))
    fits, (calls, _) = sorted(task.iter_fits(), key=lambda fit: fit.score), task.build_calls()
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
