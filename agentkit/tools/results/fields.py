"""The values of some fields of a result."""

from collections.abc import Iterable, Iterator
from typing import Any

from .jsonable import to_json_data

MAX_VALUES = 1_000
MAX_VALUE_CHARS = 1_000
"""A longer text is no value that a call repeats."""


def find_values(value: Any, paths: Iterable[str]) -> tuple[str | int | float, ...]:
    """Return the texts and numbers in the fields at these paths, such as `sender.email`; lists are transparent.

    The path "" is the result itself, or each entry of a list.
    """
    data = to_json_data(value)
    found = (entry for path in paths for entry in _walk(data, path.split(".") if path else []))
    return tuple(dict.fromkeys(entry for entry, _ in zip(found, range(MAX_VALUES), strict=False)))


def _walk(data: Any, path: list[str]) -> Iterator[str | int | float]:
    if isinstance(data, list):
        for entry in data:
            yield from _walk(entry, path)
    elif path:
        if isinstance(data, dict) and path[0] in data:
            yield from _walk(data[path[0]], path[1:])
    elif (isinstance(data, int | float) and not isinstance(data, bool)) or (
        isinstance(data, str) and 0 < len(data) <= MAX_VALUE_CHARS
    ):
        yield data
