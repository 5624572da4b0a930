"""The planner: from a query and the tools on offer to the calls that the query asks for."""

import datetime
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from .fill import fills, rows
from .scene import Scene, in_one_run
from .tools import Tool, read_tool
from .values import scan
from .words import UNITS, is_generic, tokens

_BREAK = re.compile(
    r"(?<=[.?!;])\s+|\n+|,?\s+(?:and then|then|and also|also|as well as|and|plus|while|after that)\s+|,\s+(?=[a-z]+\s)"
)
_ONE_MORE = re.compile(r"\W*(?:and|also|then|plus)\b|\W*\d+[.)]")
_COVERAGE, _SWITCH = 0.5, 1.1
_WORDS, _VALUES = 400, 60
"""How much of a long text is planned for: what a person asks stands at its head."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls that a query asks for, and for each fitting tool that cannot be called the arguments it lacks."""

    calls: tuple[tuple[str, dict[str, Any]], ...]
    lacking: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools on offer and how rare each concept is among them."""

    tools: tuple[Tool, ...]
    rarity: Mapping[str, float]

    def relevance(self, tool: Tool, said: set[str]) -> float:
        """How well the concepts of a task match a tool; rare ones and those of its name count most."""
        score = 2 * self.coverage(tool, said)
        for word in said & tool.vocabulary:
            score += self.rarity[word] * (3 if word in tool.name_words else 1.2 if word in tool.words else 0.7)
        return score

    def coverage(self, tool: Tool, said: set[str]) -> float:
        """The share of the tool's name that a task says."""
        whole = sum(self.rarity[word] for word in tool.name_words) or 1
        return sum(self.rarity[word] for word in tool.name_words if word in said) / whole


def plan(
    query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date | None = None
) -> list[tuple[str, dict[str, Any]]]:
    """The calls, as (tool name, arguments), that `query` asks for; `tools` are OpenAI tool dicts."""
    return list(plan_calls(query, tools, today or datetime.date.today()).calls)


def plan_calls(query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date) -> Plan:
    """As `plan`, with what was missing."""
    whole = Scene(query, tokens(query)[:_WORDS], scan(query, today)[:_VALUES], 0, len(query))
    tasks = _tasks(whole, _offer(json.dumps(list(tools))))
    sure = {tool.name for tool, scene in tasks if fills(tool, scene)}
    calls: list[tuple[str, dict[str, Any]]] = []
    lacking: dict[str, tuple[str, ...]] = {}
    for tool, scene in tasks:
        if tool.name in sure and not fills(tool, scene):
            continue
        arguments, missing = _calls(tool, scene)
        if missing:
            lacking[tool.name] = tuple(missing)
        for found in arguments:
            if (tool.name, found) not in calls:
                calls.append((tool.name, found))
    return Plan(tuple(call for call in calls if not any(_says_less(call, other) for other in calls)), lacking)


def _says_less(call: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]) -> bool:
    """Whether another call says all that this one says, and more."""
    more = len(other[1]) > len(call[1]) and call[0] == other[0]
    return more and all(name in other[1] and other[1][name] == value for name, value in call[1].items())


@lru_cache(maxsize=64)
def _offer(definitions: str) -> Offer:
    tools = tuple(read_tool(definition) for definition in json.loads(definitions))
    every = {word for tool in tools for word in tool.vocabulary}
    rarity = {word: math.log(1 + len(tools) / sum(word in tool.vocabulary for tool in tools)) for word in every}
    return Offer(tools, {word: weight * (0.2 if is_generic(word) else 1.0) for word, weight in rarity.items()})


