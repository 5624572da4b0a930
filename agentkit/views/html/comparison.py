"""Two runs side by side: their figures, their answers, and their turns aligned by what they called."""

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from ...core.portable import to_canonical_text
from .conversation import MessageList, content_of
from .figures import format_moment, run_figures
from .markup import Html, join, tag
from .prose import render_answer
from .turns import Turn, render_turn

Data = Mapping[str, Any]
Side = tuple[Data, MessageList]

LABELS = {
    "equal": "the same calls and results",
    "results": "the same calls, different results",
    "replace": "different",
    "delete": "only in the first",
    "insert": "only in the second",
}


def render_comparison(first: Side, second: Side) -> Html:
    """Return both runs: a table of figures, the answers, and the turns of both in rows."""
    sides = (first, second)
    figures = [{"started": format_moment(result), **run_figures(result)} for result, _ in sides]
    rows = [
        tag("tr", tag("th", name), *(tag("td", side[name]) for side in figures))
        for name in figures[0]
        if any(side[name] for side in figures)
    ]
    table = tag(
        "div", tag("table", tag("tr", tag("th"), tag("th", "first"), tag("th", "second")), *rows), class_="wide"
    )
    answers = (render_answer(result.get("error"), result.get("answer"), shown.max_bytes) for result, shown in sides)
    return join(
        table,
        tag("h2", "Answers"),
        tag("div", *(tag("div", answer, class_="side") for answer in answers), class_="pair"),
        tag("h2", "Turns", id="turns"),
        *_pairs(first[1], second[1]),
    )


def _pairs(first: MessageList, second: MessageList) -> Iterator[Html]:
    """Yield a row for each pair of turns; turns with the same calls and arguments stand beside each other."""
    turns = [[part for _, part in side.parts() if isinstance(part, Turn)] for side in (first, second)]
    results = [_results(side) for side in (first, second)]
    matcher = SequenceMatcher(None, _keys(first), _keys(second), autojunk=False)
    for kind, a, a_end, b, b_end in matcher.get_opcodes():
        for offset in range(max(a_end - a, b_end - b)):
            places = (a + offset if a + offset < a_end else None, b + offset if b + offset < b_end else None)
            both = all(place is not None for place in places)
            label: str = kind if kind == "equal" or both else "delete" if places[0] is not None else "insert"
            if label == "equal" and results[0][a + offset] != results[1][b + offset]:
                label = "results"
            cells = (
                tag("div", None if place is None else render_turn(side[place], place + 1, is_open=False), class_="side")
                for place, side in zip(places, turns, strict=True)
            )
            yield tag("div", tag("div", LABELS[label], class_="dim"), *cells, class_=f"pair {label}")


def _keys(side: MessageList) -> Sequence[str]:
    """Return what each turn is compared by: the calls and their arguments, or the text of a turn without calls."""
    keys = []
    for message in side.messages:
        if message["role"] == "assistant":
            calls = [
                (call["function"]["name"], to_canonical_text(call["function"]["arguments"]))
                for call in message.get("tool_calls") or ()
            ]
            keys.append(json.dumps(calls) if calls else content_of(message))
    return keys


def _results(side: MessageList) -> Sequence[Sequence[str]]:
    """Return the results of each turn's calls."""
    texts = {message.get("tool_call_id"): content_of(message) for message in side.messages if message["role"] == "tool"}
    return [
        [texts.get(call["id"], "") for call in message.get("tool_calls") or ()]
        for message in side.messages
        if message["role"] == "assistant"
    ]
