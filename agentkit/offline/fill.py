"""Arguments from a text: which mentioned value goes to which parameter, in how many calls."""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .schema import Param, Tool
from .values import Mention
from .words import STOP, Token, concept, is_generic

_HINTS = {  # what a preposition or comparison before a value says about its parameter
    "from": "from origin source start departure base initial sender",
    "to": "to destination target end arrival recipient final goal",
    "in": "location city country state region area year language unit currency month",
    "at": "location time venue address rate price",
    "near": "location city address",
    "around": "location city",
    "for": "city name query item topic duration",
    "of": "name number city country",
    "on": "date day topic platform",
    "about": "topic query subject keyword",
    "by": "author artist director name by sort factor",
    "with": "with",
    "named": "name title",
    "called": "name title",
    "titled": "title name",
    "until": "end until",
    "till": "end until",
    "since": "start since from",
    "after": "start after",
    "before": "end before deadline",
    "above": "min above lower",
    "over": "min above years duration period",
    "under": "max below upper budget",
    "below": "max below upper",
    "than": "min max than threshold",
    "least": "min",
    "most": "max",
    "within": "max radius distance within",
}
_UNITS = {  # what a unit says about its parameter
    "year yr years month week day decade": "year period time duration term month day age",
    "hour hr minute min second sec s h ms": "time duration hour minute second interval",
    "meter metre m km kilometer mile cm mm ft foot feet inch yard": "distance length height width radius depth side base displacement size altitude",
    "kg kilogram g gram lb lbs pound ounce ton": "weight mass amount",
    "$ € £ ¥ dollar usd euro eur gbp yen rupee": "price amount cost budget principal salary loan investment income money deposit payment value revenue balance",
    "% percent": "rate percent interest ratio probability tax discount yield return growth tip",
    "mph kph kmh": "speed velocity",
    "degree °c °f celsius fahrenheit kelvin °": "temperature angle",
    "people person guest adult passenger friend": "people guest party size passenger adult attendee",
    "liter litre l ml gallon cup": "volume capacity amount",
    "star": "rating star",
    "newton n": "force",
    "joule j": "energy",
    "volt v": "voltage",
    "ampere amp a": "current",
    "ohm": "resistance",
}
_LEADS = {word: {concept(h): 0.7 for h in hints.split()} for word, hints in _HINTS.items()}
_UNIT_HINTS = {concept(u): {concept(h): 0.6 for h in hints.split()} for units, hints in _UNITS.items() for u in units.split()}
_TEXTUAL = frozenset(map(concept, "query text question prompt message content input keyword topic expression sentence title subject body term task phrase equation problem".split()))
_NAME_LIKE = {"quoted": 1.1, "name": 0.9, "code": 0.8, "url": 0.5, "email": 0.5, "path": 0.6, "expression": 0.4, "phrase": 0.5}
_DATE_WORDS = frozenset(map(concept, "date day deadline birthday".split()))
_FORMATS = (("YYYY-MM-DD", "%Y-%m-%d"), ("DD-MM-YYYY", "%d-%m-%Y"), ("MM-DD-YYYY", "%m-%d-%Y"), ("MM/DD/YYYY", "%m/%d/%Y"), ("DD/MM/YYYY", "%d/%m/%Y"), ("YYYY/MM/DD", "%Y/%m/%d"), ("YYYYMMDD", "%Y%m%d"))
_NEEDED, _OPTIONAL_CUE, _OUTSIDE = 0.3, 0.55, 0.6
_RUN = re.compile(r"\s*(?:,|,?\s*(?:and|or|&|to|by|x|versus|vs\.?)\b|,?\s*and\s+(?:the|of|in|for|a)\b)?\s*")


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a mention fits a parameter, how much of that the words around it say, and the value it gives."""

    score: float
    cue: float
    value: Any
    mention: Mention


@dataclass(frozen=True, slots=True)
class Scene:
    """A text with its words, the values in it, and the stretch of it that is one tool's task."""

    text: str
    tokens: Sequence[Token]
    mentions: Sequence[Mention]
    start: int
    end: int


def rows(tool: Tool, scene: Scene) -> tuple[list[dict[str, Any]], list[str]]:
    """The arguments of every call of `tool` that the scene's task asks for, or the required names it does not fill."""
    mentions = _with_phrases(tool, scene)
    contexts = _contexts(scene, mentions)
    fits = {p: _fits(p, scene, mentions, contexts) for p in tool.params}
    columns = _columns(tool.params, fits, scene)
    for param in tool.params:
        if param not in columns and (value := _fallback(param, tool, scene)) is not None:
            columns[param] = [Fit(_NEEDED, 0, value, Mention("rest", value, "", scene.start, scene.end))]
    missing = [".".join(p.path) for p in tool.params if p.required and p not in columns]
    return ([], missing) if missing else (_zipped(tool, columns), [])


