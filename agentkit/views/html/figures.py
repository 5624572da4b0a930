"""Figures as text: seconds, tokens, dollars."""

from collections.abc import Mapping
from typing import Any

from .markup import Html, tag


def format_seconds(seconds: float) -> str:
    """Return a duration in about three digits, with its unit."""
    if seconds >= 60:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    if seconds >= 10:
        return f"{seconds:.1f} s"
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.{1 if seconds >= 0.001 else 2}f} ms"


def format_moment(result: Mapping[str, Any]) -> str:
    """Return when a run began, in UTC; "" if it is not known."""
    return str(result.get("started", "")).replace("T", " ").replace("+00:00", " UTC")


def format_cost(usage: Mapping[str, Any]) -> str:
    """Return the cost of requests; "" without requests."""
    cost = usage.get("cost", 0)
    if cost is None:
        return "price unknown"
    if not cost:
        return "$0" if usage.get("input_tokens") else ""
    return f"${cost:.4f}" if cost >= 0.01 else f"${cost:.3g}" if cost >= 0.0001 else f"${cost:.8f}".rstrip("0")


def format_tokens(usage: Mapping[str, Any]) -> str:
    """Return the tokens that requests read and wrote; "" if the backend reported none."""
    read, written = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    if not (read or written):
        return ""
    cached, thought = usage.get("cached_tokens"), usage.get("reasoning_tokens")
    return f"{read:,} tokens in{f' ({cached:,} cached)' if cached else ''}, {written:,} out" + (
        f" ({thought:,} thinking)" if thought else ""
    )


def usage_figures(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return requests, tokens and cost for `render_figures`."""
    tokens = format_tokens(usage).replace("tokens ", "")
    return {"requests": usage.get("requests"), "tokens": tokens, "cost": format_cost(usage)}


def run_figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a result's plain data for `render_figures`."""
    spans = (result.get("trace") or {}).get("spans", ())
    calls = [span for span in spans if span["kind"] == "tool"]
    return {
        "model": result.get("model"),
        "stopped": result.get("stopped"),
        "time": format_seconds(result.get("seconds", 0.0)),
        **usage_figures(result.get("usage") or {}),
        "calls": len(calls),
        "failed calls": sum(bool(span.get("error")) for span in calls),
        "repairs": sum(len(span.get("repairs", ())) for span in calls),
        "failed requests": sum(bool(span.get("error")) for span in spans if span["kind"] == "model"),
    }


def format_count(number: int, noun: str) -> str:
    """Return "1 call", "2 calls"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def render_figures(values: Mapping[str, Any]) -> Html:
    """Return names and values in a row, without empty values."""
    entries = (tag("li", f"{name} ", tag("b", value)) for name, value in values.items() if value)
    return tag("ul", *entries, class_="figures")
