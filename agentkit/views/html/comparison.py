"""Two runs side by side: their figures, their answers, and their turns aligned by what they called."""

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from .conversation import MessageList, content_of
from .figures import format_cost, format_moment, format_seconds, format_tokens
from .markup import Html, join, render_block, tag
from .prose import render_prose
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
    figures = [_figures(result) for result, _ in sides]
    rows = [
        tag("tr", tag("th", name), *(tag("td", side.get(name, "")) for side in figures))
        for name in figures[0]
        if any(side.get(name) for side in figures)
    ]
    table = tag(
        "div", tag("table", tag("tr", tag("th"), tag("th", "first"), tag("th", "second")), *rows), class_="wide"
    )
    answers = tag("div", *(tag("div", _answer(result, shown), class_="side") for result, shown in sides), class_="pair")
    return join(table, tag("h2", "Answers"), answers, tag("h2", "Turns", id="turns"), *_pairs(first[1], second[1]))


def _figures(result: Data) -> dict[str, str]:
    usage = result.get("usage") or {}
    spans = (result.get("trace") or {}).get("spans", ())
    calls = [span for span in spans if span["kind"] == "tool"]
    return {
        "started": format_moment(result),
        "model": str(result.get("model", "")),
        "stopped": str(result.get("stopped", "")),
        "time": format_seconds(result.get("seconds", 0.0)),
        "requests": str(usage.get("requests", "")),
        "tokens": format_tokens(usage),
        "cost": format_cost(usage),
        "calls": str(len(calls)),
        "failed calls": str(sum(bool(span.get("error")) for span in calls)),
    }


def _answer(result: Data, shown: MessageList) -> Html:
    if error := result.get("error"):
        return tag("div", str(error), class_="answer wrong")
    answer = result.get("answer")
    if isinstance(answer, str):
        return tag("div", render_prose(answer, shown.max_bytes), class_="answer")
    return tag("div", render_block(answer, shown.max_bytes, folded=False), class_="answer")


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
                (call["function"]["name"], _canonical(call["function"]["arguments"]))
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


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
