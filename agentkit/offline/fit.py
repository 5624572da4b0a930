"""How well a value of the text fits a parameter, and what it is as that parameter's value."""

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .scene import Context, Scene, in_one_run
from .tools import Param
from .values import Mention
from .words import CLASSES, LEADS, LEXICON, concept

NEEDED = 0.3
"""The score below which a value is not taken."""

_OUTSIDE = 0.9
_LIKE_A_NAME = {"quoted": 1.5, "name": 0.9, "code": 0.8, "url": 0.5, "email": 0.5, "path": 0.6, "expression": 0.4}
_LIKE_A_NAME["phrase"] = 0.4
_FORMATS = {"YYYY-MM-DD": "%Y-%m-%d", "DD-MM-YYYY": "%d-%m-%Y", "MM-DD-YYYY": "%m-%d-%Y", "MM/DD/YYYY": "%m/%d/%Y"}
_FORMATS |= {"DD/MM/YYYY": "%d/%m/%Y", "YYYY/MM/DD": "%Y/%m/%d", "YYYYMMDD": "%Y%m%d"}
_ALIASES = {"url": "link", "path": "file"}
_PERIOD = re.compile(r"(?i)\b(?:last|next|past|week|month|year|day|hour|minute|morning|afternoon|evening|night|noon)")
_NEGATION = re.compile(r"\b(?:no|not|without|don't|exclud\w+|disable\w*|never|false)\b")
_YEAR, _PROBABILITY = concept("year"), concept("probability")
_YEAR_LIKE = re.compile(r"1[5-9]\d\d|20\d\d")


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a mention fits a parameter, how much of that the words around it say, and the value it gives."""

    score: float
    cue: float
    value: Any
    mention: Mention


def fits_of(param: Param, scene: Scene, contexts: Mapping[Mention, Context]) -> list[Fit]:
    """Every way to fill `param` from the scene, best first."""
    if param.options:
        return _options(param, scene)
    if param.type == "boolean":
        return _flag(param, scene)
    if param.type == "array":
        return _lists(param, scene, contexts)
    found = [fit for mention in contexts if (fit := _fit(param, mention, scene, contexts))]
    if any(fit.mention.kind != "phrase" and fit.score >= NEEDED and scene.holds(fit.mention) for fit in found):
        found = [fit for fit in found if scene.holds(fit.mention)]
    for example in param.examples if param.type == "string" else ():
        for match in re.finditer(rf"(?i)(?<!\w){re.escape(example)}(?!\w)", scene.text[scene.start : scene.end]):
            place = scene.mention("option", scene.start + match.start(), scene.start + match.end())
            if any(m.kind == "name" and m.start < place.end and place.start < m.end for m in contexts):
                continue
            found.append(Fit(2.0, 1.0, example, place))
    return sorted(found, key=lambda fit: -fit.score)


def _fit(param: Param, mention: Mention, scene: Scene, contexts: Mapping[Mention, Context]) -> Fit | None:
    base, value = coerce(param, mention)
    outside = not scene.holds(mention)
    if value is None or (outside and not param.required and not scene.reach[0] <= mention.start < scene.reach[1]):
        return None
    context, kind = contexts[mention], mention.kind
    cue = _cue(param, context)
    if _YEAR in param.names and _YEAR_LIKE.fullmatch(mention.text):
        cue += 0.6
    alone = kind != "unit" or sum(m.kind == "unit" for m in contexts) == 1
    named = kind == "name" and any(concept(word) in param.names for word in mention.text.split())
    if named or (alone and _asks_for(param, kind)):
        cue += 1.0
    if param.names & CLASSES["place"] and kind in ("name", "phrase") and not any(f"lead {w}" in context for w in LEADS):
        base -= 0.2 if kind == "phrase" else 0.5
    if kind == "phrase" and any(f"lead {word}" in context for word in ("with", "of", "for", "in", "about", "on")):
        base += 0.1
    if cue == 0 and "strange" in context:
        base -= 0.6
    return Fit(base + cue - _OUTSIDE * outside, cue, value, mention)


def _asks_for(param: Param, kind: str) -> bool:
    """Whether a parameter's name, or for an address its description too, says the kind of a value."""
    words = {concept(kind), concept(_ALIASES.get(kind, kind))}
    telling = kind not in ("name", "number", "code", "phrase", "list")
    return telling and bool(words & param.label or (kind in ("email", "url", "path") and words & param.hints))


def _cue(param: Param, context: Context) -> float:
    named = sum(sorted((w for c, w in context.items() if c in param.names), reverse=True)[:2])
    hinted = sum(sorted((w for c, w in context.items() if c in param.hints), reverse=True)[:2])
    closeness: float = min(named / min(len(param.names), 3) ** 0.5, 2.2)
    share = 0.35 if named or param.required else 0.2
    return closeness + share * min(hinted, 1.6)


def coerce(param: Param, mention: Mention) -> tuple[float, Any]:
    """How natural `mention` is as a value of `param`, and that value; None when it cannot be one."""
    if param.type in ("integer", "number"):
        return _as_number(param, mention)
    if param.type == "object":
        return (1.5, mention.value) if isinstance(mention.value, dict) else (0, None)
    if param.type == "any" and mention.kind in ("number", "list", "object"):
        return 0.7, mention.value
    if mention.kind in ("date", "time"):
        return _as_date(param, mention)
    return _as_text(param, mention)


