"""The planner: from a query and the tools on offer to the calls that the query asks for."""

import datetime
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .fill import Scene, rows
from .schema import Tool, read_tool
from .values import Mention, scan
from .words import Token, is_generic, tokens

_BREAK = re.compile(
    r"(?<=[.?!;])\s+|\n+|,?\s+(?:and then|then|and also|also|as well as|and|plus|while|after that)\s+|,\s+(?=[a-z]+\s)"
)
_COVERAGE, _SWITCH = 0.5, 1.25


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools on offer and how rare each concept is among them."""

    tools: tuple[Tool, ...]
    rarity: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls that a query asks for, and for each fitting tool that cannot be called the arguments it lacks."""

    calls: tuple[tuple[str, dict[str, Any]], ...]
    lacking: Mapping[str, tuple[str, ...]]


def plan(query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date | None = None) -> list[tuple[str, dict[str, Any]]]:
    """The calls, as (tool name, arguments), that `query` asks for; `tools` are OpenAI tool dicts."""
    return list(plan_calls(query, tools, today or datetime.date.today()).calls)


def plan_calls(query: str, tools: Sequence[Mapping[str, Any]], today: datetime.date) -> Plan:
    """As `plan`, with what was missing."""
    offer = _offer(json.dumps(list(tools)))
    words, mentions = tokens(query), scan(query, today)
    calls: list[tuple[str, dict[str, Any]]] = []
    lacking: dict[str, tuple[str, ...]] = {}
    for tool, start, end in _tasks(query, words, mentions, offer):
        arguments, missing = rows(tool, Scene(query, words, mentions, start, end))
        if missing:
            lacking[tool.name] = tuple(missing)
        calls += [call for found in arguments if (call := (tool.name, found)) not in calls]
    return Plan(tuple(calls), lacking)


@lru_cache(maxsize=64)
def _offer(definitions: str) -> Offer:
    tools = tuple(read_tool(definition) for definition in json.loads(definitions))
    vocabulary = [{*tool.name_words, *tool.words, *tool.param_words} for tool in tools]
    every = {word for words in vocabulary for word in words}
    rarity = {w: math.log(1 + len(tools) / sum(w in words for words in vocabulary)) for w in every}
    return Offer(tools, {w: r * (0.2 if is_generic(w) else 1.0) for w, r in rarity.items()})


def relevance(tool: Tool, said: set[str], offer: Offer) -> tuple[float, float]:
    """How well the concepts of a task match a tool, and the share of the tool's name that they cover."""
    score = sum(
        offer.rarity.get(word, 0) * (3 if word in tool.name_words else 1.2 if word in tool.words else 0.7)
        for word in said
        if word in tool.name_words or word in tool.words or word in tool.param_words
    )
    weights = {word: offer.rarity[word] for word in tool.name_words}
    coverage = sum(w for word, w in weights.items() if word in said) / (sum(weights.values()) or 1)
    return score + 2 * coverage, coverage


def _tasks(query: str, words: Sequence[Token], mentions: Sequence[Mention], offer: Offer) -> list[tuple[Tool, int, int]]:
    """The stretches of the query, each with the tool it is for; none when no tool fits."""
    if not offer.tools:
        return []
    quoted = [(m.start, m.end) for m in mentions if m.kind in ("quoted", "object", "list", "date")]
    said = [t for t in words if not any(s <= t.start < e for s, e in quoted)]
    whole = {t.concept for t in said}
    score, tool = max(((relevance(t, whole, offer)[0], -i, t) for i, t in enumerate(offer.tools)))[::2]
    if not _fits_task(tool, whole, offer):
        return []
    tasks: list[tuple[Tool, int, int]] = []
    for start, end in _clauses(query, quoted):
        here = {t.concept for t in said if start <= t.start < end}
        current = tasks[-1][0] if tasks else tool
        best = max(offer.tools, key=lambda t: relevance(t, here, offer)[0])
        strong = relevance(best, here, offer)[1] >= _COVERAGE
        if not tasks or (best is not current and strong and relevance(best, here, offer)[0] > _SWITCH * relevance(current, here, offer)[0]):
            tasks.append((best if strong else tool, start, end))
        else:
            tasks[-1] = (tasks[-1][0], tasks[-1][1], end)
    return tasks


def _fits_task(tool: Tool, said: set[str], offer: Offer) -> bool:
    telling = [w for w in tool.name_words if not is_generic(w)]
    named = [w for w in telling if w in said]
    described = [w for w in tool.words if w in said and not is_generic(w)]
    return bool(named) or len(described) >= 2 or not telling


def _clauses(query: str, closed: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    cuts = [m.end() for m in _BREAK.finditer(query) if not any(s < m.end() <= e for s, e in closed)]
    edges = [0, *cuts, len(query)]
    return [(a, b) for a, b in zip(edges, edges[1:], strict=False) if b > a]
