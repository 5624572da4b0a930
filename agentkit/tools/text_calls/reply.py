"""Decide whether a reply consists of tool calls: a leading sentence is allowed, text after the calls is not."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..registry import ToolRegistry
from .call import TextCall
from .scanner import read_calls

MAX_LEAD_CHARS = 200
"""Characters of the text before a call."""
_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_OPENING = re.compile(r"<tool_calls?>|<function_calls?>|<function[=(]|<[|｜]|\[TOOL_CALLS?\]|```|<(?:antml:)?invoke\b")
_MAX_STARTS = 4
_QUOTING = re.compile(
    r"[\"“”«»`?]|\b(?:example|e\.g|instance|such as|like this|would|could|might|says?|said|states?|reads?|contain\w*"
    r"|quot\w+|returned|wrote|writ\w+|attack\w*|inject\w*|not|n't|never|ask\w*|tells?|told|claim\w*|format|syntax"
    r"|looks|documentation|docs|document|page|email|instruct\w*|ignor\w+|found|suspicious|malicious|avoid|refus\w+"
    r"|cannot|won't|don't|shows?|showed)\b",
    re.IGNORECASE,
)
"""Signs of a quotation.  To miss a call costs a turn; to run a quoted call may do harm."""


@dataclass(frozen=True, slots=True)
class TextCalls:
    """The calls of a text, and the sentence before them."""

    lead: str
    calls: list[TextCall]


def find_text_calls(text: str, tools: ToolRegistry) -> TextCalls | None:
    """Return the calls of known tools that make up `text`; None if it holds anything else.

    Thoughts in `<think>` tags are ignored.  Arguments are not validated.
    """
    text = strip_thoughts(text)
    if not text:
        return None
    for start in _iter_starts(text):
        lead = text[:start].strip()
        if (not lead or _is_lead(lead)) and (calls := read_calls(text[start:], tools)):
            return TextCalls(lead, calls)
    return None


def strip_thoughts(text: str) -> str:
    """Return the text without the `<think>` block at its start."""
    thought = _THOUGHT.match(text)
    return text[thought.end() if thought else 0 :].strip()


def _iter_starts(text: str) -> Iterator[int]:
    """Yield the places where the first call may start: the text, its first lines, the first opening mark."""
    yield 0
    places = {match.end() for match in re.finditer(r"\n\s*", text[: MAX_LEAD_CHARS + 20])}
    if opening := _OPENING.search(text, 0, MAX_LEAD_CHARS + 20):
        places.add(opening.start())
    yield from sorted(places)[:_MAX_STARTS]


def _is_lead(lead: str) -> bool:
    """Return whether a text leads to a call: at most two short sentences, without signs of a quotation."""
    if len(lead) > MAX_LEAD_CHARS or lead[-1] not in ".:!…。：！" or _QUOTING.search(lead):
        return False
    return len(re.findall(r"[.!:](?=\s|\Z)", lead)) <= 2
