"""The record of a repair."""

import json
from dataclasses import dataclass
from typing import Any

from .json_reader import SURROGATE

MAX_VALUE_CHARS = 200
"""Characters of a value in a repair record."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One mistake of the model that was repaired, with the text before and after, truncated.

    `path` is the place in the arguments ("order.items.0"; "" for all of them or for the tool's name).
    """

    path: str
    kind: str
    before: str
    after: str

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return " ".join(f"{place}{self.kind}: {self.before} -> {self.after}".splitlines())


def make_repair(path: tuple[int | str, ...], kind: str, before: Any, after: Any) -> Repair:
    """Return the record for values, which are written as JSON."""
    return Repair(".".join(map(str, path)), kind, format_value(before), format_value(after))


def format_value(value: Any, width: int = MAX_VALUE_CHARS) -> str:
    """Return the value as JSON, truncated to `width` characters and "..."."""
    return truncate(json.dumps(value, ensure_ascii=False, default=str), width)


def truncate(text: str, width: int = MAX_VALUE_CHARS) -> str:
    """Return the text truncated to `width` characters and "...", with lone surrogates as U+FFFD."""
    return SURROGATE.sub("\ufffd", text if len(text) <= width else f"{text[:width]}...")
