"""The text of a model as HTML: Markdown without HTML, images and scripts."""

from ...core.masking import MAX_SECRET_CHARS, mask
from ..markdown import Node, parse_markdown
from .markup import Html, join, tag

EMPTY_ELEMENTS = {"hr", "br"}
_HEADINGS = {f"h{level}": f"h{min(6, level + 2)}" for level in range(1, 7)}
"""Headings of a text stand below the two levels of the page."""


def render_prose(text: str, max_bytes: int) -> Html:
    """Return a text as HTML.

    Args:
        text: Markdown.
        max_bytes: Bytes that are shown; of a longer text its head, its tail and the number of characters left out.
    """
    return tag("div", *map(_render, parse_markdown(_truncate(text, max_bytes))), class_="prose")


def _render(node: Node) -> Html | str:
    if isinstance(node, str):
        return node
    name, attributes, children = node
    inner = join(*map(_render, children))
    if name in EMPTY_ELEMENTS:
        return Html(f"<{name}>")
    if name == "a":
        return tag("a", inner, href=attributes["href"], title=attributes["href"], rel="noopener noreferrer nofollow")
    if name == "table":
        return tag("div", tag("table", inner), class_="wide")
    align = attributes.get("align")
    return tag(_HEADINGS.get(name, name), inner, start=attributes.get("start"), style=align and f"text-align:{align}")


def _truncate(text: str, max_bytes: int) -> str:
    if len(text) <= max_bytes // 4 or len(text.encode(errors="replace")) <= max_bytes:
        return text
    half = max_bytes // 2
    head, tail = (
        mask(text[: half + MAX_SECRET_CHARS])[:-MAX_SECRET_CHARS].encode(errors="replace"),
        mask(text[-half - MAX_SECRET_CHARS :])[MAX_SECRET_CHARS:].encode(errors="replace"),
    )
    first, last = head[:half].decode(errors="ignore"), tail[-half:].decode(errors="ignore")
    left_out = max(0, len(text) - len(first) - len(last))
    return f"{first}\n\n[... {left_out:,} of {len(text):,} characters are left out ...]\n\n{last}"
