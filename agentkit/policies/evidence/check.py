"""A check of answers: figures and quotations must occur in the query or in a tool's result."""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from ...core.errors import ToolError
from ...tools.results.jsonable import to_json_data
from ..answer_checks import Material
from .claims import (
    Claim,
    Date,
    extract_claims,
    find_addresses,
    find_dated_pieces,
    find_dates,
    find_digits,
    find_minutes,
    find_numbers,
    find_small_numbers,
    normalize_address,
)

T = TypeVar("T")
_WORD = re.compile(r"[^\W_]+")
_GAP = r"(?:[\W_]|\\[nrt])+"
MAX_LISTED_CLAIMS = 10
"""Unsupported claims that the message to the model lists."""


@dataclass(frozen=True, slots=True)
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
    claims = extract_claims("\n".join(_texts(to_json_data(answer))))
    found = _Source(source)
    return [claim for claim in claims if not found.supports(claim)]


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        for entry in data:
            yield from _texts(entry)
    elif data is not None and not isinstance(data, bool):
        yield str(data)


def _search(find: Callable[[str], T]) -> "cached_property[T]":
    return cached_property(lambda source: find(source._text))


class _Source:
    """A text and the figures in it; each kind is searched when the first claim of that kind is checked."""

    def __init__(self, text: str) -> None:
        self._text = text

    _numbers = _search(find_numbers)
    _digits = _search(find_digits)
    _small_numbers = _search(find_small_numbers)
    _addresses = _search(find_addresses)
    _lower = _search(str.lower)
    _marked = _search(find_dated_pieces)

    @cached_property
    def _dates(self) -> set[Date]:
        return find_dates(self._text, self._marked)

    @cached_property
    def _minutes(self) -> set[int]:
        return find_minutes(self._marked)

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
