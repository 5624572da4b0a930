"""The exception for refused requests, and the helpers of all rules."""

import json
import re
from typing import Any

from ...core.portable import Json as Json

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The types of images that all providers take."""


class Invalid(Exception):
    """A request that the provider refuses; `place` is the path of the invalid parameter."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


def parse_body(data: bytes) -> Any:
    """Return the JSON value of a body; raise `Invalid` for invalid JSON (NaN) or Unicode (a lone surrogate)."""
    try:
        body = json.loads(data, parse_constant=_refuse)
        if b"\\ud" in data.lower():
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Invalid(f"We could not parse the JSON body of your request: {error}") from error
    return body


def is_object_text(text: str) -> bool:
    """Return whether `text` is a JSON object."""
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def split_keys(words: str) -> set[str]:
    """Return the words of a text."""
    return set(words.split())


def matches_whole(pattern: str, value: Any) -> bool:
    """Return whether `value` is a string that matches the whole pattern."""
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def read_data_type(text: Any) -> str | None:
    """Return the media type of a data URL, "" if it has none; None for another text, such as an address."""
    found = re.match(r"data:([^;,]*)", text) if isinstance(text, str) else None
    return found and found[1]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
