"""Arguments from a text: which mentioned value goes to which parameter, in how many calls."""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .tools import Param, Tool
from .values import Mention
from .words import IMPERATIVES, ROLES, STOP, Token, concept, concepts, is_generic, stem

_HINTS = {  # what a preposition or comparison before a value says about its parameter
    "from": "from origin source start departure base initial sender pickup",
    "to": "to destination target end arrival recipient final goal dropoff",
    "in": "location city country state region area year language unit currency month",
    "at": "location time venue address rate price store shop restaurant school company",
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
    "meter metre m km kilometer mile cm mm ft foot feet inch yard": "unit distance length height width radius depth side base displacement size altitude",
    "kg kilogram g gram lb lbs pound ounce ton": "unit weight mass amount",
    "$ € £ ¥ dollar usd euro eur gbp yen rupee": "currency price amount cost budget principal salary loan investment income money deposit payment value revenue balance",
    "% percent": "rate percent interest ratio probability tax discount yield return growth tip",
    "mph kph kmh": "speed velocity",
    "degree °c °f celsius fahrenheit kelvin °": "unit temperature angle",
    "people person guest adult passenger friend": "people guest party size passenger adult attendee",
    "liter litre l ml gallon cup": "unit volume capacity amount",
    "star": "rating star",
    "newton n": "force",
    "joule j": "energy",
    "volt v": "voltage",
    "ampere amp a": "current",
    "ohm": "resistance",
}
_LEADS = {word: {concept(h): 0.7 for h in hints.split()} for word, hints in _HINTS.items()}
_UNIT_HINTS = {stem(u): {concept(h): 0.6 for h in hints.split()} for units, hints in _UNITS.items() for u in units.split()}
_TEXTUAL = frozenset(map(concept, "query text question prompt message content input keyword topic expression sentence title subject body term task phrase equation problem".split()))
_NAME_LIKE = {"quoted": 1.5, "name": 0.9, "code": 0.8, "url": 0.5, "email": 0.5, "path": 0.6, "expression": 0.4, "phrase": 0.4}
_DATE_WORDS = frozenset(map(concept, "date day deadline birthday".split()))
_FORMATS = (("YYYY-MM-DD", "%Y-%m-%d"), ("DD-MM-YYYY", "%d-%m-%Y"), ("MM-DD-YYYY", "%m-%d-%Y"), ("MM/DD/YYYY", "%m/%d/%Y"), ("DD/MM/YYYY", "%d/%m/%Y"), ("YYYY/MM/DD", "%Y/%m/%d"), ("YYYYMMDD", "%Y%m%d"))
_TRIED = 4
_REGION = frozenset(map(concept, "state country region province nation".split()))
_PLACE = frozenset(map(concept, "location city country state place region area".split()))
_APART = frozenset("between for in with from by on near who which that".split())
_DETERMINERS = frozenset("the a an this that my your our and , or".split())
_MEASURES = frozenset(map(concept, "unit currency from to measure scale".split()))
_SUBJECTS = frozenset("i we they he she it".split())
_OPENERS = frozenset(". ? ! ; , : and then please you also now finally next".split())
_STATE = re.compile(r"[A-Z]{2}")
_NEEDED, _OPTIONAL_CUE, _OUTSIDE = 0.3, 0.55, 0.9
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
    reach: tuple[int, int] = (0, 0)
    """Where values for optional parameters may also be found: in all of the tool's task."""


def rows(tool: Tool, scene: Scene, *, strict: bool = False) -> tuple[list[dict[str, Any]], list[str]]:
    """The arguments of every call of `tool` that the scene's task asks for, or the required names it does not fill."""
    if strict:
        scene = replace(scene, mentions=[m for m in scene.mentions if scene.start <= m.start < scene.end], tokens=[t for t in scene.tokens if scene.start <= t.start < scene.end])
    scene = replace(scene, mentions=_merged_places(tool, scene))
    if not any(param.type in ("array", "any") for param in tool.params):
        scene = replace(scene, mentions=[part for mention in scene.mentions for part in _members(mention)])
    mentions = _with_phrases(tool, scene)
    contexts = _contexts(scene, mentions)
    fits = {p: _fits(p, scene, mentions, contexts) for p in tool.params}
    columns = _columns(tool.params, fits, scene)
    for param in tool.params:
        if not strict and param not in columns and (value := _fallback(param, tool, scene)) is not None:
            columns[param] = [Fit(_NEEDED, 0, value, Mention("rest", value, "", scene.start, scene.end))]
    if strict and not any(fit.mention.kind != "rest" for column in columns.values() for fit in column):
        return [], ["anything"]
    missing = [".".join(p.path) for p in tool.params if p.required and p not in columns]
    return ([], missing) if missing else (_zipped(tool, columns), [])


