"""Values that a text mentions: numbers, dates, names, quotations, lists and the like, each with its place."""

import ast
import datetime
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .words import IMPERATIVES, STOP

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
_UNITS += "seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_COUNTS = {word: n for n, word in enumerate(_UNITS)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_MAGNITUDES = {"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "M": 1e6, "billion": 1e9, "bn": 1e9} | {
    "trillion": 1e12,
    "dozen": 12,
}
_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = r"(?:" + "|".join(f"{m}|{m[:3]}" for m in _MONTHS) + r"|sept)\b\.?"
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_COUNT = "(?:" + "|".join([*_UNITS, *_TENS]) + ")"
_OPENING = "|".join(sorted(w.capitalize() for w in STOP if w.isalpha() and len(w) > 1))
_COMMAND = "|".join(sorted(map(str.capitalize, IMPERATIVES)))
_CAPITAL = rf"(?!(?:{_OPENING})\b)(?:(?<=[a-z,]\s)|(?!(?:{_COMMAND})\s))[A-Z][\w’]*(?:[.'&-]\w+)*"
_NAME = rf"\b{_CAPITAL}(?:\s(?:(?:of|the|de|la|van|von|du|da|&)\s){{0,2}}[A-Z][\w’]*(?:[.'&-]\w+)*)*"
_NUMBERED = r"(?<!\bID)(?<!\bNo)\s\d{1,3}\b(?=\s[a-z]|[.,?!](?:\s|$)|$)(?!\s(?:day|week|month|hour|minute|night|people|time))"
_MAGNITUDE = r"(?:hundred|thousand|million|billion|trillion|dozen)"


@dataclass(frozen=True, slots=True, eq=False)
class Mention:
    """One value in a text: its kind, the value, how it is written, where it stands, and the unit of a number."""

    kind: str
    value: Any
    text: str
    start: int
    end: int
    unit: str = ""


def _number(match: re.Match[str]) -> tuple[Any, str]:
    sign, digits, magnitude, percent = match["sign"], match["digits"].replace(",", ""), match["mag"], match["pct"]
    whole = digits.isdigit() and not magnitude
    value: Any = int(digits) if whole else float(digits) * _MAGNITUDES.get(magnitude and magnitude.strip() or "", 1)
    if not whole and float(value).is_integer() and ("." not in digits or magnitude):
        value = int(value)
    return (-value if sign else value), "%" if percent else match["cur"] or match["glued"] or ""


def _number_words(match: re.Match[str]) -> tuple[Any, str]:
    total, part = 0, 0
    for word in re.findall(r"[a-z]+", match[0].lower()):
        if word in _MAGNITUDES:
            part = max(part, 1) * int(_MAGNITUDES[word])
            if word != "hundred":
                total, part = total + part, 0
        else:
            part += _COUNTS.get(word, 0)
    return total + part, ""


def _literal(match: re.Match[str]) -> tuple[Any, str]:
    text = re.sub(r"\b(true|false)\b", lambda m: m[0].capitalize(), re.sub(r"\bnull\b", "None", match[0]))
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = [part.strip(" '\"") for part in match[0][1:-1].split(",")] if match[0][0] in "[(" else match[0]
    return list(value) if isinstance(value, tuple) else value, ""


def _date(match: re.Match[str]) -> tuple[Any, str]:
    found = {key: text for key, text in match.groupdict().items() if text}
    number = next((n for n, m in enumerate(_MONTHS, 1) if found["month"].lower().startswith(m[:3])), 0)
    year, day, month = found.get("year"), found.get("day"), number or int(found["month"])
    try:
        return (datetime.date(int(year), month, int(day)) if year and day else match[0]), ""
    except ValueError:
        return match[0], ""


def _relative(today: datetime.date) -> Callable[[re.Match[str]], tuple[Any, str]]:
    def parse(match: re.Match[str]) -> tuple[Any, str]:
        word = match[0].lower().split()[-1]
        if word in _WEEKDAYS:
            ahead = (_WEEKDAYS.index(word) - today.weekday() - 1) % 7 + 1
            return today + datetime.timedelta(ahead - 7 if match[0].lower().startswith("last") else ahead), ""
        return today + datetime.timedelta({"tomorrow": 1, "yesterday": -1}.get(word, 0)), ""

    return parse


def _time(match: re.Match[str]) -> tuple[Any, str]:
    hour, half = int(match["h"]), (match["half"] or "").lower()[:1]
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    return (datetime.time(hour, int(match["m"] or 0)) if hour < 24 else match[0]), ""


def _inside(match: re.Match[str]) -> tuple[Any, str]:
    return next(group for group in match.groups() if group is not None), ""


def _expression(match: re.Match[str]) -> tuple[Any, str]:
    is_formula = re.search(r"\d", match[0]) and re.search(r"[+*^]|\s-\s|[\d)]/[\d(]", match[0])
    return (match[0] if is_formula and not re.match(r"[a-z]+/[a-z]", match[0]) else None), ""


