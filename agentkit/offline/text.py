"""What a text says: its words, made comparable, and the values that it mentions, with what is said about each.

Words are compared by their *concept*: their stem, or the stem that stands for a group of synonyms.  A *value* is a
number, date, name, quotation, link or the like with its place in the text; a *phrase* is a run of other words.  All
that is known of English stands in `lexicon.toml`: how values are written is its table `values`, `_READERS` tells what
they mean.
"""

import ast
import datetime
import json
import re
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from itertools import groupby, takewhile
from typing import Any

LEXICON: dict[str, Any] = tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text(encoding="utf-8"))
PATTERNS = {name: re.compile(pattern) for name, pattern in LEXICON["patterns"].items()}
STOP, COMMANDS = frozenset(LEXICON["stop"].split()), frozenset(LEXICON["commands"].split())
LONGEST, VALUES = 1000, 40
"""How many characters of a long text are read, and how many values: what a person asks stands at its head."""
ASKED = "?"
"""The concept that a question has besides those of its words."""


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A word cut to what its inflections share: `calculate`, `calculation` and `calculators` are `calcul`."""
    return re.sub(r"([^aeiou])\1$", r"\1", PATTERNS["ending"].sub("", word.lower()))[:6]


_SYNONYMS = {stem(word): stem(group.split()[0]) for group in LEXICON["synonyms"].split(",") for word in group.split()}


def concept(word: str) -> str:
    """The stem of a word, or the one that stands for all its synonyms."""
    return _SYNONYMS.get(stem(word), stem(word))


@lru_cache(maxsize=2048)
def concepts(text: str) -> tuple[str, ...]:
    """The concepts of a name or a description, without doubles; `snake_case`, `camelCase` and `dots` are split."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)
    return tuple(dict.fromkeys(concept(word) for word in PATTERNS["token"].findall(spaced) if word[0].isalnum()))


GENERIC = {*concepts(LEXICON["generic"]), *(stem(word) for word in STOP if stem(word) not in _SYNONYMS)}
"""The concepts that say too little to choose a tool or a parameter by."""
_UNITS = {concept(unit): concepts(hints) for units, hints in LEXICON["units"].items() for unit in units.split()}
_LEADS = {word: concepts(hints) for words, hints in LEXICON["leads"].items() for word in words.split()}


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A stretch of a text: a word or sign (its value is the concept), or a value of some kind and perhaps unit.

    `context` are the concepts near a value, and how much each says about it.
    """

    kind: str
    value: Any
    text: str
    start: int
    end: int
    unit: str = ""
    context: Mapping[str, float] = field(default_factory=dict)

    def overlaps(self, other: "Span") -> bool:
        """Whether only one of the two can be taken; the rest of a text leaves the others theirs."""
        apart = "rest" in (self.kind, other.kind) or self.end <= other.start or other.end <= self.start
        return self is other or not apart


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A text with its words and signs, and its values and phrases, in order."""

    text: str
    words: Sequence[Span]
    values: Sequence[Span] = ()

    def said(self, start: int, end: int) -> Sequence[Span]:
        """The words of a stretch of the text."""
        first, last = (bisect_left(self.words, place, key=lambda word: word.start) for place in (start, end))
        return self.words[first:last]

    def concepts(self, start: int, end: int) -> set[str]:
        """The concepts of a stretch's words, numbers aside, the kinds of its values, and `ASKED` for a question."""
        said = self.said(start, end)
        asks = self.text.rstrip().endswith("?") and sum(word.text not in STOP for word in said) > 3
        kinds = {f"<{value.kind}>" for value in self.values if start <= value.start < end}
        return {word.value for word in said if word.text[0].isalpha()} | kinds | ({ASKED} if asks else set())

    def span(self, kind: str, start: int, end: int, context: Mapping[str, float] | None = None) -> Span:
        """A stretch of the text as a value."""
        return Span(kind, self.text[start:end], self.text[start:end], start, end, context=context or {})


def read_query(text: str, today: datetime.date) -> Query:
    """The words and values of `text`; "tomorrow" is counted from `today`."""
    text = text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0]
    words = [Span("word", concept(m[0]), m[0].lower(), *m.span()) for m in PATTERNS["token"].finditer(text)]
    query, found, barrier = Query(text, words), sorted(_values(text, today), key=_start)[:VALUES], 0
    values: list[Span] = []
    for value in sorted([*found, *_phrases(query, found)], key=_start):
        context = _context(value, query.said(barrier, value.start)[-9:], query.said(value.end, len(text))[:3])
        if values and in_one_list(values[-1], value, text):  # members share what is said of the first
            context = {**values[-1].context, **context}
        values.append(replace(value, context=context))
        barrier = barrier if value.kind == "phrase" else value.end
    return replace(query, values=values)


def in_one_list(one: Span, other: Span, text: str) -> bool:
    """Whether two values stand side by side, as in "1, 2 and 3"."""
    start, end = min(one.end, other.end), max(one.start, other.start)
    return one.kind == other.kind and 0 <= end - start < 15 and bool(PATTERNS["beside"].fullmatch(text, start, end))


def _start(value: Span) -> int:
    return value.start


def _phrases(query: Query, values: Sequence[Span]) -> Iterator[Span]:
    """The runs of words that are neither values nor function words."""
    taken = {place for value in values for place in range(value.start, value.end)}
    plain = {word for word in query.words if word.text.isalpha() and word.text not in STOP and word.start not in taken}
    for is_plain, (*words,) in groupby(query.words, plain.__contains__):
        if is_plain:
            yield query.span("phrase", words[0].start, words[-1].end)