def _merged_places(tool: Tool, scene: Scene) -> list[Mention]:
    """The mentions, with "Austin, Texas" as one value where the tool does not ask for the state by itself."""
    apart = any(p.names & _REGION for p in tool.params if p.type == "string")
    merged: list[Mention] = []
    for mention in scene.mentions:
        unit = next((t for t in scene.tokens if t.start == mention.end + 1 and _is_unit(t)), None)
        if mention.kind == "name" and unit and unit.text.islower() and len(unit.text) > 2:
            text = scene.text[mention.start : unit.end]
            mention = replace(mention, value=text, text=text, end=unit.end)
        last = merged[-1] if merged else mention
        between, after = scene.text[last.end : mention.start], scene.text[mention.end :]
        pair = last.kind == mention.kind == "name" and between == ", " and "," not in last.text
        if pair and not apart and (_STATE.fullmatch(mention.text) or not re.match(r",? (?:and|or|&) [A-Z]|, [A-Z]", after)):
            merged[-1] = Mention("name", scene.text[last.start : mention.end], scene.text[last.start : mention.end], last.start, mention.end)
        else:
            merged.append(mention)
    return merged


def _with_phrases(tool: Tool, scene: Scene) -> list[Mention]:
    """The scene's mentions and, between them, runs of words that are neither function words nor the tool's own."""
    taken = [(m.start, m.end) for m in scene.mentions]
    own = {*tool.name_words, *(c for p in tool.params for c in p.label)}
    own |= {c for p in tool.params for option in p.options if isinstance(option, str) for c in concepts(option)}
    chunk: list[Token] = []
    last = "."
    found = [m for m in (_trimmed(m, own, scene) for m in scene.mentions) if m.start < m.end and not _counts(m, tool, scene)]

    def close() -> None:
        while chunk and (chunk[0].concept in own or chunk[0].text == "of" or _heads(chunk) or (len(chunk) > 1 and _is_unit(chunk[0]))):
            chunk.pop(0)
        while chunk and (chunk[-1].text == "of" or (len(chunk) > 1 and chunk[-1].concept in own and not _is_unit(chunk[-1]))):
            chunk.pop()
        if not all(is_generic(t.concept) for t in chunk):
            start, end = chunk[0].start, chunk[-1].end
            kind = "unit" if len(chunk) == 1 and _is_unit(chunk[0]) else "phrase"
            found.append(Mention(kind, scene.text[start:end], scene.text[start:end], start, end))
        chunk.clear()

    for token in scene.tokens:
        inside = any(start < token.end and token.start < end for start, end in taken)
        opener = not chunk and (last in _SUBJECTS or (token.text.lower() in IMPERATIVES and last in _OPENERS))
        if token.text == "of" and chunk and not inside:
            chunk.append(token)
        elif inside or opener or token.text.lower() in STOP or token.text.endswith("ly") or not token.text[0].isalpha():
            close()
        else:
            chunk.append(token)
        last = token.text.lower()
    close()
    return sorted(found, key=lambda m: m.start)


def _members(mention: Mention) -> list[Mention]:
    """The numbers of a list such as "(3, 2)", each as a value of its own; any other mention as it is."""
    if mention.kind != "list" or not all(isinstance(value, int | float) for value in mention.value):
        return [mention]
    spots = re.finditer(r"-?[\d.]+", mention.text)
    return [
        Mention("number", value, spot[0], mention.start + spot.start(), mention.start + spot.end())
        for value, spot in zip(mention.value, spots, strict=False)
    ]


