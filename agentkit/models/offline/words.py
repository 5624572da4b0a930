"""Read a text: its words in comparable form, and its values with their context.

Words are compared by their *concept*: their stem, or the stem that represents a group of synonyms. A *value* is a
number, date, name, quotation, link or the like with its position in the text; a *phrase* is a run of other words. The
knowledge of English is in `lexicon.toml`: its table `values` has the patterns of values, and `_PARSERS` convert them.
"""

import datetime
import re
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.resources import files
from itertools import dropwhile, takewhile
from operator import attrgetter
from typing import Any, NamedTuple

from ...tools.arguments.json_text import parse_lenient

LEXICON: dict[str, Any] = tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text(encoding="utf-8"))
PATTERNS = {name: re.compile(pattern) for name, pattern in LEXICON["patterns"].items()}
DENIALS = frozenset(LEXICON["denials"].split())
NEGATIONS = DENIALS.difference(LEXICON["contrasts"].split()).union(LEXICON["negations"].split())
CONDITION_WORDS = frozenset(LEXICON["conditions"].split())
MANNERS = frozenset(LEXICON["manners"].split())
QUANTITIES = frozenset(LEXICON["quantities"].split())
EXCLUSIONS = frozenset(LEXICON["exclusions"].split())
MODIFIERS = frozenset(LEXICON["modifiers"].split())
CALLING = frozenset(LEXICON["calling"].split())
REQUESTS = frozenset(LEXICON["requests"].split())
BOUNDS = frozenset(LEXICON["bounds"].split())
SUBJECTS = frozenset(LEXICON["subjects"].split())
STOP = DENIALS.union(CONDITION_WORDS, QUANTITIES, LEXICON["stop"].split())
MAX_QUERY_CHARS = 1000
MAX_QUERY_VALUES = 60
"""Limits of what is read: the request of a long text is at its start."""


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Return the part of a word that its inflections share: `calculate` and `calculators` become `calcul`."""
    return re.sub(r"([^aeiou])\1$", r"\1", PATTERNS["ending"].sub("", word.lower()))[:6]


_GROUPS = [group.split() for group in LEXICON["synonyms"].split(",")]
_SYNONYMS = {key: stem(group[0]) for group in _GROUPS for word in group for key in (stem(word), word)}


def to_concept(word: str) -> str:
    """Return the stem of a word, or its synonyms' stem; the word itself if its stem is a stop word."""
    word, cut = word.lower(), stem(word)
    return _SYNONYMS.get(word) or _SYNONYMS.get(cut) or (cut if STOP.isdisjoint((word, cut)) else word)