def _with_phrases(tool: Tool, scene: Scene) -> list[Mention]:
    """The scene's mentions and, between them, runs of words that are neither function words nor the tool's own."""
    taken = [(m.start, m.end) for m in scene.mentions]
    own = {*tool.name_words, *(c for p in tool.params for c in p.names)}
    chunk: list[Token] = []
    found = list(scene.mentions)

    def close() -> None:
        while chunk and (chunk[0].concept in own or chunk[0].text[0].isdigit()):
            chunk.pop(0)
        while chunk and chunk[-1].concept in own:
            chunk.pop()
        if chunk:
            start, end = chunk[0].start, chunk[-1].end
            found.append(Mention("phrase", scene.text[start:end], scene.text[start:end], start, end))
        chunk.clear()

    for token in scene.tokens:
        inside = any(start < token.end and token.start < end for start, end in taken)
        if inside or token.text.lower() in STOP or not token.text[0].isalpha():
            close()
        else:
            chunk.append(token)
    close()
    return sorted(found, key=lambda m: m.start)


def _contexts(scene: Scene, mentions: Sequence[Mention]) -> dict[Mention, dict[str, float]]:
    """For every mention, the concepts around it and how much each of them says about it (nearer ones say more)."""
    contexts: dict[Mention, dict[str, float]] = {}
    for index, mention in enumerate(mentions):
        previous = mentions[index - 1] if index else None
        following = mentions[index + 1] if index + 1 < len(mentions) else None
        barrier = previous.end if previous and previous.kind != "phrase" else 0
        context = _after(scene, mention, following)
        for unit, hints in _UNIT_HINTS.items():
            if unit in (concept(mention.unit or "-"), next(iter(context), "-")) and mention.kind == "number":
                context = {**hints, **context}
        for word, weight in _before(scene, mention, barrier).items():
            context[word] = max(weight, context.get(word, 0))
        if previous in contexts and previous.kind == mention.kind and _RUN.fullmatch(scene.text[previous.end : mention.start]):
            context = {**{word: 0.8 * weight for word, weight in contexts[previous].items()}, **context}
        contexts[mention] = context
    return contexts


def _before(scene: Scene, mention: Mention, barrier: int) -> dict[str, float]:
    context: dict[str, float] = {}
    distance, lead = 0.0, True
    for token in reversed([t for t in scene.tokens if barrier <= t.start and t.end <= mention.start][-9:]):
        word = token.text.lower()
        if word in ".?!;":
            break
        if lead and word in _LEADS:
            lead = False
            for hint, weight in _LEADS[word].items():
                context.setdefault(hint, weight)
        distance += 0.3 if word in STOP else 1.0
        if token.text[0].isalnum():
            context.setdefault(token.concept, 1.1 / (1 + 0.25 * max(distance - 1, 0)))
    return context


def _after(scene: Scene, mention: Mention, following: Mention | None) -> dict[str, float]:
    context: dict[str, float] = {}
    limit = following.start if following and following.kind != "phrase" else len(scene.text)
    for distance, token in enumerate([t for t in scene.tokens if mention.end <= t.start and t.end <= limit][:3]):
        if token.text.lower() in STOP or not token.text[0].isalnum():
            break
        context.setdefault(token.concept, 0.9 / (1 + 0.4 * distance))
    return context


def _fits(param: Param, scene: Scene, mentions: Sequence[Mention], contexts: dict[Mention, dict[str, float]]) -> list[Fit]:
    """Every way to fill `param` from the scene, best first."""
    if param.options:
        return _options(param, scene)
    if param.type == "boolean":
        return _flag(param, scene)
    if param.type == "array":
        return _list(param, scene, mentions, contexts)
    found = []
    for mention in mentions:
        base, value = coerce(param, mention)
        if value is not None:
            cue = _cue(param, contexts[mention])
            outside = not (scene.start <= mention.start < scene.end)
            found.append(Fit(base + cue - _OUTSIDE * outside, cue, value, mention))
    for example in param.examples if param.type == "string" else ():
        for match in re.finditer(rf"(?i)(?<!\w){re.escape(example)}(?!\w)", scene.text[scene.start : scene.end]):
            start = scene.start + match.start()
            found.append(Fit(2.0, 1.0, example, Mention("option", example, match[0], start, start + len(match[0]))))
    return sorted(found, key=lambda fit: -fit.score)


def _cue(param: Param, context: dict[str, float]) -> float:
    named = sum(sorted((w for c, w in context.items() if c in param.names), reverse=True)[:2])
    hinted = sum(sorted((w for c, w in context.items() if c in param.hints), reverse=True)[:2])
    return min(named, 1.6) + 0.35 * min(hinted, 1.6)


