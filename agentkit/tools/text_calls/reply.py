"""Whether a reply is nothing but calls: a sentence that leads to them may stand before, nothing may stand after."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..registry import ToolRegistry
from .call import TextCall
from .scanner import read_calls

MAX_LEAD_CHARS = 200
"""Characters of the sentence before a call."""
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
"""Signs of a quotation rather than a call.  To leave a call alone costs a turn; to run a quotation may do harm."""


@dataclass(frozen=True, slots=True)
class TextCalls:
    """The calls that a text consists of, and the sentence before them."""

    lead: str
    calls: list[TextCall]


def find_text_calls(text: str, tools: ToolRegistry) -> TextCalls | None:
    """The calls of known tools that `text` is, as a whole; None if it is anything else.

    Thoughts in `<think>` tags do not count.  Whether the arguments are valid is not looked at here.
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
    """The text without the `<think>` block that it opens with."""
    thought = _THOUGHT.match(text)
    return text[thought.end() if thought else 0 :].strip()


def _iter_starts(text: str) -> Iterator[int]:
    """Where the first call may begin: at the very start, at one of the first lines, at the first opening mark."""
    yield 0
    places = {match.end() for match in re.finditer(r"\n\s*", text[: MAX_LEAD_CHARS + 20])}
    if opening := _OPENING.search(text, 0, MAX_LEAD_CHARS + 20):
        places.add(opening.start())
    yield from sorted(places)[:_MAX_STARTS]


def _is_lead(lead: str) -> bool:
    """Whether a text leads to a call: one or two short sentences, with no sign that they lead to a quotation."""
    if len(lead) > MAX_LEAD_CHARS or lead[-1] not in ".:!…。：！" or _QUOTING.search(lead):
        return False
    return len(re.findall(r"[.!:](?=\s|\Z)", lead)) <= 2
