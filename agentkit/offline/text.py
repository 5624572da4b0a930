"""What a text says: its words, made comparable, and the values that it mentions, with what is said about each.

Words are compared by their *concept*: their stem, or the stem that stands for a group of synonyms.  A *value* is a
number, date, name, quotation, link or the like with its place in the text; a *phrase* is a run of other words.  All
that is known of English stands in `lexicon.toml`: how values are written is its table `values`, `_READERS` tells what
they mean.
"""

import datetime
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from itertools import dropwhile, takewhile
from typing import Any

from ..repairs import read

LEXICON: dict[str, Any] = tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text(encoding="utf-8"))
PATTERNS = {name: re.compile(pattern) for name, pattern in LEXICON["patterns"].items()}
STOP, COMMANDS = frozenset(LEXICON["stop"].split()), frozenset(LEXICON["commands"].split())
LONGEST, VALUES = 1000, 60  # characters and values: what a person asks stands at the head of a long text


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


# What says too little to choose a tool or a parameter by; what words before a value, and units, say about it.
GENERIC = {*concepts(LEXICON["generic"]), *(stem(word) for word in STOP if stem(word) not in _SYNONYMS)}
_LEADS = {word: ("<lead>", *concepts(hints)) for words, hints in LEXICON["leads"].items() for word in words.split()}
_UNITS = {concept(unit): concepts(hints) for units, hints in LEXICON["units"].items() for unit in units.split()}


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A stretch of a text: a word or sign (its value is the concept), or a value of some kind.

    `context` are the concepts near a value, and how much each says about it.
    """

    kind: str
    value: Any
    text: str
    start: int
    end: int
    context: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A text with its words and signs, and its values and phrases, in order."""

    text: str
    words: Sequence[Span]
    values: Sequence[Span] = ()

    def said(self, start: int, end: int) -> Sequence[Span]:
        """The words of a stretch of the text."""
        return [word for word in self.words if start <= word.start < end]

    def concepts(self, start: int, end: int) -> set[str]:
        """The concepts of a stretch's words, numbers aside, and the `<kinds>` of its values."""
        kinds = {f"<{value.kind}>" for value in self.values if start <= value.start < end}
        return kinds.union(word.value for word in self.said(start, end) if word.text[0].isalpha())

    def span(self, kind: str, start: int, end: int, context: Mapping[str, float] | None = None) -> Span:
        """A stretch of the text as a value."""
        return Span(kind, self.text[start:end], self.text[start:end], start, end, context=context or {})


@lru_cache(maxsize=64)
def read_query(text: str, today: datetime.date) -> Query:
    """The words and values of `text`; "tomorrow" is counted from `today`."""
    text = text[:LONGEST]
    words = [Span("word", concept(m[0]), m[0].lower(), *m.span()) for m in PATTERNS["token"].finditer(text)]
    query, values, barrier = Query(text, words), list[Span](), 0
    for value in sorted(_values(text, today), key=lambda value: value.start)[:VALUES]:
        context = _context(value, query, barrier)
        if values and in_one_list(values[-1], value, text):  # members share what is said of the first
            context = {**values[-1].context, **context}
        values.append(replace(value, context=context))
        barrier = barrier if value.kind == "phrase" else value.end
    return replace(query, values=values)


def in_one_list(one: Span, other: Span, text: str) -> bool:
    """Whether two values stand side by side, as in "1, 2 and 3"."""
    start, end = min(one.end, other.end), max(one.start, other.start)
    return one.kind == other.kind and 0 <= end - start < 15 and bool(PATTERNS["beside"].fullmatch(text, start, end))


