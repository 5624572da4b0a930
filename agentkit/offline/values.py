"""Values that a text mentions: numbers, dates, names, quotations, lists and the like, each with its place."""

import ast
import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .words import COMMANDS, LEXICON, STOP

_PIECES: dict[str, str] = LEXICON["pieces"]
_COUNTS = {word: n for n, word in enumerate(_PIECES["number"].split("|"))} | {
    word: 10 * n for n, word in enumerate(_PIECES["tens"].split("|"), 2)
}
_MAGNITUDES = {"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "M": 1e6, "billion": 1e9, "trillion": 1e12}
_MAGNITUDES["dozen"] = 12
_MONTHS = _PIECES["months"].lower().split("|")
_WEEKDAYS = _PIECES["weekdays"].split("|")


@dataclass(frozen=True, slots=True, eq=False)
class Mention:
    """One value in a text: its kind, the value, how it is written, where it stands, and the unit of a number."""

    kind: str
    value: Any
    text: str
    start: int
    end: int
    unit: str = ""


def _number(match: re.Match[str]) -> Any:
    digits, magnitude = match["digits"].replace(",", ""), match["mag"]
    whole = digits.isdigit() and not magnitude
    value: Any = int(digits) if whole else float(digits) * _MAGNITUDES.get((magnitude and magnitude.strip()) or "", 1)
    if not whole and float(value).is_integer() and ("." not in digits or magnitude):
        value = int(value)
    return -value if match["sign"] else value


def _number_words(match: re.Match[str]) -> Any:
    total, part = 0, 0
    for word in re.findall(r"[a-z]+", match[0].lower()):
        if word in _MAGNITUDES:
            part = max(part, 1) * int(_MAGNITUDES[word])
            if word != "hundred":
                total, part = total + part, 0
        else:
            part += _COUNTS.get(word, 0)
    return total + part


def _literal(match: re.Match[str]) -> Any:
    text = re.sub(r"\b(true|false)\b", lambda m: m[0].capitalize(), re.sub(r"\bnull\b", "None", match[0]))
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = [part.strip(" '\"") for part in match[0][1:-1].split(",")] if match[0][0] in "[(" else match[0]
    return list(value) if isinstance(value, tuple) else value


def _date(match: re.Match[str]) -> Any:
    found = {key: text for key, text in match.groupdict().items() if text}
    number = next((n for n, m in enumerate(_MONTHS, 1) if found["month"].lower().startswith(m[:3])), 0)
    year, day, month = found.get("year"), found.get("day"), number or int(found["month"])
    try:
        return datetime.date(int(year), month, int(day)) if year and day else match[0]
    except ValueError:
        return match[0]


def _relative(text: str, today: datetime.date) -> datetime.date:
    word = text.lower().split()[-1]
    if word in _WEEKDAYS:
        ahead = (_WEEKDAYS.index(word) - today.weekday() - 1) % 7 + 1
        return today + datetime.timedelta(ahead - 7 if text.lower().startswith("last") else ahead)
    return today + datetime.timedelta({"tomorrow": 1, "yesterday": -1}.get(word, 0))


def _time(match: re.Match[str]) -> Any:
    hour, minute, half = int(match["h"]), int(match["m"] or 0), (match["half"] or "").lower()[:1]
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    return datetime.time(hour, minute) if hour < 24 and minute < 60 else match[0]


def _expression(match: re.Match[str]) -> Any:
    is_formula = re.search(r"\d", match[0]) and re.search(r"[+*^]|\s-\s|[\d)]/[\d(]", match[0])
    return match[0] if is_formula and not re.match(r"[a-z]+/[a-z]", match[0]) else None


def _name(match: re.Match[str]) -> Any:
    """A capitalised span is a name, unless it is capitalised because it opens a sentence."""
    before, after = match.string[: match.start()].rstrip(" \"'(*-"), match.string[match.end() :]
    opens = not before or before[-1] in ".?!;:\n\0" or re.search(r"(?:^|\n)\s*\d+[.)]$", before)
    words = [word for word in match[0].split(" ") if not word.isdigit()]
    plain = words[0].lower() in STOP or words[0].lower() in COMMANDS
    if len(words) == 1 and (words[0].lower() in STOP or (opens and (plain or re.match(r"\s+[a-z]|,", after)))):
        return None
    return match[0]


_READERS: dict[str, Callable[[re.Match[str]], Any]] = {
    "literal": _literal,
    "inside": lambda match: next(group for group in match.groups() if group is not None),
    "text": lambda match: match[0],
    "date": _date,
    "time": _time,
    "expression": _expression,
    "name": _name,
    "number": _number,
    "words": _number_words,
}


def _compiled(pattern: str) -> re.Pattern[str]:
    words = {
        "command": "|".join(sorted(map(str.capitalize, COMMANDS))),
        "opening": "|".join(sorted(word.capitalize() for word in STOP if word.isalpha() and len(word) > 1)),
    }
    pieces = {**_PIECES, **words}
    while found := re.search(r"\{([a-z]+)\}", pattern):
        pattern = pattern.replace(found[0], pieces[found[1]])
    return re.compile(pattern)


_KINDS = [(kind, reader, _compiled(pattern)) for kind, reader, pattern in LEXICON["values"]]


def scan(text: str, today: datetime.date) -> list[Mention]:
    """The values that `text` mentions, in order; where two could stand, the kind that is more certain wins."""
    found: list[Mention] = []
    masked = text
    for kind, reader, pattern in _KINDS:
        for match in list(pattern.finditer(masked)):
            value = _relative(match[0], today) if reader == "relative" else _READERS[reader](match)
            if value is None:
                continue
            unit = _unit(match) if kind == "number" else ""
            whole = next((k for k, _, form in _KINDS if k in ("url", "email") and form.fullmatch(str(value))), kind)
            found.append(Mention(whole, value, match[0], match.start(), match.end(), unit))
            masked = masked[: match.start()] + "\0" * len(match[0]) + masked[match.end() :]
    return sorted(found, key=lambda mention: mention.start)


def _unit(match: re.Match[str]) -> str:
    """The unit that a number is written with: "%", a sign of currency, or letters joined to it."""
    groups = match.groupdict()
    return "%" if groups.get("pct") else groups.get("cur") or groups.get("glued") or ""