def coerce(param: Param, mention: Mention) -> tuple[float, Any]:
    """What `mention` would be as a value of `param`, and how natural that is; None when it cannot be one."""
    value, kind, words = mention.value, mention.kind, param.names
    if param.type in ("integer", "number"):
        return _as_number(param, mention)
    if param.type == "object":
        return (1.5, value) if isinstance(value, dict) else (0, None)
    if param.type == "any" and kind in ("number", "list", "object"):
        return 0.7, value
    if kind in ("date", "time"):
        return _as_date(param, mention)
    if kind in ("list", "object"):
        return 0, None
    if kind in words or (kind == "url" and concept("link") in words) or (kind == "path" and concept("file") in words):
        return 2.0, str(value)
    if kind == "number":
        return (0.1 if words & _NUMERIC else -0.5), mention.text.strip(" $€£")
    if words & _DATE_WORDS:
        return -0.3, str(value)
    return _NAME_LIKE.get(kind, 0.3), str(value)


_NUMERIC = frozenset(map(concept, "id number code year zip phone amount quantity date time size version duration model postal pin".split()))
_YEAR = concept("year")


def _as_number(param: Param, mention: Mention) -> tuple[float, Any]:
    value = mention.value
    if mention.kind == "date" and param.names & {_YEAR, concept("month"), concept("day")}:
        found = re.search(r"\d{4}", mention.text) if _YEAR in param.names else None
        return (0.5, int(found[0])) if found else (0, None)
    if mention.kind != "number" or isinstance(value, bool):
        return 0, None
    if mention.unit == "%" and param.type == "number" and "percent" not in param.description.lower() and "%" not in param.description:
        value = round(value / 100, 10)
    if param.type == "integer" and not float(value).is_integer():
        return 0, None
    if not float(param.schema.get("minimum", value)) <= value <= float(param.schema.get("maximum", value)):
        return 0, None
    like_year = isinstance(value, int) and 1500 <= value <= 2100 and not mention.unit and re.fullmatch(r"\d{4}", mention.text)
    shift = (0.7 if _YEAR in param.names else -0.4) if like_year else (-0.4 if _YEAR in param.names and value < 1000 and "years" not in mention.text else 0)
    return 0.8 + shift, int(value) if param.type == "integer" else value


def _as_date(param: Param, mention: Mention) -> tuple[float, Any]:
    text, value = param.description, mention.value
    kind = "time" if concept("time") in param.names else "date"
    fitting = kind == mention.kind and (kind == "time" or param.names & _DATE_WORDS) or "date" in str(param.schema.get("format", ""))
    mentioned = mention.kind in text.lower() or "YYYY" in text
    written = mention.text
    if isinstance(value, datetime.date):
        written = value.strftime(next((f for name, f in _FORMATS if name.lower() in text.lower()), "%Y-%m-%d"))
    elif isinstance(value, datetime.time) and re.search(r"HH:MM|24", text):
        written = value.strftime("%H:%M:%S" if "SS" in text else "%H:%M")
    return (1.3 if fitting else 0.9 if mentioned else -0.2), written


def _options(param: Param, scene: Scene) -> list[Fit]:
    """The members of an enumeration that the task names, by their text or by all their words."""
    here = [t for t in scene.tokens if scene.start <= t.start < scene.end]
    found: list[Fit] = []
    for option in param.options:
        words = [concept(w) for w in re.findall(r"[A-Za-z]+|\d+", str(option).replace("_", " "))]
        for index, token in enumerate(here):
            if words and [t.concept for t in here[index : index + len(words)]] == words:
                last = here[index + len(words) - 1]
                exact = scene.text[token.start : last.end].lower() == str(option).lower()
                mention = Mention("option", option, str(option), token.start, last.end)
                found.append(Fit(2.0 + exact + 0.1 * len(words), 1.0, option, mention))
    best: dict[int, Fit] = {}
    for fit in sorted(found, key=lambda fit: fit.score):
        best[fit.mention.start] = fit
    ordered = sorted(best.values(), key=lambda fit: (-fit.score, fit.mention.start))
    if param.type == "array" and ordered:
        chosen = [fit.value for fit in sorted(ordered, key=lambda fit: fit.mention.start)]
        return [replace(ordered[0], value=list(dict.fromkeys(chosen)))]
    return ordered