def _as_text(param: Param, mention: Mention) -> tuple[float, Any]:
    kind, text = mention.kind, str(mention.value)
    coded = bool(param.label & CLASSES["coded"])
    if kind in ("list", "object") or (kind == "unit" and not param.label & CLASSES["measure"]):
        return 0, None
    if _asks_for(param, kind):
        return 2.0, text
    if kind == "number":
        return (0.7 if coded else 0.2 if param.label & CLASSES["numeric"] else -0.5), mention.text.strip(" $€£")
    if coded and kind in ("name", "phrase", "code"):
        return {"code": 1.0, "name": 0.4, "phrase": -0.2}[kind], text
    if param.names & CLASSES["when"] and kind == "phrase":
        return (0.3, text) if _PERIOD.search(text) else (0, None)
    if param.names & (CLASSES["day"] | CLASSES["when"]) or "YYYY" in param.description or "HH:MM" in param.description:
        return -0.3, text
    wordy = kind == "quoted" and bool(param.names & CLASSES["text"])
    return _LIKE_A_NAME.get(kind, 0.3) + 0.5 * wordy, text


def _as_number(param: Param, mention: Mention) -> tuple[float, Any]:
    value, text = mention.value, param.description.lower()
    if mention.kind == "date" and _YEAR in param.names and (found := re.search(r"\d{4}", mention.text)):
        return 0.5, int(found[0])
    if mention.kind != "number":
        return 0, None
    if mention.unit == "%" and param.type == "number" and "percent" not in text and "%" not in text:
        value = round(value / 100, 10)
    whole = float(value).is_integer()
    low, high = param.schema.get("minimum"), param.schema.get("maximum")
    within = not (isinstance(low, int | float) and value < low) and not (isinstance(high, int | float) and value > high)
    if (param.type == "integer" and not whole) or not within:
        return 0, None
    score = 0.8 if whole else 1.0
    if _YEAR_LIKE.fullmatch(mention.text):
        score += 0.7 if _YEAR in param.names else -0.4
    elif _YEAR in param.names and value < 1000:
        score -= 0.4
    if _PROBABILITY in param.names | param.hints and value > 1:
        score -= 0.6
    return score, int(value) if param.type == "integer" else value


def _as_date(param: Param, mention: Mention) -> tuple[float, Any]:
    text, value, written = param.description, mention.value, mention.text
    is_time = concept("time") in param.names
    fitting = mention.kind == "time" if is_time else mention.kind == "date" and bool(param.names & CLASSES["day"])
    if isinstance(value, datetime.date):
        written = value.strftime(next((f for name, f in _FORMATS.items() if name in text.upper()), "%Y-%m-%d"))
        weekday = mention.text.lower().split()[-1] in LEXICON["pieces"]["weekdays"].split("|")
        if weekday and not re.search(r"(?i)date|YYYY", text + param.path[-1]):
            written = mention.text
    elif isinstance(value, datetime.time) and re.search(r"HH:MM|24", text):
        written = value.strftime("%H:%M:%S" if "SS" in text else "%H:%M")
    fitting = fitting or "date" in str(param.schema.get("format", ""))
    return (1.3 if fitting else 0.9 if mention.kind in text.lower() or "YYYY" in text else -0.2), written


def _options(param: Param, scene: Scene) -> list[Fit]:
    """The members of an enumeration that the task names by all their words; of an array, all of them."""
    here = [token for token in scene.words if token.text[0].isalnum()]
    best: dict[int, Fit] = {}
    for option in param.options:
        words = [concept(w) for w in re.findall(r"[A-Za-z]+|\d+(?:\.\d+)?", str(option).replace("_", " "))]
        for index, token in enumerate(here):
            if words and [t.concept for t in here[index : index + len(words)]] == words:
                place = scene.mention("option", token.start, here[index + len(words) - 1].end)
                fit = Fit(2.0 + (place.text.lower() == str(option).lower()) + 0.1 * len(words), 1.0, option, place)
                best[token.start] = max(fit, best.get(token.start, fit), key=lambda one: one.score)
    if param.type == "array" and best:
        return [replace(best[min(best)], value=list(dict.fromkeys(best[start].value for start in sorted(best))))]
    return sorted(best.values(), key=lambda fit: (-fit.score, fit.mention.start))


def _flag(param: Param, scene: Scene) -> list[Fit]:
    """True when the task says the words of the parameter's name, False when it says them after a negation."""
    said = [token for token in scene.words if token.concept in param.names]
    if not said or len({t.concept for t in said}) < min(2, len(param.names)):
        return []
    value = not _NEGATION.search(scene.text[max(0, said[0].start - 25) : said[0].start].lower())
    return [Fit(1.0, 1.0, value, Mention("flag", value, said[0].text, said[0].start, said[0].start))]


def _lists(param: Param, scene: Scene, contexts: Mapping[Mention, Context]) -> list[Fit]:
    """A bracketed list, or the run of values ("1, 2 and 3") whose members fit the items best."""
    items = param.schema.get("items") or {}
    inner = replace(param, type=items.get("type", "any"), schema={**items, "description": param.description})
    found: list[Fit] = []
    run: Sequence[Fit] = ()
    for mention, context in contexts.items():
        cue, outside = _cue(param, context) + _asks_for(param, mention.kind), _OUTSIDE * (not scene.holds(mention))
        base, value = coerce(inner, mention) if inner.type != "array" else (0, None)
        if mention.kind == "list":
            found.append(Fit(2.5 + cue - outside, 1.0, mention.value, mention))
        elif value is not None:
            fit = Fit(base + cue - outside, cue, value, mention)
            run = [*run, fit] if run and in_one_run(run[-1].mention, mention, scene.text) else [fit]
            whole = Mention("run", None, "", run[0].mention.start, mention.end)
            found.append(Fit(run[0].score + 0.15 * len(run), run[0].cue, [one.value for one in run], whole))
    return sorted(found, key=lambda fit: -fit.score)
