"""A check of answers: figures and quotations must occur in the query or in a tool's result.

The claims of an answer that can be looked up are numbers, dates, times, addresses and quotations.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, TypeVar

from ..core.errors import ModelError, ToolError
from ..core.flow import Flow, ask
from ..core.messages import system, text_of, user
from ..core.portable import iterate_scalars
from ..core.values import frozen
from ..engine.model import AskModel, Model, Request
from ..tools.registry import ToolRegistry
from ..tools.results.jsonable import to_json_data
from .answer_checks import Material

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(?P<month>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_ISO = re.compile(r"(?<!\d)(?P<y>\d{4})[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})(?!\d)")
_SHORT = re.compile(r"(?<![\d.])(?P<a>\d{1,2})(?P<mark>[./-])(?P<b>\d{1,2})(?P=mark)(?P<y>\d{4})(?!\d)")
_WORDS = re.compile(
    rf"(?<!\w)(?:(?P<before>\d{{1,2}})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?)?{_MONTH}"
    r"(?:\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?(?![\d:]))?(?:,?\s+(?P<y>\d{4})(?!\d))?"
)
_TIME = re.compile(r"(?<![\d:])(?P<h>\d{1,2}):(?P<m>\d{2})(?::\d{2})?(?:\s?(?P<half>[AaPp])\.?[Mm]\b)?(?![\d:])")
_URL = re.compile(r"https?://[^\s\"'<>()\[\]{}|\\^`]+", re.IGNORECASE)
_QUOTATION = re.compile(r"\"([^\"\n]{3,300})\"|“([^“”\n]{3,300})[”“]|„([^„“”\n]{3,300})[“”]|«([^«»\n]{3,300})»")
_FACTORS = {
    "%": 0.01, "percent": 0.01, "per cent": 0.01, "k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6,
    "millions": 1e6, "bn": 1e9, "b": 1e9, "billion": 1e9, "billions": 1e9, "trillion": 1e12, "tn": 1e12, "km": 1e3,
    "kg": 1e3, "kw": 1e3, "kwh": 1e3, "kb": 1e3, "mb": 1e6, "mw": 1e6, "gb": 1e9, "gw": 1e9, "tb": 1e12, "cm": 1e-2,
    "mm": 1e-3, "ml": 1e-3, "ms": 1e-3, "mg": 1e-3,
}  # fmt: skip
_UNITS = "|".join(sorted(map(re.escape, _FACTORS), key=len, reverse=True))
_FIGURE = r"\d{1,3}(?:[,.'’\u00a0\u202f]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?"
_NUMBER = re.compile(
    rf"(?<![\w.,/])(?<![A-Za-z]-)(?P<figure>{_FIGURE})(?:e(?P<power>[+-]?\d{{1,3}}))?"
    rf"(?:\s?(?P<unit>{_UNITS})(?!\w)|(?:st|nd|rd|th|x|[A-Za-z°]{{1,3}})?(?!\w))",
    re.IGNORECASE,
)
_ANY_NUMBER = re.compile(r"(\d[\d.,'’\u00a0\u202f]*)(?:\s?(%|[A-Za-z]{1,9}\b))?")
_MARKED = re.compile(r"(?<!\d)\d++(?:[-/.]\d+[-/.]\d+|:\d+(?::\d+)?(?:\s?[AaPp]\.?[Mm]\b)?)")
_NEAR = re.compile(r"[JFMASOND](?:an|eb|ar|pr|ay|un|ul|ug|ep|ct|ov|ec)")
_SMALL = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_SMALL_WORD = re.compile(rf"[ZOTFSENzotfsen](?:{'|'.join(word[1:] for word in _SMALL)})\b")
_DIGITS = re.compile(r"\d(?:[\d.,'’\u00a0\u202f -]*\d)?")
_LISTED = re.compile(r"^[ \t]*(?:[-*][ \t]+)?\d{1,3}[.)](?=\s)", re.MULTILINE)

MAX_EXACT_DIGITS = 15
"""Digits of a number that floating point can hold."""
MAX_GROUPS = 12
"""Groups of digits that one integer may be written in."""
Date = tuple[int | None, int, int | None]
"""Year, month, day; None where the text does not name it."""


@frozen
class Claim:
    """A piece of a text that can be looked up, with its possible meanings; only the fields of its kind are set."""

    text: str
    kind: str
    dates: tuple[Date, ...] = ()
    minutes: tuple[int, ...] = ()
    digits: str = ""
    """The digits of an integer that is too long for a number in floating point: an id, which must be the same."""
    values: tuple[tuple[float, float], ...] = ()
    """The possible values of a number, each with the largest rounding error."""


def extract_claims(text: str) -> list[Claim]:
    """Return the claims of a text, each once; the figures of a date, a time or an address are not numbers."""
    found = [Claim(match[0].rstrip(".,;:!?*"), "address") for match in _URL.finditer(text)]
    text = _URL.sub(" ", text)
    found += (Claim(next(filter(None, match.groups())), "quotation") for match in _QUOTATION.finditer(text))
    for form in (_ISO, _SHORT, _WORDS):
        for match in form.finditer(text):
            if dates := _dates(match):
                found.append(Claim(match[0].strip(), "date", dates=dates))
        text = form.sub(lambda match: " " if _dates(match) else match[0], text)
    found += (Claim(match[0].strip(), "time", minutes=_minutes(match)) for match in _TIME.finditer(text))
    text = _LISTED.sub(" ", _TIME.sub(" ", text))
    found += map(_number, _NUMBER.finditer(text))
    return list({claim.text: claim for claim in found}.values())


def find_digits(text: str) -> set[str]:
    """Return the long integers of a text as digits: each group of digits, and groups that are separated by a mark."""
    found = set()
    for run in _DIGITS.findall(text):
        groups = re.findall(r"\d+", run) if len(run) > MAX_EXACT_DIGITS else []
        for start in range(len(groups)):
            for end in range(start + 1, min(start + MAX_GROUPS, len(groups)) + 1):
                found.add("".join(groups[start:end]).lstrip("0"))
    return found


def normalize_address(url: str) -> str:
    """Return a web address without its scheme, `www.`, and a last slash or punctuation mark, in lower case."""
    return re.sub(r"^https?://(?:www\.)?", "", url.lower().rstrip(".,;:!?*/"))


def read_figure(figure: str) -> Iterator[tuple[float, int]]:
    """Yield the possible values of a figure, each with its number of decimals: `1,234` is 1234 or 1.234."""
    figure = figure.replace("\u00a0", " ").replace("\u202f", " ").replace("’", "'")
    marks = [mark for mark in figure if not mark.isdigit()]
    last = figure.rpartition(marks[-1])[2] if marks else ""
    is_grouped = bool(marks) and len(last) == 3 and figure[0] != "0" and len(figure.split(marks[0])[0]) <= 3
    if not marks or (is_grouped and len(set(marks)) == 1):
        yield float(re.sub(r"\D", "", figure)), 0
    if marks and marks[-1] in ".," and marks.count(marks[-1]) == 1:
        whole = re.sub(r"\D", "", figure[: -len(last) - 1])
        yield float(f"{whole}.{last}"), len(last)


def find_numbers(text: str) -> list[float]:
    """Return the possible values of the figures of a text, sorted."""
    values: set[float] = set()
    for figure, unit in set(_ANY_NUMBER.findall(text)):
        try:
            meant = [float(figure)]
        except ValueError:
            meant = []
        if not meant or (len(figure) > 4 and figure[-4] == "."):
            meant += [value for value, _ in read_figure(figure.rstrip(".,'’\u00a0\u202f"))]
        if not meant:  # several numbers, such as those of a date
            meant = [float(part) for part in re.findall(r"\d+", figure)]
        values.update(meant)
        if unit and (factor := _FACTORS.get(unit.lower())):
            values.update(value * factor for value in meant)
    return sorted(values)


def find_small_numbers(text: str) -> set[float]:
    """Return the numbers up to twelve that a text contains as words."""
    words = (match[0] for match in _SMALL_WORD.finditer(text) if not text[match.start() - 1 : match.start()].isalpha())
    return {float(_SMALL.index(word)) for word in map(str.lower, words) if word in _SMALL}


def _dates(match: re.Match[str]) -> tuple[Date, ...]:
    parts = match.groupdict()
    year = int(parts["y"]) if parts.get("y") else None
    if "month" in parts:
        day = parts["before"] or parts["after"]
        month = _MONTHS.index(parts["month"][:3].lower()) + 1
        return ((year, month, int(day) if day else None),) if day or year else ()
    if "a" in parts:
        one = int(parts["a"])
        other = int(parts["b"])
        return tuple((year, month, day) for day, month in {(one, other), (other, one)} if month <= 12 and day <= 31)
    month = int(parts["m"])
    day_of_month = int(parts["d"])
    return ((year, month, day_of_month),) if 1 <= month <= 12 and day_of_month <= 31 else ()


def _minutes(match: re.Match[str]) -> tuple[int, ...]:
    hour = int(match["h"])
    minute = int(match["m"])
    if match["half"]:
        return ((hour % 12 + (12 if match["half"] in "pP" else 0)) * 60 + minute,)
    return (hour * 60 + minute, (hour + 12) * 60 + minute) if hour < 12 else (hour * 60 + minute,)


def _number(match: re.Match[str]) -> Claim:
    digits = re.sub(r"\D", "", match["figure"]).lstrip("0")
    is_integer = not match["power"] and any(not decimals for _, decimals in read_figure(match["figure"]))
    if len(digits.rstrip("0")) > MAX_EXACT_DIGITS and is_integer:
        return Claim(match[0].strip(), "digits", digits=digits)
    return Claim(match[0].strip(), "number", values=tuple(_values(match)))


def _values(match: re.Match[str]) -> Iterator[tuple[float, float]]:
    power = float(f"1e{match['power'] or 0}")
    factor = _FACTORS.get((match["unit"] or "").lower(), 1.0)
    for value, decimals in read_figure(match["figure"]):
        rounding = float(f"5e-{decimals + 1}")
        is_year = value.is_integer() and 1900 <= value <= 2100 and factor == 1
        digits = re.sub(r"\D", "", match["figure"])
        if not decimals and not is_year and (zeros := len(digits) - len(digits.rstrip("0"))):
            rounding = max(rounding, min(float(f"5e{zeros - 1}"), 0.025 * value))
        for scale in {1.0, factor}:
            yield value * power * scale, rounding * power * scale


T = TypeVar("T")
_WORD = re.compile(r"[^\W_]+")
_GAP = r"(?:[\W_]|\\[nrt])+"
MAX_LISTED_CLAIMS = 10
"""Unsupported claims that the message to the model lists."""


@frozen
class Evidence:
    """The check that `evidence` returns."""

    refusals: int = 1

    def __call__(self, answer: Any, material: Material) -> None:
        """Raise `ToolError` with the claims of `answer` that have no support."""
        if not (missing := find_unsupported(answer, material.text)):
            return
        shown = "; ".join(f"{claim.text} ({claim.kind})" for claim in missing[:MAX_LISTED_CLAIMS])
        more = f"; and {len(missing) - MAX_LISTED_CLAIMS} more" if len(missing) > MAX_LISTED_CLAIMS else ""
        raise ToolError(
            f"The answer was not accepted: neither the query nor a tool's result says {shown}{more}. Correct it or "
            "leave it out, or call the tool that tells it; then give the answer again."
        )


def evidence(*, refusals: int = 1) -> Evidence:
    """Return a check that numbers, dates, times, web addresses and quotations of an answer occur in its sources.

    The sources are the instruction, the query and the tools' results.  Rounded numbers, unit words, thousands
    separators, percentages and other forms of a date are equal.

    Args:
        refusals: How often the check sends an answer back.
    """
    return Evidence(refusals)


def find_unsupported(answer: Any, source: str) -> list[Claim]:
    """Return the claims of an answer (a text, or data with texts and numbers) that `source` does not contain."""
    values = (value for value in iterate_scalars(to_json_data(answer)) if not isinstance(value, bool | None))
    claims = extract_claims("\n".join(map(str, values)))
    found = _Source(source)
    return [claim for claim in claims if not found.supports(claim)]


_CAPITALIZED = re.compile(r"\b(?:[^\W\d_a-z]|\w*\d)[\w'-]*")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n])[\s*\"'(-]*\Z")
_FIRST = """
    a agreed all also an and answer answered asked assistant at both but called checked chose chosen confirmed
    created decided decision done each facts finally for found from goal he her his how i if in is it its last
    later looked made my next no not of on one open other our owner part progress read reported request requested
    result results said searched sent she so some still summary task that the their then there these they this to
    tool tools two user users wanted wants was we were what when where which who why will with wrote yes you your