@lru_cache(maxsize=2048)
def to_concepts(text: str) -> tuple[str, ...]:
    """Return the distinct concepts of a name or description; `snake_case`, `camelCase` and `dots` are split."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z]{2})|(?<=[a-z0-9]{2})(?=[A-Z])|_", " ", text)
    return tuple(dict.fromkeys(to_concept(word) for word in PATTERNS["token"].findall(spaced) if word[0].isalnum()))


GENERIC = {word for word in STOP if to_concept(word) == word}
"""Concepts too general to choose a tool or a parameter by."""
SHARES = frozenset(to_concepts(LEXICON["shares"]))
SETTERS = frozenset(to_concepts(LEXICON["setters"]))
CHANGES = frozenset(to_concepts(LEXICON["changes"]))
IDENTIFIERS = frozenset(to_concepts(LEXICON["identifiers"]))
MOVERS = frozenset(to_concepts(LEXICON["movers"]))
CHANGERS = frozenset(to_concepts(LEXICON["changers"]))
_COUNT_HINTS = to_concepts("quantity count number limit")  # implied by a word after a number
PREPOSITIONS = frozenset(LEXICON["prepositions"].split())
OPERATORS = frozenset(sign for signs in LEXICON["operators"].values() for sign in signs.split())
LEADS = {word: ("<lead>", *to_concepts(hints)) for words, hints in LEXICON["leads"].items() for word in words.split()}


class TextSpan(NamedTuple):
    """A span of a text: a word or sign, whose value is the concept, or a value of some kind.

    `context` maps the concepts near a value to their weights.
    """

    kind: str
    value: Any
    text: str
    start: int
    end: int
    context: Mapping[str, float] = {}


_CLOSING_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "„": "“"}
LITERAL_KINDS = frozenset({"quoted", "code", "version", "path", "url", "email"})
START = TextSpan("", "", "", 0, 0)


_START = attrgetter("start")


class Query(NamedTuple):
    """A text with its words and signs, and its values and phrases, in order."""

    text: str
    words: Sequence[TextSpan]
    values: Sequence[TextSpan] = ()

    def words_in(self, start: int, end: int) -> Sequence[TextSpan]:
        """Return the words of a span of the text."""
        first = bisect_left(self.words, start, key=_START)
        return self.words[first : bisect_left(self.words, end, first, key=_START)]

    def concepts_in(self, start: int, end: int) -> set[str]:
        """Return the concepts of a span's words, without those of literal values, and the `<kinds>` of its values."""
        values = [value for value in self.values if start <= value.start < end]
        literal = {n for value in values if value.kind in LITERAL_KINDS for n in range(value.start, value.end)}
        words = {
            word.value for word in self.words_in(start, end) if word.text[0].isalpha() and word.start not in literal
        }
        signs = {sign for value in values if value.kind == "expression" for sign in value.text if not sign.isalnum()}
        return words.union(signs, (f"<{value.kind}>" for value in values))

    def widen(self, start: int, end: int) -> tuple[int, int]:
        """Return the span extended to whole words with hyphens or underscores, such as `payment-api`."""
        while start and (self.text[start - 1].isalnum() or self.text[start - 1] in "-_"):
            start -= 1
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] in "-_"):
            end += 1
        return start, end

    def find_denial(self, start: int, denials: Container[str], between: Container[str] = ()) -> int | None:
        """Return where a word of `denials` begins that denies what begins at `start`; None if there is no such word.

        Only words without content, or with a concept of `between`, may stand in between.
        """
        for at in range(bisect_left(self.words, start, key=_START) - 1, -1, -1):
            word = self.words[at]
            if word.text in denials:
                return int(word.start)
            if word.text not in STOP and word.value not in between and word.text not in _CLOSING_QUOTES:
                return None
        return None

    def read_operands(self, value: TextSpan) -> list[TextSpan]:
        """Return the numbers of an arithmetic expression of one operation, in order; [] for any other expression.

        The first number of "15% of 80" has the context of a percentage.
        """
        numbers = [*PATTERNS["operand"].finditer(value.text)]
        sign = PATTERNS["operand"].sub("", value.text).strip()
        is_share = sign in ("% of", "percent of")
        if len(numbers) != 2 or not (is_share or len(sign.split()) == 1):
            return []
        contexts = [dict.fromkeys(to_concepts("percent"), 1.1) if is_share else {}, {}]
        return [
            self.make_span("number", value.start + each.start(), value.start + each.end(), context)._replace(
                value=_parse_number(each, datetime.date.min)
            )
            for each, context in zip(numbers, contexts, strict=True)
        ]

    def make_span(self, kind: str, start: int, end: int, context: Mapping[str, float] | None = None) -> TextSpan:
        """Return a span of the text as a value."""
        return TextSpan(kind, self.text[start:end], self.text[start:end], start, end, context=context or {})


@lru_cache(maxsize=64)
def parse_query(text: str, today: datetime.date) -> Query:
    """Return the words and values of `text`; "tomorrow" is relative to `today`."""
    text = strip_quotes(text[:MAX_QUERY_CHARS])
    words = [TextSpan("word", to_concept(m[0]), m[0].lower(), *m.span()) for m in PATTERNS["token"].finditer(text)]
    query = Query(text, words)
    values = list[TextSpan]()
    last = START
    for value in sorted(_find_values(text, today), key=lambda value: value.start)[:MAX_QUERY_VALUES]:
        value = add_context(value, query, last)
        if values and is_listed_with(values[-1], value, text):  # members of a list share the context of the first
            value = value._replace(context={**values[-1].context, **value.context})
        values.append(value)
        last = last if value.kind in ("name", "phrase") else value
    return query._replace(values=values)


