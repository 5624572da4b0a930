"""What a text says: its words, made comparable, and the values that it mentions.

Words are compared by their *concept*: their stem, or the stem that stands for a group of synonyms.  A *value* is a
number, date, name, quotation, link or the like with its place in the text.  All that is known of English stands in
`lexicon.toml`; how values are written is its table `values`.
"""

import ast
import datetime
import re
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

LEXICON: dict[str, Any] = tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text(encoding="utf-8"))
STOP, COMMANDS = frozenset(LEXICON["stop"].split()), frozenset(LEXICON["commands"].split())
LONGEST, VALUES = 1000, 40
"""How many characters of a long text are read, and how many values: what a person asks stands at its head."""

_TOKEN = re.compile(r"[^\W\d_]+(?:['’][a-z]+)?|\d+(?:\.\d+)?|[^\w\s]")
_ENDING = re.compile(
    r"(?<=\w{3})(?:at(?:ion|ing|or|ed|e)s?|ions?|ings?|ments?|ies|ied|ie|['’]s|es|ed|ly|s|y|e)$|(?<=\w{4})[eo]rs?$"
)


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A word cut to what its inflections share: `calculate`, `calculation` and `calculators` are `calcul`."""
    return re.sub(r"([^aeiou])\1$", r"\1", _ENDING.sub("", word.lower()))[:6]


_SYNONYMS = {stem(word): stem(group.split()[0]) for group in LEXICON["synonyms"].split(",") for word in group.split()}


def concept(word: str) -> str:
    """The stem of a word, or the one that stands for all its synonyms."""
    return _SYNONYMS.get(stem(word), stem(word))


@lru_cache(maxsize=2048)
def concepts(text: str) -> tuple[str, ...]:
    """The concepts of a name or a description, without doubles; `snake_case`, `camelCase` and `dots` are split."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)
    return tuple(dict.fromkeys(concept(m[0]) for m in _TOKEN.finditer(spaced) if m[0][0].isalnum()))


GENERIC = {*concepts(LEXICON["generic"]), *(stem(word) for word in STOP if stem(word) not in _SYNONYMS)}
"""The concepts that say too little to choose a tool or a parameter by."""


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A stretch of a text: a word or sign (its value is the concept), or a value of some kind and perhaps unit."""

    kind: str
    value: Any
    text: str
    start: int
    end: int
    unit: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A text with its words and signs, and the values in it, in order."""

    text: str
    words: Sequence[Span]
    values: Sequence[Span]

    def said(self, start: int, end: int) -> Sequence[Span]:
        """The words of a stretch of the text."""
        first, last = (bisect_left(self.words, place, key=lambda word: word.start) for place in (start, end))
        return self.words[first:last]

    def concepts(self, start: int, end: int) -> set[str]:
        """The concepts of a stretch's words, numbers aside."""
        return {word.value for word in self.said(start, end) if word.text[0].isalpha()}

    def beside(self, value: Span) -> set[str]:
        """The word before a value, determiners aside, and the one behind it."""
        before = re.findall(
            r"\w+ (?=(?:(?:the|a|an|my|and|or),? )*$)", self.text[max(0, value.start - 30) : value.start]
        )
        return {*before[:1], *re.findall(r"^ \w+", self.text[value.end : value.end + 20])}

    def span(self, kind: str, start: int, end: int) -> Span:
        """A stretch of the text as a value."""
        return Span(kind, self.text[start:end], self.text[start:end], start, end)


def read_query(text: str, today: datetime.date) -> Query:
    """The words and values of `text`; "tomorrow" is counted from `today`."""
    text = text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0]
    words = [Span("word", concept(m[0]), m[0].lower(), m.start(), m.end()) for m in _TOKEN.finditer(text)]
    return Query(text, words, _values(text, today))


def _values(text: str, today: datetime.date) -> list[Span]:
    """The values of `text`; where two could stand, the kind that is more certain wins."""
    found: list[Span] = []
    masked = text
    for kind, pattern in _PATTERNS:
        for match in list(pattern.finditer(masked)):
            value = _READERS[kind](match, today) if kind in _READERS else match[match.lastindex or 0]
            if value is not None:
                unit = match.groupdict().get("unit") or match.groupdict().get("currency") or ""
                exact = "year" if kind == "number" and re.fullmatch(r"1[5-9]\d\d|20\d\d", match[0]) else kind
                found.append(Span(exact, value, match[0], match.start(), match.end(), unit.strip()))
                masked = masked[: match.start()] + "\0" * len(match[0]) + masked[match.end() :]
    return sorted(found, key=lambda value: value.start)[:VALUES]