def _tasks(scene: Scene, offer: Offer) -> list[tuple[Tool, Scene]]:
    """The stretches of the query, each with the tool it is for; none when no tool fits."""
    if not offer.tools:
        return []
    whole = _said(scene)
    tool = max(offer.tools, key=lambda t: offer.relevance(t, whole | _measured(whole)))
    if not _is_about(tool, whole, scene):
        return []
    tasks: list[tuple[Tool, Scene]] = []
    for start, end in _clauses(scene):
        clause = replace(scene, start=start, end=end, reach=(start, end))
        here = _said(clause)
        here |= _measured(here)
        best = max(offer.tools, key=lambda t: offer.relevance(t, here))
        strong = offer.coverage(best, here) >= _COVERAGE or (_is_about(best, here, clause) and fills(best, clause))
        if not tasks:
            tasks.append((best if strong else tool, clause))
            continue
        current, before = tasks[-1]
        if best is not current and strong and offer.relevance(best, here) > _SWITCH * offer.relevance(current, here):
            tasks.append((best, clause))
        else:
            tasks[-1] = (current, replace(before, end=end, reach=(before.start, end)))
    return tasks


def _said(scene: Scene) -> set[str]:
    """The concepts of a task, without what it quotes."""
    quoted = [m for m in scene.mentions if m.kind in ("quoted", "object", "list", "date")]
    return {t.concept for t in scene.words if not any(m.start <= t.start < m.end for m in quoted)}


def _measured(said: set[str]) -> set[str]:
    """The kinds of quantity that the units among some concepts measure."""
    return {hint for word in said if len(word) > 1 for hint in UNITS.get(word, ())}


def _is_about(tool: Tool, said: set[str], scene: Scene) -> bool:
    """Whether a task says enough of a tool's words, or names one of its options, to be meant for it."""
    if any(word in said and not is_generic(word) for word in tool.name_words) or all(map(is_generic, tool.name_words)):
        return True
    described = {word for word in (tool.words | tool.param_words) & said if not is_generic(word)}
    if len(described) >= (2 if described & tool.words else 3):
        return True
    options = [str(option).replace("_", " ") for param in tool.params for option in (*param.options, *param.examples)]
    text = scene.text[scene.start : scene.end]
    return any(re.search(rf"(?i)\b{re.escape(one)}s?\b", text) for one in options) and fills(tool, scene)


def _calls(tool: Tool, scene: Scene) -> tuple[list[dict[str, Any]], list[str]]:
    """The arguments of the tool's calls: clause by clause where each clause says all that a call needs."""
    telling = {word for word in tool.name_words if not is_generic(word)}
    parts: list[Scene] = []
    start = scene.start
    for _, end in _clauses(scene):
        part = replace(scene, start=start, end=end)
        ahead, behind = scene.text[start:end].lower(), scene.text[:start].lower()
        joined = _ONE_MORE.match(ahead) or re.search(r"(?:and|also|then|plus|,|;)\s*$", behind)
        if (not parts or joined or telling & {t.concept for t in part.words}) and fills(tool, part):
            parts.append(part)
            start = end
    if len(parts) < 2:
        return rows(tool, scene)
    parts[-1] = replace(parts[-1], end=scene.end)
    return [row for part in parts for row in rows(tool, part)[0]], []


def _clauses(scene: Scene) -> list[tuple[int, int]]:
    """The clauses of a task, as (start, end); quotations and lists of values are not cut."""
    cuts = []
    for match in _BREAK.finditer(scene.text, scene.start, scene.end):
        last = next((m for m in reversed(scene.mentions) if m.start < match.end()), None)
        following = next((m for m in scene.mentions if m.start >= match.end()), None)
        within = last and last.end > match.start() + 1
        if not within and not (last and following and in_one_run(last, following, scene.text)):
            cuts.append(match.end())
    for cut, following_cut in pairwise(cuts):  # "milk" in "eggs, milk and bread" is no clause
        ends = scene.text[:cut].rstrip()[-1:] + scene.text[:following_cut].rstrip()[-1:]
        item = scene.text[cut - 2 : following_cut]
        if len(item[2:].split()) <= 2 and "\n" not in item and not set(ends) & set(".?!;:"):
            cuts = [c for c in cuts if c not in (cut, following_cut)]
    edges = [scene.start, *cuts, scene.end]
    return [(a, b) for a, b in pairwise(edges) if b > a]
