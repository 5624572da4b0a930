"""The spans of a run as bars on one scale: requests in the first lane, calls below, overlapping calls side by side.

The spans of agents inside tools stand below the calls, paler.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .figures import format_seconds, render_figures
from .markup import Html, join, tag

SpanData = Mapping[str, Any]

MIN_BAR_PERCENT, MIN_LABEL_PERCENT = 0.15, 4.0
"""Percent of the width: the width of the narrowest bar, and the width from which a bar shows its name."""


def render_timeline(spans: Sequence[SpanData], seconds: float, links: Mapping[str, str]) -> Html:
    """Return the bars; `links` are the anchors of the calls, by their ids, and of the messages, by their indices."""
    if not spans:
        return Html("")
    whole = max([seconds, *(span["end"] for span in _all_spans(spans))]) or 1.0
    rows = []
    for depth, lanes in enumerate(_levels(spans)):
        for lane in lanes:
            bars = (_bar(span, whole, {} if depth else links) for span in lane)
            rows.append(tag("div", *bars, class_=f"lane{' in' * bool(depth)}"))
    ends = [format_seconds(whole * part / 4) if part else "0" for part in range(5)]
    scale = tag("div", *(tag("span", end) for end in ends), class_="scale")
    return join(tag("h2", "Timeline"), tag("div", *rows, class_="lanes"), scale, _sums(spans, whole))


def _all_spans(spans: Sequence[SpanData]) -> Iterator[SpanData]:
    for span in spans:
        yield span
        yield from _all_spans(span.get("inner", {}).get("spans", ()))


def _levels(spans: Sequence[SpanData]) -> Iterator[list[list[SpanData]]]:
    """Yield the lanes of each level: of the run, of the agents inside its calls, of the agents inside theirs."""
    requests = [span for span in spans if span["kind"] != "tool"]
    yield [*([requests] if requests else []), *_lanes([span for span in spans if span["kind"] == "tool"])]
    while inner := [deeper for span in spans for deeper in span.get("inner", {}).get("spans", ())]:
        yield _lanes(inner)
        spans = inner


def _lanes(spans: Sequence[SpanData]) -> list[list[SpanData]]:
    """Put each span into the first lane that is free at its start."""
    lanes: list[list[SpanData]] = []
    for span in sorted(spans, key=lambda span: float(span["start"])):
        free = next((lane for lane in lanes if lane[-1]["end"] <= span["start"]), None)
        if free is None:
            lanes.append(free := [])
        free.append(span)
    return lanes


def _bar(span: SpanData, whole: float, links: Mapping[str, str]) -> Html:
    length = max(0.0, span["end"] - span["start"])
    title = f"{'waiting ' if span['kind'] == 'wait' else ''}{span['name']}  {format_seconds(length)}"
    title += f": {span['error']}" if span.get("error") else ""
    width = max(100 * length / whole, MIN_BAR_PERCENT)
    left = min(100 * max(0.0, span["start"]) / whole, 100 - width)
    kind = span["kind"] if span["kind"] in ("model", "tool", "wait") else "tool"
    has_label = width >= MIN_LABEL_PERCENT and kind != "wait"
    label = f"{str(span['name']).rpartition('/')[2]} {format_seconds(length)}" if has_label else None
    link = links.get(span["call"] if span.get("call") else str(span.get("place", "")))
    return tag(
        "a" if link else "div", label, class_=f"bar {kind}{' bad' if span.get('error') else ''}",
        style=f"left:{left:.2f}%;width:{width:.2f}%", title=title, href=link and f"#{link}",
        tabindex="-1" if link else None,  # hundreds of bars would be as many stops of the Tab key
    )  # fmt: skip


def _sums(spans: Sequence[SpanData], whole: float) -> Html:
    """Return the total duration of each kind; overlapping spans are counted once."""
    totals: dict[str, str] = {}
    for kind, name in (("model", "model"), ("tool", "tools"), ("wait", "waiting")):
        total, end = 0.0, 0.0
        for span in sorted((span for span in spans if span["kind"] == kind), key=lambda span: float(span["start"])):
            total += max(0.0, span["end"] - max(span["start"], end))
            end = max(end, span["end"])
        if end:
            totals[name] = f"{format_seconds(total)} ({100 * total / whole:.0f} %)"
    return render_figures(totals)