def _pattern(pattern: str) -> str:
    """A pattern of the lexicon with its {pieces} filled in."""
    return re.sub(r"\{([a-z]+)\}", lambda m: _pattern(_PIECES[m[1]]), pattern)


_PIECES: dict[str, str] = {
    "command": "|".join(sorted(map(str.capitalize, COMMANDS))),
    "opening": "|".join(sorted(word.capitalize() for word in STOP if len(word) > 1)),
    **LEXICON["pieces"],
}
_PATTERNS = [(kind, re.compile(_pattern(pattern))) for kind, pattern in LEXICON["values"]]


def _literal(match: re.Match[str], _: datetime.date) -> Any:
    names = {"true": "True", "false": "False", "null": "None"}
    try:
        return ast.literal_eval(re.sub(r"\b(?:true|false|null)\b", lambda m: names[m[0]], match[0]))
    except (ValueError, SyntaxError):
        return [part.strip(" '\"") for part in match[0][1:-1].split(",")] if match[0][0] == "[" else None


_MONTHS, _WEEKDAYS = _PIECES["months"].lower().split("|"), _PIECES["weekdays"].split("|")


def _date(match: re.Match[str], today: datetime.date) -> Any:
    found, word = match.groupdict(), match[0].lower().split()[-1]
    if word in _WEEKDAYS:
        ahead = (_WEEKDAYS.index(word) - today.weekday() - 1) % 7 + 1
        return today + datetime.timedelta(ahead - 7 if match[0].lower().startswith("last") else ahead)
    if not found.get("month"):
        return today + datetime.timedelta({"tomorrow": 1, "yesterday": -1}.get(word, 0))
    month = next((n for n, m in enumerate(_MONTHS, 1) if m[:3] == found["month"][:3].lower()), found["month"])
    try:
        return datetime.date(int(found["year"]), int(month), int(found["day"]))
    except (KeyError, TypeError, ValueError):  # no year, no day, or no such day
        return match[0]


def _time(match: re.Match[str], _: datetime.date) -> Any:
    hour, minute, half = int(match["h"]), int(match["m"] or 0), (match["half"] or "").lower()[:1]
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    return datetime.time(hour, minute) if hour < 24 and minute < 60 else match[0]


_COUNTS = {word: n for n, word in enumerate(_PIECES["number"].split("|"))}
_COUNTS |= {word: 10 * n for n, word in enumerate(_PIECES["tens"].split("|"), 2)}
_MAGNITUDES = {"dozen": 12, "hundred": 100, "thousand": 1000, "k": 1000, "million": 10**6, "m": 10**6, "billion": 10**9}


def _number(match: re.Match[str], _: datetime.date) -> Any:
    number: Any = 0
    for word in re.findall(r"[\d.]+(?:e-?\d+)?|[a-z]+", match["number"].replace(",", "").lower()):
        if word in _MAGNITUDES:
            number = round(max(number, 1) * _MAGNITUDES[word], 6)
        else:
            number += _COUNTS.get(word, 0) if word.isalpha() else int(word) if word.isdigit() else float(word)
    return -number if match["sign"] else number


def _expression(match: re.Match[str], _: datetime.date) -> str | None:
    """A formula has a number and an operator; "and/or" and "2024-25" are none."""
    return (
        match[0]
        if re.search(r"\d", match[0]) and re.search(r"[+*^(]|(?:%|percent) of |\s-\s|[\d)]/[\d(]", match[0])
        else None
    )


def _name(match: re.Match[str], _: datetime.date) -> str | None:
    """A capitalised span is a name, unless it is capitalised because it opens a sentence."""
    before, after = match.string[: match.start()].rstrip(" \"'(*-"), match.string[match.end() :]
    opens = not before or before[-1] in ".?!;:\n\0" or re.search(r"(?:^|\n)\s*\d+[.)]$", before)
    word = re.sub(r"\s\d+$", "", match[0].lower())
    plain = word in STOP or (opens and (word in COMMANDS or re.match(r"\s+[a-z]|,", after)))
    return None if plain and " " not in word else match[0]


_READERS: dict[str, Callable[[re.Match[str], datetime.date], Any]] = {"object": _literal, "list": _literal}
_READERS |= {"date": _date, "time": _time, "number": _number, "expression": _expression, "name": _name}
