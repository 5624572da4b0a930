"""The planner: from a query and the tools on offer to the calls that the query asks for."""

import datetime
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from .fill import Scene, in_one_run, rows, unit_hints
from .tools import Tool, read_tool
from .values import Mention, scan
from .words import Token, is_generic, tokens

_BREAK = re.compile(
    r"(?<=[.?!;])\s+|\n+|,?\s+(?:and then|then|and also|also|as well as|and|plus|while|after that)\s+|,\s+(?=[a-z]+\s)"
)
_COVERAGE, _SWITCH = 0.5, 1.1


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
    tasks = [(tool, Scene(query, words, mentions, s, e, (s, e))) for tool, s, e in _tasks(query, words, mentions, offer)]
    for tool, scene in tasks:
        if any(t is tool and s is not scene for t, s in tasks) and rows(tool, scene, strict=True)[1]:
            if any(t is tool and not rows(t, s, strict=True)[1] for t, s in tasks):
                continue
        arguments, missing = _calls(tool, scene)
        if missing:
            lacking[tool.name] = tuple(missing)
        for found in arguments:
            if (tool.name, found) not in calls:
                calls.append((tool.name, found))
    return Plan(tuple(calls), lacking)


def _calls(tool: Tool, scene: Scene) -> tuple[list[dict[str, Any]], list[str]]:
    """The arguments of the tool's calls: clause by clause where each clause says all that a call needs."""
    parts: list[tuple[int, int]] = []
    start = scene.start
    for _, end in _clauses(scene, scene.start, scene.end):
        joined = re.match(r"\W*(?:and|also|then|plus)\b|\W*\d+[.)]", scene.text[start:end].lower()) or re.search(r"(?:and|also|then|plus|,|;)\s*$", scene.text[:start].lower())
        named = {t.concept for t in scene.tokens if start <= t.start < end} & {w for w in tool.name_words if not is_generic(w)}
        if (not parts or joined or named) and not rows(tool, replace(scene, start=start, end=end), strict=True)[1]:
            parts.append((start, end))
            start = end
    if len(parts) < 2:
        return rows(tool, scene)
    parts[-1] = (parts[-1][0], scene.end)
    return [row for a, b in parts for row in rows(tool, replace(scene, start=a, end=b))[0]], []


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
    _, tool = max(((relevance(t, whole | unit_hints(whole), offer)[0], -i, t) for i, t in enumerate(offer.tools)))[::2]
    scene = Scene(query, words, mentions, 0, len(query))
    if not _fits_task(tool, whole, scene):
        return []
    tasks: list[tuple[Tool, int, int]] = []
    for start, end in _clauses(scene, 0, len(query)):
        here = {t.concept for t in said if start <= t.start < end}
        here |= unit_hints(here)
        current = tasks[-1][0] if tasks else tool
        best = max(offer.tools, key=lambda t: relevance(t, here, offer)[0])
        clause = replace(scene, start=start, end=end)
        strong = relevance(best, here, offer)[1] >= _COVERAGE or (_fits_task(best, here, clause) and not rows(best, clause, strict=True)[1])
        if not tasks or (best is not current and strong and relevance(best, here, offer)[0] > _SWITCH * relevance(current, here, offer)[0]):
            tasks.append((best if strong else tool, start, end))
        else:
            tasks[-1] = (tasks[-1][0], tasks[-1][1], end)
    return tasks


def _names_option(tool: Tool, query: str) -> bool:
    options = {str(option).replace("_", " ") for param in tool.params for option in (*param.options, *param.examples)}
    return any(re.search(rf"(?i)\b{re.escape(option)}s?\b", query) for option in options)


def _fits_task(tool: Tool, said: set[str], scene: Scene) -> bool:
    telling = [w for w in tool.name_words if not is_generic(w)]
    named = [w for w in telling if w in said]
    described = {w for w in tool.words | tool.param_words if w in said and not is_generic(w)}
    return bool(named) or (len(described) >= 2 and bool(described & tool.words)) or len(described) >= 3 or not telling or (
        _names_option(tool, scene.text[scene.start : scene.end]) and not rows(tool, scene, strict=True)[1]
    )


def _clauses(scene: Scene, start: int, end: int) -> list[tuple[int, int]]:
    """The clauses from `start` to `end`; quotations and lists of values are not cut."""
    cuts = []
    for match in _BREAK.finditer(scene.text, start, end):
        last = next((m for m in reversed(scene.mentions) if m.start < match.end()), None)
        following = next((m for m in scene.mentions if m.start >= match.end()), None)
        if last and (last.end > match.start() + 1 or (following and in_one_run(last, following, scene.text))):
            continue
        cuts.append(match.end())
    for cut, following in zip(cuts, cuts[1:], strict=False):  # "milk" in "eggs, milk and bread" is no clause
        ends = {scene.text[:place].rstrip()[-1:] for place in (cut, following)} & set(".?!;:")
        if len(scene.text[cut:following].split()) <= 2 and not ends and "\n" not in scene.text[cut - 2 : following]:
            cuts = [c for c in cuts if c not in (cut, following)]
    edges = [start, *cuts, end]
    return [(a, b) for a, b in zip(edges, edges[1:], strict=False) if b > a]
