"""What is wrong with a request, and what all rules need to find it."""

import json
import re
from typing import Any

Json = dict[str, Any]


class Invalid(Exception):
    """A request that the provider refuses; `place` is the parameter that is at fault."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


def parse_body(data: bytes) -> Any:
    """The JSON value of a request's body; raises `Invalid` for what is no JSON (NaN) or no Unicode (half a pair)."""
    try:
        body = json.loads(data, parse_constant=_refuse)
        if b"\\ud" in data.lower():
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Invalid(f"We could not parse the JSON body of your request: {error}") from error
    return body


def is_object_text(text: str) -> bool:
    """Whether `text` is that of a JSON object."""
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def split_keys(words: str) -> set[str]:
    """The words of a text."""
    return set(words.split())


def matches(pattern: str, value: Any) -> bool:
    """Whether `value` is a text of that pattern."""
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def json_type(value: Any) -> str:
    """The JSON type of a value, as error messages call it."""
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return "null" if value is None else kinds[type(value)]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