def strip_quotes(text: str) -> str:
    """Return the text without quotes that enclose the whole text."""
    bare = text.strip()
    closing = _CLOSING_QUOTES.get(bare[:1])
    is_quoted = closing and len(bare) > 2 and bare.endswith(closing) and not {bare[0], closing} & {*bare[1:-1]}
    return bare[1:-1] if is_quoted else text


def is_listed_with(one: TextSpan, other: TextSpan, text: str) -> bool:
    """Return whether two values are neighbours in a list, as in "1, 2 and 3", but not in "from 1 to 2"."""
    one, other = sorted((one, other), key=lambda value: value.start)
    is_alike = one.kind == other.kind or {one.kind, other.kind} == {"code", "version"}
    is_near = is_alike and 0 <= other.start - one.end < 15 and not is_change(one, other, text)
    is_beside = is_near and bool(PATTERNS["beside"].fullmatch(text, one.end, other.start))
    is_range = text[one.end : other.start].strip() in ("to", "by", "x")
    return is_beside and not (is_range and one.kind in ("phrase", "name", "path"))


def is_change(one: TextSpan, other: TextSpan, text: str) -> bool:
    """Return whether two values are a start and an end: "from 3 to 5"."""
    is_from = text[: one.start].rstrip("\"'“‘` ").lower().endswith("from")
    return is_from and one.kind == other.kind and text[one.end : other.start].strip("\"'”’` ").lower() == "to"


def add_context(value: TextSpan, query: Query, last: TextSpan = START) -> TextSpan:
    """Return the value with the concepts of the words before it (back to the `last` value), in it and after it."""
    inside = query.words_in(value.start, value.end)
    between = query.words_in(last.end, value.start)
    is_unit = last.kind == "number" and len(between) > 1 and between[0].text not in STOP  # it belongs to the last value
    before = list(takewhile(lambda word: word.text not in {*".?!;,", "and"}, between[is_unit:][:-10:-1]))
    after = list(
        takewhile(lambda w: w.text not in STOP and w.text[0].isalnum(), query.words_in(value.end, MAX_QUERY_CHARS)[:3])
    )
    heads = ("from" if word.text[0].isdigit() else word.text for word in before)
    leads = (LEADS.get(f"{value.kind}_{head}", LEADS.get(head, ())) for head in heads)
    head = next((word.text for word in before if word.text in PREPOSITIONS or word.text not in STOP), "")
    near = dict.fromkeys(_COUNT_HINTS, 0.6) if value.kind == "number" and after else {}
    near |= dict.fromkeys(next(filter(None, leads), ()), 0.7)
    beside = {word.text for word in (*before[:1], *query.words_in(value.end, MAX_QUERY_CHARS)[:1])}
    if OPERATORS.isdisjoint(beside):
        near[f"~{head}" if head in PREPOSITIONS else "~"] = 1.0
    named = inside if value.kind in ("name", "phrase") else ()
    behind = 1.1 if value.kind == "number" else 0.8  # a unit is behind its number, any other word before its value
    is_owner = value.kind in LITERAL_KINDS and any(word.text == "of" for word in before[:2])  # "the *price* of A-1"
    for words, weight in ((before, 0.5 if is_owner else 1.1), (named, 1.1), (after, behind)):
        for away, word in enumerate(word for word in words if word.text not in STOP):
            near[word.value] = max(near.get(word.value, 0), weight / (1 + 0.25 * away))
    return value._replace(context=near)


def _find_values(text: str, today: datetime.date) -> Iterator[TextSpan]:
    """Yield the values of `text`; of overlapping ones the more certain kind, which is first in the lexicon."""
    for kind, pattern, proof in _value_patterns():
        for match in pattern.finditer(text):
            with suppress(ValueError):  # it only looks like such a value
                value = _PARSERS[kind](match, today) if kind in _PARSERS else match[match.lastindex or 0]
                written = value if isinstance(value, str) and match[0].endswith(value) else match[0]
                start = match.end() - len(written)
                end = match.end()
                if kind == "name" and written.endswith(("'s", "’s")) and _OWNED.match(text, end):  # "Tom's phone"
                    end -= 2
                    value = text[start:end]
                if re.search(proof, match.string[start:end]):
                    yield TextSpan(kind, value, match.string[start:end], start, end)
                    text = text[:start] + "\0" * (end - start) + text[end:]