def _flag(param: Param, scene: Scene) -> list[Fit]:
    """True when the task says the words of the parameter's name, False when it says them after a negation."""
    here = [t for t in scene.tokens if scene.start <= t.start < scene.end]
    said = [t for t in here if t.concept in param.names and not is_generic(t.concept)]
    if not said or len({t.concept for t in said}) < min(2, len(param.names)):
        return []
    before = scene.text[max(0, said[0].start - 25) : said[0].start].lower()
    value = not re.search(r"\b(?:no|not|without|don't|exclud\w+|disable\w*|never|false)\b", before)
    return [Fit(1.0, 1.0, value, Mention("flag", value, said[0].text, said[0].start, said[0].start))]


def _list(param: Param, scene: Scene, mentions: Sequence[Mention], contexts: dict[Mention, dict[str, float]]) -> list[Fit]:
    """A bracketed list, or the run of values ("1, 2 and 3") whose members fit the items best."""
    items = param.schema.get("items") or {}
    inner = replace(param, type=items.get("type", "any"), schema={**items, "description": param.description})
    found: list[Fit] = []
    run: list[Fit] = []
    for mention in mentions:
        outside = _OUTSIDE * (not scene.start <= mention.start < scene.end)
        if mention.kind == "list":
            found.append(Fit(2.5 + _cue(param, contexts[mention]) - outside, 1.0, mention.value, mention))
            continue
        base, value = coerce(inner, mention) if inner.type != "array" else (0, None)
        if value is None:
            continue
        cue = _cue(param, contexts[mention])
        fit = Fit(base + cue - outside, cue, value, mention)
        joined = run and run[-1].mention.kind == mention.kind and _RUN.fullmatch(scene.text[run[-1].mention.end : mention.start])
        run = [*run, fit] if joined else [fit]
        whole = Mention("run", None, "", run[0].mention.start, mention.end)
        found.append(Fit(run[0].score + 0.15 * len(run), run[0].cue, [f.value for f in run], whole))
    return sorted(found, key=lambda fit: -fit.score)


def _columns(params: Sequence[Param], fits: dict[Param, list[Fit]], scene: Scene) -> dict[Param, list[Fit]]:
    """The values of each parameter: first one each, best fit first; then what is left joins its like."""
    order = {param: index for index, param in enumerate(params)}
    ranked = sorted(
        ((fit, param) for param in params for fit in fits[param] if fit.score >= _NEEDED and (param.required or fit.cue >= _OPTIONAL_CUE)),
        key=lambda pair: (-round(pair[0].score - 0.25 * (not pair[1].required), 2), order[pair[1]], pair[0].mention.start),
    )
    columns: dict[Param, list[Fit]] = {}
    used: list[Mention] = []
    for fit, param in ranked:
        if param not in columns and not any(_overlap(fit.mention, m) for m in used):
            columns[param] = [fit]
            used.append(fit.mention)
    for fit, param in sorted(ranked, key=lambda pair: (pair[0].mention.start, -pair[0].score)):
        if param in columns and not any(_overlap(fit.mention, m) for m in used) and scene.start <= fit.mention.start < scene.end:
            rivals = [p for f, p in ranked if f.mention == fit.mention and p in columns and _alike(f, columns[p][0])]
            if rivals:
                param = min(rivals, key=lambda p: (len(columns[p]), order[p]))
                columns[param].append(next(f for f in fits[param] if f.mention == fit.mention))
                used.append(fit.mention)
    return columns


def _overlap(one: Mention, other: Mention) -> bool:
    return one.start < other.end and other.start < one.end


def _alike(fit: Fit, first: Fit) -> bool:
    return fit.mention.kind == first.mention.kind and fit.score >= 0.8 * first.score and fit.mention.kind not in ("flag", "phrase")


def _zipped(tool: Tool, columns: dict[Param, list[Fit]]) -> list[dict[str, Any]]:
    """The calls: as many as the longest column has values; shorter columns repeat their last."""
    count = max((len(column) for column in columns.values()), default=1)
    calls: list[dict[str, Any]] = []
    for index in range(count):
        arguments: dict[str, Any] = {}
        for param in tool.params:
            if column := sorted(columns.get(param, ()), key=lambda fit: fit.mention.start):
                place = arguments
                for step in param.path[:-1]:
                    place = place.setdefault(step, {})
                place[param.path[-1]] = column[min(index, len(column) - 1)].value
        if arguments not in calls:
            calls.append(arguments)
    return calls


def _fallback(param: Param, tool: Tool, scene: Scene) -> Any:
    """What is said besides the request itself, for a required parameter that takes free text."""
    if not (param.required and param.type in ("string", "any") and not param.options and param.names & _TEXTUAL):
        return None
    words = [t for t in scene.tokens if scene.start <= t.start < scene.end]
    own = {*tool.name_words, *param.names}
    while words and (words[0].text.lower() in STOP or words[0].concept in own):
        words.pop(0)
    return scene.text[words[0].start : scene.end].strip(" .?!,;") if words else None