def _trimmed(mention: Mention, own: set[str], scene: Scene) -> Mention:
    """A name without the tool's own words: nothing is left of "DNA"; at the head of a sentence "Population of" goes."""
    if mention.kind != "name":
        return mention
    words = mention.text.split(" ")
    if all(concept(word) in own for word in words):
        return replace(mention, end=mention.start)
    if "of" in words and concept(words[0]) in own and re.search(r"(?:^|[.?!]\s+)$", scene.text[: mention.start]):
        start = mention.start + mention.text.index(" of ") + 4
        return replace(mention, value=scene.text[start : mention.end], text=scene.text[start : mention.end], start=start)
    return mention


def _counts(mention: Mention, tool: Tool, scene: Scene) -> bool:
    """Whether a number in words only counts the tool's own things: "I have two cylinders"."""
    following = next((t for t in scene.tokens if t.start >= mention.end), None)
    plural = following and following.text.endswith("s") and following.concept in tool.name_words
    return bool(mention.kind == "number" and mention.text.isalpha() and plural)


def _contexts(scene: Scene, mentions: Sequence[Mention]) -> dict[Mention, dict[str, float]]:
    """For every mention, the concepts around it and how much each of them says about it (nearer ones say more)."""
    contexts: dict[Mention, dict[str, float]] = {}
    for index, mention in enumerate(mentions):
        previous = mentions[index - 1] if index else None
        following = next((m for m in mentions[index + 1 :] if m.kind not in ("phrase", "unit")), None)
        barrier = max((m.end for m in mentions[:index] if m.kind not in ("phrase", "unit")), default=0)
        context = _after(scene, mention, following)
        if mention.kind == "number":
            following_word = next((t.text for t in scene.tokens if t.start >= mention.end), "-")
            context = {**_UNIT_HINTS.get(stem(following_word), {}), **_UNIT_HINTS.get(stem(mention.unit or "-"), {}), **context}
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
        if word in ".?!;" or (barrier and word in ("and", ",")):
            break
        if lead and word in _LEADS:
            lead = False
            context[f"lead {word}"] = 1.0
            if mention.kind == "date" and word in ("from", "to"):  # "from" is not the departure of a stay
                context[concept("start" if word == "from" else "end")] = 0.7
            else:
                context |= _LEADS[word]
            if token.concept in ROLES:
                context[token.concept] = 1.1
        distance += 1.5 if word in ("and", ",") else 1.0 if word in _APART else 0.3 if word in STOP else 1.0
        if token.text[0].isalnum() and (word not in STOP or token.concept in ROLES):
            context.setdefault(token.concept, 1.1 / (1 + 0.25 * max(distance - 1, 0)))
    return context


def _after(scene: Scene, mention: Mention, following: Mention | None) -> dict[str, float]:
    context: dict[str, float] = {}
    limit = following.start if following else len(scene.text)
    following_words = [t for t in scene.tokens if mention.end <= t.start and t.end <= limit and t.text.lower() != "in"]
    for distance, token in enumerate(following_words[:3]):
        if token.text.lower() in STOP or not token.text[0].isalnum():
            break
        context.setdefault(token.concept, 1.2 / (1 + 0.4 * distance))
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
            base -= (0.2 if mention.kind == "phrase" else 0.5) * (mention.kind in ("name", "phrase") and bool(param.names & _PLACE) and not any(f"lead {w}" in contexts[mention] for w in _LEADS))
            cue = _cue(param, contexts[mention]) + 0.6 * (_YEAR in param.names and bool(_YEAR_LIKE.fullmatch(mention.text)))
            inside = mention.kind == "name" and any(concept(word) in param.names for word in mention.text.split())
            told = concept(mention.kind) in param.label and (mention.kind != "unit" or sum(m.kind == "unit" for m in mentions) == 1)
            cue += 1.0 * (told or inside)
            outside = not (scene.start <= mention.start < scene.end)
            if outside and not param.required and not scene.reach[0] <= mention.start < scene.reach[1]:
                continue
            found.append(Fit(base + cue - _OUTSIDE * outside, cue, value, mention))
    if any(fit.mention.kind != "phrase" and fit.score >= _NEEDED and scene.start <= fit.mention.start < scene.end for fit in found):
        found = [fit for fit in found if scene.start <= fit.mention.start < scene.end]
    for example in param.examples if param.type == "string" else ():
        for match in re.finditer(rf"(?i)(?<!\w){re.escape(example)}(?!\w)", scene.text[scene.start : scene.end]):
            start = scene.start + match.start()
            found.append(Fit(2.0, 1.0, example, Mention("option", example, match[0], start, start + len(match[0]))))
    return sorted(found, key=lambda fit: -fit.score)


