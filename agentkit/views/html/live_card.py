"""A run while it works, as HTML for a notebook's cell."""

from collections.abc import Sequence

from .markup import Html, tag, wrap_view


def live_view(past: Sequence[tuple[str, str]], running: Sequence[str], usage: str) -> Html:
    """Return the view of the last lines (role, text), the running operations, and the usage in one line."""
    rows = [tag("div", tag("b", role), " ", text, class_="wrong" if role == "error" else "") for role, text in past]
    now = [tag("div", "\N{BLACK RIGHT-POINTING TRIANGLE} ", text, class_="note") for text in running]
    return wrap_view(tag("div", *rows, *now, class_="live"), tag("div", usage, class_="dim"))
