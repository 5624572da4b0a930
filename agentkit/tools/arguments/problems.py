"""What validation found wrong with arguments, each finding with the place it is about."""

from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ...schemas import JsonSchema
from .json_reader import Unreadable
from .json_text import Path
from .problem import Finding


def findings(error: ValueError, given: Any, parameters: JsonSchema) -> list[Finding]:
    """What `error`, raised by the validation of `given`, says, each place once for each of its messages.

    Raises `Unreadable` for arguments that are nested more deeply than pydantic goes.
    """
    if isinstance(error, ValidationError):
        details = error.errors(include_url=False)
        if details[0]["type"] == "json_invalid":  # it was read before: what is left is the depth
            raise Unreadable("nested too deeply")
        return list(dict.fromkeys(_finding(detail, given) for detail in details))
    from .schema_errors import mismatches  # imports jsonschema

    return mismatches(given, parameters)


def _finding(detail: ErrorDetails, given: Any) -> Finding:
    kind, message = detail["type"], detail["msg"]
    path, holder = followed(detail["loc"], given)
    last = detail["loc"][-1] if detail["loc"] else ""
    if kind == "missing" or kind.startswith("missing_"):
        return Finding((*path, last), "missing")
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        return Finding(path, "unknown")
    discriminator = str(detail.get("ctx", {}).get("discriminator", "")).strip("'")
    if kind == "union_tag_invalid" and isinstance(holder, dict) and discriminator in holder:
        return Finding((*path, discriminator), "value", message)
    if kind == "union_tag_not_found":
        return Finding((*path, discriminator), "missing")
    return Finding(path, "value", message)


def followed(location: tuple[int | str, ...], given: Any) -> tuple[Path, Any]:
    """The path of a location of pydantic's, and the value there; names of union members and functions are no steps."""
    path: list[int | str] = []
    node = given
    for step in location:
        is_key = step in node if isinstance(node, dict) else False
        is_place = isinstance(node, list) and isinstance(step, int) and step < len(node)
        if is_key or is_place:
            path.append(step)
            node = node[step]
    return tuple(path), node


def value_at(given: Any, path: Path) -> Any:
    """What stands at `path`; None if nothing does."""
    return followed(path, given)[1] if followed(path, given)[0] == path else None
