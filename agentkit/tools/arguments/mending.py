"""Arguments that failed validation -> the same with all fixes that are certain, if that makes them valid."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...schemas import JsonSchema
from .fixes import Fixer, fix
from .json_reader import Unreadable
from .problems import findings
from .repair import Repair
from .shapes import reshaped

ROUNDS = 10
"""How often the fixes are made and the result is validated: what was decoded may hold the next slip."""
LAYERS = 3
"""How many wrappings may lie around the arguments."""


@dataclass(frozen=True, slots=True)
class Mended:
    """Valid arguments, what validation made of them, and the receipts."""

    value: Any
    call: Callable[[], Any]
    repairs: tuple[Repair, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """What arguments are wanted for: the tool's name, their schema, and what validates them (raises `ValueError`)."""

    name: str
    parameters: JsonSchema
    validate: Callable[[Any], Callable[[], Any]]


def mended(given: dict[str, Any], target: Target, layers: int = LAYERS) -> Mended | None:
    """The arguments with their slips put right, in place or in another shape; None when that is not certain."""
    if done := mended_in_place(given, target, fix):
        return done
    found: dict[str, Mended] = {}
    for value, repair in reshaped(given, target.parameters, target.name) if layers else ():
        if done := mended(value, target, layers - 1):
            key = json.dumps(done.value, sort_keys=True, default=str)
            found.setdefault(key, replace(done, repairs=(repair, *done.repairs)))
    return next(iter(found.values())) if len(found) == 1 else None


def mended_in_place(given: dict[str, Any], target: Target, fixer: Fixer) -> Mended | None:
    """The arguments with what `fixer` does, in as many rounds as it takes; None when they do not become valid."""
    value = copied(given)
    repairs: list[Repair] = []
    for _ in range(ROUNDS):
        try:
            return Mended(value, target.validate(value), tuple(repairs))
        except Unreadable:
            return None
        except ValueError as error:
            made = fixer(value, findings(error, value, target.parameters), target.parameters)
        if not made:
            return None
        repairs += made
    return None


def copied(value: Any) -> Any:
    """The value in objects and arrays of its own; what is neither is shared."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value