def _name(match: re.Match[str]) -> tuple[Any, str]:
    """A capitalised span is a name, unless it is capitalised because it opens a sentence."""
    before, after = match.string[: match.start()].rstrip(" \"'(*-"), match.string[match.end() :]
    opens = not before or before[-1] in ".?!;:\n\0" or re.search(r"(?:^|\n)\s*\d+[.)]$", before)
    words = [word for word in match[0].split(" ") if not word.isdigit()]
    plain = words[0].lower() in STOP or words[0].lower() in IMPERATIVES
    if len(words) == 1 and (words[0].lower() in STOP or (opens and (plain or re.match(r"\s+[a-z]|,", after)))):
        return None, ""
    return match[0], ""


def _as_written(match: re.Match[str]) -> tuple[Any, str]:
    return match[0], ""


_KINDS: tuple[tuple[str, str, Callable[[re.Match[str]], tuple[Any, str]]], ...] = (
    ("object", r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", _literal),
    ("list", r"\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]|(?<!\w)\(\s*-?[\d.]+(?:\s*,\s*-?[\d.]+)+\s*\)", _literal),
    ("quoted", r"\"([^\"\n]+)\"|“([^”]+)”|(?<!\w)'([^'\n]+(?:'\w[^'\n]*)*)'(?!\w)|‘([^’]+)’|`([^`]+)`", _inside),
    ("url", r"(?:https?://|www\.)[^\s,;'\"<>]+[\w/]", _as_written),
    ("email", r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", _as_written),
    ("path", r"(?<!\w)(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.-]+){2,}|\b[\w-]+\.(?:[a-z]{2,4}|ipynb|json|html)\b(?!\.)", _as_written),
    ("date", r"(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})\b", _date),
    ("date", r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})\b", _date),
    ("date", rf"(?i)\b(?P<month>{_MONTH})\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<year>\d{{4}})\b)?", _date),
    ("date", rf"(?i)\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month>{_MONTH})(?:,?\s+(?P<year>\d{{4}})\b)?", _date),
    ("date", rf"\b(?P<month>(?i:{_MONTH}))(?:,?\s+|\s+of\s+)(?P<year>\d{{4}})\b", _date),
    ("month", rf"\b(?:{'|'.join(m.capitalize() for m in _MONTHS)})\b", _as_written),
    ("relative", rf"(?i)\b(?:today|tomorrow|yesterday|(?:(?:next|this|last)\s+)?(?:{'|'.join(_WEEKDAYS)}))\b", _as_written),
    ("time", r"(?i)\b(?P<h>\d{1,2})(?::(?P<m>\d{2}))?\s?(?P<half>[ap]\.?m\b\.?)", _time),
    ("time", r"\b(?P<h>\d{1,2}):(?P<m>\d{2})(?P<half>)\b", _time),
    ("code", r"(?<!\w)\+\d[\d()-]*(?:\s\d{2,}|[\d()-])+\b", _as_written),
    ("code", r"\b\d{1,3}(?:\.\d{1,3}){3}\b", _as_written),
    ("expression", r"(?<![\w.])(?!(?:to|of|is|the|and|in|for|from|by|at)\b)[\w.()]+(?:\s?(?:\*\*|->|→|[-+*/^])\s?[\w.()]+)+(?:\s?=\s?[\w.()]+)*", _expression),
    ("code", r"\b(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])(?!\d+(?:st|nd|rd|th|[kKM]|[a-z]{1,3})\b)\w+(?:-\w+)*\b", _as_written),
    ("code", r"\+?\d[\d]*(?:-\d+){2,}|#\w+", _as_written),
    ("name", rf"{_NAME}{_NUMBERED}|\b\d+(?:st|nd|rd|th)\s{_NAME}", _name),
    (
        "number",
        r"(?<![\w.])(?P<cur>[$€£¥])?\s?(?P<sign>-)?(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.?\d+(?:e-?\d+)?)"
        rf"(?P<mag>\s{_MAGNITUDE}\b|k\b|M\b)?(?P<pct>\s?%|\s?percent\b)?(?:st|nd|rd|th)?(?P<glued>[a-zA-Z°]{{1,3}})?(?!\w)",
        _number,
    ),
    ("number", rf"(?i)\b{_COUNT}(?:[-\s](?:and\s)?(?:{_COUNT}|{_MAGNITUDE}))*\b|\ba\s{_MAGNITUDE}\b", _number_words),
    ("name", _NAME, _name),
)
_COMPILED = [(kind, re.compile(pattern), parse) for kind, pattern, parse in _KINDS]


def scan(text: str, today: datetime.date) -> list[Mention]:
    """The values that `text` mentions, in order; where two could stand, the kind that is more certain wins."""
    found: list[Mention] = []
    masked = text
    for kind, pattern, parse in _COMPILED:
        for match in list(pattern.finditer(masked)):
            value, unit = _parsed(kind, match, parse, today)
            if value is None:
                continue
            found.append(Mention("date" if kind == "relative" else kind, value, match[0], match.start(), match.end(), unit))
            masked = masked[: match.start()] + "\0" * len(match[0]) + masked[match.end() :]
    return sorted(found, key=lambda mention: mention.start)


def _parsed(kind: str, match: re.Match[str], parse: Callable[[re.Match[str]], tuple[Any, str]], today: datetime.date) -> tuple[Any, str]:
    return _relative(today)(match) if kind == "relative" else parse(match)