"""
_FIRST_WORDS = frozenset(_FIRST.split())
"""Words with which a sentence may begin that are no names."""


def find_unsupported_names(answer: str, source: str) -> list[str]:
    """Return the words of an answer that begin with a capital letter or hold a digit, and that `source` does not have.

    The first word of a sentence is left out if it is a usual one.
    """
    known = {word.lower() for word in _WORD.findall(source)}
    found = []
    for match in _CAPITALIZED.finditer(answer):
        parts = [part.lower() for part in _WORD.findall(match[0])]
        is_first = _SENTENCE_START.search(answer, 0, match.start()) is not None
        if not known.issuperset(parts) and not (is_first and parts[-1] in _FIRST_WORDS):
            found.append(match[0])
    return list(dict.fromkeys(found))


def keep_supported_lines(text: str, source: str) -> str:
    """Return a text without the lines that have a figure, a quotation or a name that `source` does not contain."""
    wrong = [*find_unsupported_names(text, source), *(claim.text for claim in find_unsupported(text, source))]
    lines = [line for line in text.splitlines() if line.strip() and not any(each in line for each in wrong)]
    return "\n".join(lines)


SUMMARY = (
    "Write down what the model needs of this part of a conversation to continue it: what the user wants, what was "
    "found and decided, what is open. One fact a line, at most 20 lines. Copy names and numbers as they are."
)
MAX_SUMMARY_CHARS = 4_000


def summarize(model: Model, asked: str, source: str) -> Flow[str]:
    """Return the summary of a part of a conversation, without lines that `source` does not support.

    It is "" if the model fails.
    """
    try:
        reply = yield from ask(AskModel(model, Request([system(SUMMARY), user(asked)], ToolRegistry())))
    except ModelError:
        return ""
    return keep_supported_lines(text_of(reply.message)[:MAX_SUMMARY_CHARS], source)


def _search(find: Callable[[str], T]) -> "cached_property[T]":
    return cached_property(lambda source: find(source._text))


class _Source:
    """A text and the figures in it; each kind is searched when the first claim of that kind is checked."""

    def __init__(self, text: str) -> None:
        self._text = text

    _numbers = _search(find_numbers)
    _digits = _search(find_digits)
    _small_numbers = _search(find_small_numbers)
    _lower = _search(str.lower)

    @cached_property
    def _addresses(self) -> set[str]:
        return {normalize_address(match[0]) for match in _URL.finditer(self._text)}

    @cached_property
    def _marked(self) -> str:
        """The pieces of a long text that may be dates in figures or times, once each.

        The patterns themselves would be tried at every letter; a pattern that begins with a digit is not.
        """
        return "\n".join(set(_MARKED.findall(self._text)))

    @cached_property
    def _dates(self) -> set[Date]:
        """The possible dates."""
        matches = [match for form in (_ISO, _SHORT) for match in form.finditer(self._marked)]
        for month in _NEAR.finditer(self._text):
            matches += _WORDS.finditer(self._text[max(0, month.start() - 10) : month.end() + 25])
        return {date for match in matches for date in _dates(match)}

    @cached_property
    def _minutes(self) -> set[int]:
        """The times of day, in minutes since midnight."""
        return {minutes for match in _TIME.finditer(self._marked) for minutes in _minutes(match)}

    def supports(self, claim: Claim) -> bool:
        """Return whether the text contains the claim."""
        match claim.kind:
            case "address":
                return normalize_address(claim.text) in self._addresses
            case "quotation":
                return all(self._quotes(piece) for piece in re.split(r"\.\.\.|…|\[\.\.\.\]", claim.text))
            case "date":
                return any(_dates_agree(date, other) for date in claim.dates for other in self._dates)
            case "digits":
                return claim.digits in self._digits
            case "time":
                return not self._minutes.isdisjoint(claim.minutes)
        if any(math.isinf(value) for value, _ in claim.values):
            return claim.text in self._text
        if any(self._has(value, rounding) for value, rounding in claim.values):
            return True
        return any(value in self._small_numbers for value, _ in claim.values)

    def _has(self, value: float, rounding: float) -> bool:
        reach = rounding * (1 + 1e-9) + 1e-14 * abs(value)
        place = bisect_left(self._numbers, value - reach)
        return place < len(self._numbers) and self._numbers[place] <= value + reach

    def _quotes(self, piece: str) -> bool:
        """Return whether the words of `piece` follow each other in the text, with any punctuation between them."""
        words = [re.escape(word) for word in _WORD.findall(piece.lower())]
        return not words or re.search(_GAP.join(words), self._lower) is not None


def _dates_agree(one: Date, other: Date) -> bool:
    return all(a == b for a, b in zip(one, other, strict=True) if a is not None and b is not None)
