"""The spans of a run as bars on one scale: requests in the first lane, calls below, side by side where they overlap."""

from collections.abc import Mapping, Sequence
from typing import Any

from .markup import Html, joined, tag

Span = Mapping[str, Any]


def timeline(spans: Sequence[Span], seconds: float) -> Html:
    """The bars; `spans` are the plain data of a trace, `seconds` the length of the run."""
    if not spans:
        return Html("")
    whole = max([seconds, *(span["end"] for span in spans)]) or 1.0
    rows = [tag("div", *(_bar(span, whole) for span in lane), class_="lane") for lane in _lanes(spans)]
    ends = [f"{whole * part / 4:.{2 if whole < 10 else 1}f} s" for part in range(5)]
    scale = tag("div", *(tag("span", end) for end in ends), class_="scale")
    return joined(tag("h2", "Where the time went"), tag("div", *rows, class_="lanes"), scale, _sums(spans))


def _lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """Requests and waits in one lane, calls in the first lane that is free when they begin."""
    lanes: list[list[Span]] = [[span for span in spans if span["kind"] != "tool"]]
    for span in sorted((span for span in spans if span["kind"] == "tool"), key=lambda span: span["start"]):
        free = next((lane for lane in lanes[1:] if lane[-1]["end"] <= span["start"]), None)
        if free is None:
            lanes.append(free := [])
        free.append(span)
    return [lane for lane in lanes if lane]


def _bar(span: Span, whole: float) -> Html:
    length = span["end"] - span["start"]
    label = f"{span['name']}  {length:.2f} s" + (f": {span['error']}" if span.get("error") else "")
    style = f"left:{100 * span['start'] / whole:.2f}%;width:{100 * length / whole:.2f}%"
    kind = "bad" if span.get("error") else str(span["kind"])
    link = {"href": f"#{span['call']}"} if span.get("call") else {}
    return tag("a" if link else "div", label, class_=f"bar {kind}", style=style, title=label, **link)


def _sums(spans: Sequence[Span]) -> Html:
    names = {"model": "model", "tool": "tools", "wait": "waiting"}
    sums = {kind: sum(span["end"] - span["start"] for span in spans if span["kind"] == kind) for kind in names}
    told = [tag("li", f"{name} ", tag("b", f"{sums[kind]:.2f} s")) for kind, name in names.items() if sums[kind]]
    return tag("ul", *told, class_="figures")