def _context(value: Span, query: Query, barrier: int) -> dict[str, float]:
    """What the words before a value, back to the barrier, and after it say about it: the nearer, the more."""
    inside, after = query.said(value.start, value.end), query.said(value.end, len(query.text))[:3]
    units = (*inside, *after[:1]) if value.kind == "number" else ()
    before = list(takewhile(lambda word: word.text not in {*".?!;,", "and"}, query.said(barrier, value.start)[:-10:-1]))
    after = list(takewhile(lambda word: word.text not in STOP and word.text[0].isalnum(), after))
    leads = (_LEADS.get(f"{value.kind}_{word.text}", _LEADS.get(word.text, ())) for word in before)
    context = {hint: 0.6 for word in units for hint in _UNITS.get(word.value, ())}
    context |= dict.fromkeys(next(filter(None, leads), ()), 0.7)
    for away, word in (*enumerate(before), *enumerate(after)):
        if word.text not in STOP:
            context[word.value] = max(context.get(word.value, 0), 1.1 / (1 + 0.25 * away))
    return context


def _values(text: str, today: datetime.date) -> Iterator[Span]:
    """The values of `text`; where two could stand, the more certain kind, which comes first in the lexicon, wins."""
    for kind, pattern, proof in _WRITTEN:
        for match in pattern.finditer(text):
            with suppress(ValueError):  # what only looks like such a value
                value = _READERS[kind](match, today) if kind in _READERS else match[match.lastindex or 0]
                start, end = match.end() - len(value) if kind == "name" else match.start(), match.end()
                if re.search(proof, match.string[start:end]):
                    yield Span(kind, value, match.string[start:end], start, end)
                    text = text[:start] + "\0" * (end - start) + text[end:]


def _pattern(pattern: str) -> str:
    """A pattern of the lexicon with its {pieces} filled in."""
    return re.sub(r"\{([a-z]+)\}", lambda m: _pattern(_PIECES[m[1]]), pattern)


_PIECES: dict[str, str] = {"count": "|".join(LEXICON["counts"]), "stop": "|".join(STOP), **LEXICON["pieces"]}
_WRITTEN = [(kind, re.compile(_pattern(pattern)), "".join(proof)) for kind, pattern, *proof in LEXICON["values"]]
_MONTHS, _WEEKDAYS = _PIECES["months"].lower().split("|"), _PIECES["weekdays"].split("|")


def _date(match: re.Match[str], today: datetime.date) -> datetime.date | str:
    """The day, or the words themselves where they name no whole day."""
    said, (*before, word) = match.groupdict(), match[0].lower().split()
    ahead = {day: (n - today.weekday() - 1) % 7 + 1 - 7 * ("last" in before) for n, day in enumerate(_WEEKDAYS)}
    ahead |= {"today": 0, "tomorrow": 1, "yesterday": -1}
    if word in ahead:
        return today + datetime.timedelta(ahead[word])
    if not (said.get("day") and said["year"]):
        return match[0]
    month = next((n for n, name in enumerate(_MONTHS, 1) if name[:3] == said["month"][:3].lower()), said["month"])
    return datetime.date(int(said["year"]), int(month), int(said["day"]))


def _time(match: re.Match[str], _: datetime.date) -> datetime.time:
    hour, half = int(match["h"]), (match["half"] or "").lower()[:1]
    return datetime.time(hour % 12 + 12 * (half == "p") if half else hour, int(match["m"] or 0))


def _number(match: re.Match[str], _: datetime.date) -> float:
    number = 0.0
    for word in re.findall(r"[\d.]+(?:e-?\d+)?|[a-z]+", match["number"].replace(",", "").lower()):
        times = LEXICON["magnitudes"].get(word)
        number = round(max(number, 1.0) * times, 6) if times else number + float(LEXICON["counts"].get(word, word))
    number = -number if match["sign"] else number
    return int(number) if number.is_integer() else number


def _name(match: re.Match[str], _: datetime.date) -> str:
    """A capitalised span without the words that are capitalised only because they open a sentence or a request."""
    before = match.string[: match.start()].rstrip(" \"'(*-")
    opening = STOP | COMMANDS if not before or before[-1] in ".?!;:\n\0" else STOP
    return " ".join(dropwhile(lambda word: word.lower().strip(",") in opening, match[0].split(" ")))


_READERS: dict[str, Callable[[re.Match[str], datetime.date], Any]] = dict.fromkeys(("year", "number"), _number)
_READERS |= dict.fromkeys(("object", "array"), lambda match, _: read(match[0]).value)
_READERS |= {"date": _date, "time": _time, "name": _name}
