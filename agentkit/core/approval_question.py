"""The question to a person about all calls of a turn that wait for a decision, and the reading of the answer."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .messages import ToolCall

Scope: TypeAlias = Literal["call", "values", "recipients"]
"""What a person allows: this call; also later calls of the tool with the same values, or to the same recipients."""


@dataclass(frozen=True, slots=True)
class UntrustedValue:
    """A value of a call that comes neither from the user nor from a trusted tool, or that its recipient may not read.

    `where` is its place in the arguments. `origin` is the tool whose result contains it, "" if the model wrote it, and
    `passage` the value in that result, with some characters around it. `is_destination` is set for a recipient, an
    address, a path or an account. `readers` are set if the call waits because only they may read the text that has the
    value.
    """

    where: str
    value: str | int | float
    origin: str = ""
    passage: str = ""
    is_destination: bool = False
    readers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that a person is asked about, why, and what was wrong with the arguments that the person gave last."""

    call: ToolCall
    reason: str = ""
    untrusted: tuple[UntrustedValue, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """The decision of a person about one call, and what it holds for."""

    decision: bool | str | dict[str, Any]
    scope: Scope = "call"


_NUMBERED = re.compile(r"(?P<numbers>\d{1,3}(?:[ ,]+\d{1,3})*)[ :]+(?P<words>\S.*)", re.DOTALL)


def make_question(pending: Sequence[PendingCall]) -> str:
    """Return the question that stands after the calls."""
    untrusted = [value for call in pending for value in call.untrusted]
    options = ["y", "n"]
    if untrusted:
        options.append("v (y, also for these values from now on)")
    if any(value.is_destination for value in untrusted):
        options.append("r (y, also for these recipients from now on)")
    if len(pending) == 1:
        return f'Allow it? {", ".join(options)}, a reason to refuse it, or other arguments as {{"...": ...}}: '
    return (
        f"Allow them? {', '.join(options)}, or a reason to refuse them; after their numbers for some of them, "
        '"1 3 y", and with other arguments, "2 {...}": '
    )


def read_answer(entry: str, pending: Sequence[PendingCall]) -> dict[int, PersonAnswer]:
    """Return the decisions of an answer by the calls' indices; raise `ValueError` if it cannot be read."""
    places, words = range(len(pending)), entry.strip()
    if len(pending) > 1 and (match := _NUMBERED.fullmatch(words)):
        numbers, words = {int(number) for number in re.findall(r"\d+", match["numbers"])}, match["words"]
        if not numbers <= {place + 1 for place in places}:
            raise ValueError(f"The calls have the numbers 1 to {len(pending)}.")
        chosen = sorted(number - 1 for number in numbers)
    else:
        chosen = list(places)
    return {place: _read_words(words, pending[place], is_alone=len(chosen) == 1) for place in chosen} if words else {}


def _read_words(words: str, pending: PendingCall, *, is_alone: bool) -> PersonAnswer:
    lower = words.lower()
    if lower in ("y", "yes"):
        return PersonAnswer(True)
    if lower in ("n", "no"):
        return PersonAnswer(False)
    if lower == "v" and pending.untrusted:
        return PersonAnswer(True, "values")
    if lower == "r" and any(value.is_destination for value in pending.untrusted):
        return PersonAnswer(True, "recipients")
    if not words.startswith("{"):
        if len(words) == 1:  # a typing error, not a reason
            raise ValueError(f"{words!r} is no answer to {pending.call.name}.")
        return PersonAnswer(words)
    if not is_alone:
        raise ValueError('Arguments are for one call: "2 {...}".')
    try:
        return PersonAnswer(dict(json.loads(words)))
    except ValueError as error:
        raise ValueError(f"That is no JSON object: {error}.") from None
