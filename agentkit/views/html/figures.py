"""Figures in words: seconds, tokens, dollars."""

from collections.abc import Mapping
from typing import Any

from .markup import Html, tag


def duration(seconds: float) -> str:
    """How long something took, in three digits or so."""
    if seconds >= 60:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    if seconds >= 10:
        return f"{seconds:.1f} s"
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.{1 if seconds >= 0.001 else 2}f} ms"


def dollars(usage: Mapping[str, Any]) -> str:
    """What requests cost; "" where there was nothing to pay for."""
    cost = usage.get("cost", 0)
    if cost is None:
        return "price unknown"
    if not cost:
        return "$0" if usage.get("input_tokens") else ""
    return f"${cost:.4f}" if cost >= 0.01 else f"${cost:.3g}" if cost >= 0.0001 else f"${cost:.8f}".rstrip("0")


def tokens(usage: Mapping[str, Any]) -> str:
    """What requests read and wrote; "" where nobody counted."""
    read, written = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    if not (read or written):
        return ""
    cached, thought = usage.get("cached_tokens"), usage.get("reasoning_tokens")
    return f"{read:,} tokens in{f' ({cached:,} cached)' if cached else ''}, {written:,} out" + (
        f" ({thought:,} thinking)" if thought else ""
    )


def spent(usage: Mapping[str, Any]) -> dict[str, Any]:
    """What requests took, as `figures` shows it."""
    return {"requests": usage.get("requests"), "tokens": tokens(usage).replace("tokens ", ""), "cost": dollars(usage)}


def counted(number: int, what: str) -> str:
    """ "1 call", "2 calls"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def figures(told: Mapping[str, Any]) -> Html:
    """Names and figures in a row, without those that are empty."""
    return tag("ul", *(tag("li", f"{name} ", tag("b", said)) for name, said in told.items() if said), class_="figures")
