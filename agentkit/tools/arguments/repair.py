"""The receipt of a repair."""

import json
from dataclasses import dataclass
from typing import Any

from .json_reader import SURROGATE

MAX_VALUE_CHARS = 200
"""How many characters of a value a receipt holds."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One slip of the model that was put right.

    `path` leads to the place in the arguments ("order.items.0"; "" for the whole of them or the tool's name), `kind`
    says what was wrong there, `before` and `after` are what stood there and what stands there now, as text, cut.
    """

    path: str
    kind: str
    before: str
    after: str

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return " ".join(f"{place}{self.kind}: {self.before} -> {self.after}".splitlines())


def make_repair(path: tuple[int | str, ...], kind: str, before: Any, after: Any) -> Repair:
    """The receipt for values, which are shown as JSON."""
    return Repair(".".join(map(str, path)), kind, format_value(before), format_value(after))


def format_value(value: Any, width: int = MAX_VALUE_CHARS) -> str:
    """A value as JSON, in at most `width` characters and three dots."""
    return truncate(json.dumps(value, ensure_ascii=False, default=str), width)


def truncate(text: str, width: int = MAX_VALUE_CHARS) -> str:
    """The head of a text, in at most `width` characters and three dots; what is no character becomes U+FFFD."""
    return SURROGATE.sub("\ufffd", text if len(text) <= width else f"{text[:width]}...")