def _context(value: Span, before: Sequence[Span], after: Sequence[Span]) -> dict[str, float]:
    """What the words before and after a value say about it: the nearer, the more."""
    units = [value.unit, *(word.text for word in after[:1])] if value.kind == "number" else []
    context = {hint: 0.6 for unit in units for hint in _UNITS.get(concept(unit), ())}
    before = list(takewhile(lambda word: word.text not in {*".?!;,", "and"}, reversed(before)))
    after = list(takewhile(lambda word: word.text not in STOP and word.text[0].isalnum(), after))
    leads = (_LEADS.get(f"{value.kind}_{word.text}", _LEADS.get(word.text, ())) for word in before)
    if hints := next(filter(None, leads), ()):
        context |= {"lead": 1.0, **dict.fromkeys(hints, 0.7)}
    for away, word in (*enumerate(before), *enumerate(after)):
        if word.text not in STOP:
            context[word.value] = max(context.get(word.value, 0), 1.1 / (1 + 0.25 * away))
    return context


def _values(text: str, today: datetime.date) -> Iterator[Span]:
    """The values of `text`; where two could stand, the more certain kind, which comes first in the lexicon, wins."""
    for kind, pattern in _WRITTEN:
        for match in list(pattern.finditer(text)):
            value = _READERS[kind](match, today) if kind in _READERS else match[match.lastindex or 0]
            if value is not None:
                unit = match.groupdict().get("unit") or match.groupdict().get("currency") or ""
                yield Span(kind, value, match[0], *match.span(), unit.strip())
                text = text[: match.start()] + "\0" * len(match[0]) + text[match.end() :]


def _pattern(pattern: str) -> str:
    """A pattern of the lexicon with its {pieces} filled in."""
    return re.sub(r"\{([a-z]+)\}", lambda m: _pattern(_PIECES[m[1]]), pattern)


_PIECES: dict[str, str] = {
    "command": "|".join(sorted(map(str.capitalize, COMMANDS))),
    "opening": "|".join(sorted(word.capitalize() for word in STOP if len(word) > 1)),
    "count": "|".join(LEXICON["counts"]),
    **LEXICON["pieces"],
}
_WRITTEN = [(kind, re.compile(_pattern(pattern))) for kind, pattern in LEXICON["values"]]
_MONTHS, _WEEKDAYS = _PIECES["months"].lower().split("|"), _PIECES["weekdays"].split("|")


def _literal(match: re.Match[str], _: datetime.date) -> Any:
    """What JSON or Python reads, else the parts of a bracket."""
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError):
            return read(match[0])
    return [part.strip(" '\"") for part in match[0][1:-1].split(",")] if match[0][0] == "[" else None


def _expression(match: re.Match[str], _: datetime.date) -> str | None:
    """A formula has a number and an operator; "and/or" and "2024-25" are none."""
    is_formula = re.search(r"\d", match[0]) and re.search(r"[+*^(]|(?:%|percent) of |\s-\s|[\d)]/[\d(]", match[0])
    return match[0] if is_formula else None


def _date(match: re.Match[str], today: datetime.date) -> datetime.date | str:
    """The day, or the words themselves where they name no whole and real date."""
    said, (*before, word) = match.groupdict(), match[0].lower().split()
    ahead = {day: (n - today.weekday() - 1) % 7 + 1 - 7 * ("last" in before) for n, day in enumerate(_WEEKDAYS)}
    ahead |= {"today": 0, "tomorrow": 1, "yesterday": -1}
    if word in ahead:
        return today + datetime.timedelta(ahead[word])
    month = next((n for n, name in enumerate(_MONTHS, 1) if name[:3] == said["month"][:3].lower()), said["month"])
    try:
        return datetime.date(int(said["year"]), int(month), int(said["day"]))
    except (KeyError, TypeError, ValueError):
        return match[0]


def _time(match: re.Match[str], _: datetime.date) -> datetime.time | str:
    hour, minute, half = int(match["h"]), int(match["m"] or 0), (match["half"] or "").lower()[:1]
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    return datetime.time(hour, minute) if hour < 24 and minute < 60 else match[0]


def _number(match: re.Match[str], _: datetime.date) -> float:
    number: float = 0
    for word in re.findall(r"[\d.]+(?:e-?\d+)?|[a-z]+", match["number"].replace(",", "").lower()):
        if word in LEXICON["magnitudes"]:
            number = round(max(number, 1) * LEXICON["magnitudes"][word], 6)
        else:
            number += LEXICON["counts"].get(word, 0) if word.isalpha() else int(word) if word.isdigit() else float(word)
    return -number if match["sign"] else number


def _name(match: re.Match[str], _: datetime.date) -> str | None:
    """A capitalised span is a name, unless it is capitalised because it opens a sentence."""
    before, after = match.string[: match.start()].rstrip(" \"'(*-"), match.string[match.end() :]
    opens = not before or before[-1] in ".?!;:\n\0" or re.search(r"(?:^|\n)\s*\d+[.)]$", before)
    word = re.sub(r"\s\d+$", "", match[0].lower())
    plain = word in STOP or (opens and (word in COMMANDS or re.match(r"\s+[a-z]|,", after)))
    return None if plain and " " not in word else match[0]


_READERS: Mapping[str, Callable[[re.Match[str], datetime.date], Any]] = {
    "object": _literal, "array": _literal, "date": _date, "time": _time, "expression": _expression,
    "year": _number, "number": _number, "name": _name,
}  # fmt: skip