def _cue(param: Param, context: dict[str, float]) -> float:
    named = sum(sorted((w for c, w in context.items() if c in param.names), reverse=True)[:2])
    named /= min(len(param.names), 3) ** 0.5
    hinted = sum(sorted((w for c, w in context.items() if c in param.hints), reverse=True)[:2])
    return min(named, 2.2) + (0.35 if named or param.required else 0.2) * min(hinted, 1.6)


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
    if kind in ("list", "object") or (kind == "unit" and not param.label & _MEASURES):
        return 0, None
    if concept(kind) in param.label or (kind == "url" and concept("link") in words) or (kind == "path" and concept("file") in words):
        return 2.0, str(value)
    coded = bool(param.label & _CODED)
    if kind == "number":
        return (0.7 if coded else 0.2 if param.label & _NUMERIC else -0.5), mention.text.strip(" $€£")
    if coded and kind in ("name", "phrase", "code"):
        return (1.0 if kind == "code" else 0.4 if kind == "name" else -0.2), str(value)
    if words & _WHEN and kind == "phrase":
        return (0.3, value) if _PERIOD.search(value) else (0, None)
    if words & _DATE_WORDS or "YYYY" in param.description or "HH:MM" in param.description:
        return -0.3, str(value)
    return _NAME_LIKE.get(kind, 0.3), str(value)


_NUMERIC = frozenset(map(concept, "id number code year zip phone amount quantity date time size version duration model postal pin".split()))
_CODED = frozenset(map(concept, "id number code zip phone postal pin isbn sku".split()))
_WHEN = frozenset(map(concept, "date day time deadline".split()))
_PERIOD = re.compile(r"(?i)\b(?:last|next|past|this|week|month|year|day|hour|minute|morning|afternoon|evening|night|noon|daily)")
_WEEKDAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
_YEAR = concept("year")
_YEAR_LIKE = re.compile(r"1[5-9]\d\d|20\d\d")


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
    like_year = _YEAR_LIKE.fullmatch(mention.text)
    shift = (0.7 if _YEAR in param.names else -0.4) if like_year else (-0.4 if _YEAR in param.names and value < 1000 and "years" not in mention.text else 0)
    if concept("probability") in param.names | param.hints and value > 1:
        shift -= 0.6
    shift += 0.2 * (not float(value).is_integer())
    return 0.8 + shift, int(value) if param.type == "integer" else value


def _as_date(param: Param, mention: Mention) -> tuple[float, Any]:
    text, value = param.description, mention.value
    kind = "time" if concept("time") in param.names else "date"
    fitting = kind == mention.kind and (kind == "time" or param.names & _DATE_WORDS) or "date" in str(param.schema.get("format", ""))
    mentioned = mention.kind in text.lower() or "YYYY" in text
    written = mention.text
    if isinstance(value, datetime.date):
        written = value.strftime(next((f for name, f in _FORMATS if name.lower() in text.lower()), "%Y-%m-%d"))
    if mention.text.lower().split()[-1] in _WEEKDAYS and not re.search(r"(?i)date|YYYY", text + param.path[-1]):
        written = mention.text
    elif isinstance(value, datetime.time) and re.search(r"HH:MM|24", text):
        written = value.strftime("%H:%M:%S" if "SS" in text else "%H:%M")
    return (1.3 if fitting else 0.9 if mentioned else -0.2), written