_OWNED = re.compile(rf"(?i) (?!(?:{'|'.join(STOP)})\b)")
"""What is behind the owner of a thing: a word with content."""


@cache
def _value_patterns() -> list[tuple[str, re.Pattern[str], str]]:
    """Return the kinds of values, their patterns and what must be in them; compiled when the first text is read."""
    return [(kind, re.compile(_expand_pattern(pattern)), "".join(proof)) for kind, pattern, *proof in LEXICON["values"]]


def _expand_pattern(pattern: str) -> str:
    """Return a pattern of the lexicon with its {pieces} inserted."""
    return re.sub(r"\{([a-z]+)\}", lambda m: _expand_pattern(_PIECES[m[1]]), pattern)


_PIECES: dict[str, str] = {"count": "|".join(LEXICON["counts"]), "stop": "|".join(STOP), **LEXICON["pieces"]}
_MONTHS = _PIECES["months"].lower().split("|")
_WEEKDAYS = _PIECES["weekdays"].split("|")


def _parse_date(match: re.Match[str], today: datetime.date) -> datetime.date | str:
    """Return the day, or the words themselves if they name no single day."""
    fields = match.groupdict()
    (*before, word) = match[0].lower().split()
    ahead = {day: (n - today.weekday() - 1) % 7 + 1 - 7 * ("last" in before) for n, day in enumerate(_WEEKDAYS)}
    ahead |= {"today": 0, "tomorrow": 1, "yesterday": -1}
    if word in ahead:
        return today + datetime.timedelta(ahead[word])
    if not (fields.get("day") and fields["year"]):
        return match[0]
    month = next((n for n, name in enumerate(_MONTHS, 1) if name[:3] == fields["month"][:3].lower()), fields["month"])
    return datetime.date(int(fields["year"]), int(month), int(fields["day"]))


def _parse_time(match: re.Match[str], _: datetime.date) -> datetime.time:
    hour = int(match["h"])
    half = (match["half"] or "").lower()[:1]
    return datetime.time(hour % 12 + 12 * (half == "p") if half else hour, int(match["m"] or 0))


def _parse_number(match: re.Match[str], _: datetime.date) -> float:
    number = 0.0
    for word in re.findall(r"-?[\d.]+(?:e-?\d+)?|[a-z]+", match["number"].replace(",", "").lower()):
        times = LEXICON["magnitudes"].get(word)
        number = round((number or 1.0) * times, 6) if times else number + float(LEXICON["counts"].get(word, word))
    return int(number) if number.is_integer() else number


def opens_request(text: str, start: int) -> bool:
    """Return whether a sentence or request begins at `start`."""
    return PATTERNS["opening"].search(text, max(0, start - 20), start) is not None


def _parse_name(match: re.Match[str], _: datetime.date) -> str:
    """Return a name or phrase without leading stop words, and without the verb that opens a request: "*Open* the"."""
    words = match[0].split(" ")
    text = match.string
    start = match.start()
    is_verb = opens_request(text, start) and PATTERNS["verb"].match(text, start)
    if is_verb and (len(words) == 1 or (words[0].istitle() and words[1] in STOP)):
        words = words[1:]
    return " ".join(dropwhile(lambda word: word.lower().strip(",") in STOP, words))


_PARSERS: dict[str, Callable[[re.Match[str], datetime.date], Any]] = dict.fromkeys(("year", "number"), _parse_number)
_PARSERS |= dict.fromkeys(("object", "array"), lambda match, _: parse_lenient(match[0]).value)
_PARSERS |= {"date": _parse_date, "time": _parse_time, "name": _parse_name, "phrase": _parse_name}
