"""A run while it works, as HTML for a notebook's cell."""

from collections.abc import Sequence

from .markup import Html, tag, view


def live_view(happened: Sequence[tuple[str, str]], going_on: Sequence[str], figures: str) -> Html:
    """What happened last (who, what), what is under way, and the figures in one line."""
    rows = [tag("div", tag("b", who), " ", text, class_="wrong" if who == "error" else "") for who, text in happened]
    now = [tag("div", "\N{BLACK RIGHT-POINTING TRIANGLE} ", text, class_="note") for text in going_on]
    return view(tag("div", *rows, *now, class_="live"), tag("div", figures, class_="dim"))