def _options(param: Param, scene: Scene) -> list[Fit]:
    """The members of an enumeration that the task names, by their text or by all their words."""
    here = [t for t in scene.tokens if scene.start <= t.start < scene.end and t.text[0].isalnum()]
    found: list[Fit] = []
    for option in param.options:
        words = [concept(w) for w in re.findall(r"[A-Za-z]+|\d+(?:\.\d+)?", str(option).replace("_", " "))]
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
    said = [t for t in here if t.concept in param.names]
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
    columns = _assigned([(p, [f for f, q in ranked if q is p][:_TRIED]) for p in params])
    used = [column[0].mention for column in columns.values()]
    for fit, param in sorted(ranked, key=lambda pair: (pair[0].mention.start, -pair[0].score)):
        if param in columns and not any(_overlap(fit.mention, m) for m in used) and scene.start <= fit.mention.start < scene.end:
            like = {p: max(_alike(fit.mention, one.mention, scene) for one in column) for p, column in columns.items()}
            rivals = [(f, p) for f, p in ranked if f.mention is fit.mention and p in columns and f.score >= 0.65 * columns[p][0].score]
            if any(like.values()) and rivals:
                fit, param = min(rivals, key=lambda pair: (-(like[pair[1]] == 2), -round(pair[0].score, 2), len(columns[pair[1]]), order[pair[1]]))
                columns[param].append(fit)
                used.append(fit.mention)
    return columns


def in_one_run(one: Mention, other: Mention, text: str) -> bool:
    """Whether two values stand in one list, as in "1, 2 and 3"."""
    return one.kind == other.kind and bool(_RUN.fullmatch(text[one.end : other.start]))


def unit_hints(said: set[str]) -> set[str]:
    """The kinds of quantity that the units among the concepts of a text measure."""
    return {hint for word in said if len(word) > 1 for hint in _UNIT_HINTS.get(word, ())}


def _heads(chunk: Sequence[Token]) -> bool:
    return len(chunk) > 1 and chunk[1].text == "of" and is_generic(chunk[0].concept)


def _is_unit(token: Token) -> bool:
    return stem(token.text) in _UNIT_HINTS


def _overlap(one: Mention, other: Mention) -> bool:
    return one.start < other.end and other.start < one.end


def _assigned(choices: Sequence[tuple[Param, list[Fit]]]) -> dict[Param, list[Fit]]:
    """One value for each parameter, none of them used twice, so that the sum of the scores is the highest."""
    choices = [(param, fits) for param, fits in choices if fits]
    rest = [sum(max(fits[0].score, 0) + 2 for _, fits in choices[i:]) for i in range(len(choices) + 1)]
    best: tuple[float, list[Fit | None]] = (-1.0, [])

    def search(taken: list[Fit | None], total: float) -> None:
        nonlocal best
        if total + rest[len(taken)] <= best[0] + 1e-6:
            return
        if len(taken) == len(choices):
            best = (total, taken)
            return
        param, fits = choices[len(taken)]
        for fit in fits:
            if not any(one and _overlap(one.mention, fit.mention) for one in taken):
                search([*taken, fit], total + fit.score + (2 if param.required else -0.25))
        search([*taken, None], total)

    search([], 0.0)
    return {param: [fit] for (param, _), fit in zip(choices, best[1], strict=True) if fit}


def _alike(fit: Mention, first: Mention, scene: Scene) -> int:
    """Whether a value is one more of its kind: 2 between the same words, 1 in one list with the other, else 0."""
    one, other = sorted((fit, first), key=lambda m: m.start)
    if one.kind != other.kind or one.kind == "flag":
        return 0
    return 2 if _neighbours(one, scene) & _neighbours(other, scene) else int(in_one_run(one, other, scene.text))


def _neighbours(mention: Mention, scene: Scene) -> set[str]:
    before = [t.text.lower() for t in scene.tokens if t.end <= mention.start and t.text.lower() not in _DETERMINERS]
    after = next((t.text.lower() for t in scene.tokens if t.start >= mention.end), ".")
    return {f"{word} _" for word in before[-1:] if word[0].isalnum()} | ({f"_ {after}"} if after[0].isalnum() else set())


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
