"""The spans of a run as bars on one scale: requests in the first lane, calls below, side by side where they overlap.

Below the calls stands what agents inside of them did, a shade paler for each level.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .figures import duration, figures
from .markup import Html, joined, tag

Span = Mapping[str, Any]

SHORTEST, TELLING = 0.15, 4.0
"""Percent of the width: a shorter bar would not be seen; one that is longer than the other holds its name."""


def timeline(spans: Sequence[Span], seconds: float, links: Mapping[str, str]) -> Html:
    """The bars; `spans` are the plain data of a trace, `seconds` the length of the run.

    `links` are the anchors of the calls, by their ids, and of the messages, by their places.
    """
    if not spans:
        return Html("")
    whole = max([seconds, *(span["end"] for span in _all(spans))]) or 1.0
    rows = []
    for depth, lanes in enumerate(_levels(spans)):
        rows += [
            tag(
                "div",
                *(_bar(span, whole, {} if depth else links) for span in lane),
                class_=f"lane{' in' * bool(depth)}",
            )
            for lane in lanes
        ]
    ends = [duration(whole * part / 4) if part else "0" for part in range(5)]
    scale = tag("div", *(tag("span", end) for end in ends), class_="scale")
    return joined(tag("h2", "Where the time went"), tag("div", *rows, class_="lanes"), scale, _sums(spans, whole))


def _all(spans: Sequence[Span]) -> Iterator[Span]:
    for span in spans:
        yield span
        yield from _all(span.get("inner", {}).get("spans", ()))


def _levels(spans: Sequence[Span]) -> Iterator[list[list[Span]]]:
    """The lanes of each level: of the run itself, of the agents inside its calls, of those inside theirs."""
    requests = [span for span in spans if span["kind"] != "tool"]
    yield [*([requests] if requests else []), *_lanes([span for span in spans if span["kind"] == "tool"])]
    while inner := [deeper for span in spans for deeper in span.get("inner", {}).get("spans", ())]:
        yield _lanes(inner)
        spans = inner


def _lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """Each span in the first lane that is free when it begins."""
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: float(span["start"])):
        free = next((lane for lane in lanes if lane[-1]["end"] <= span["start"]), None)
        if free is None:
            lanes.append(free := [])
        free.append(span)
    return lanes


def _bar(span: Span, whole: float, links: Mapping[str, str]) -> Html:
    length = max(0.0, span["end"] - span["start"])
    label = f"{'waiting ' if span['kind'] == 'wait' else ''}{span['name']}  {duration(length)}"
    label += f": {span['error']}" if span.get("error") else ""
    width = max(100 * length / whole, SHORTEST)
    left = min(100 * max(0.0, span["start"]) / whole, 100 - width)
    kind = span["kind"] if span["kind"] in ("model", "tool", "wait") else "tool"
    shown = (
        f"{str(span['name']).rpartition('/')[2]} {duration(length)}" if width >= TELLING and kind != "wait" else None
    )
    link = links.get(span["call"] if span.get("call") else str(span.get("place", "")))
    return tag(
        "a" if link else "div", shown, class_=f"bar {kind}{' bad' if span.get('error') else ''}",
        style=f"left:{left:.2f}%;width:{width:.2f}%", title=label, href=link and f"#{link}",
    )  # fmt: skip


def _sums(spans: Sequence[Span], whole: float) -> Html:
    """How long each kind took in all; calls that overlapped are counted once."""
    told: dict[str, str] = {}
    for kind, name in (("model", "model"), ("tool", "tools"), ("wait", "waiting")):
        sum_of, end = 0.0, 0.0
        for span in sorted((span for span in spans if span["kind"] == kind), key=lambda span: float(span["start"])):
            sum_of += max(0.0, span["end"] - max(span["start"], end))
            end = max(end, span["end"])
        if end:
            told[name] = f"{duration(sum_of)} ({100 * sum_of / whole:.0f} %)"
    return figures(told)
