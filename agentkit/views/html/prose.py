"""The text of a model as HTML: Markdown without HTML, images and scripts."""

from html import unescape
from typing import Any

from ..markdown import Node, parse_markdown
from .markup import Html, join, render_block, tag, truncate

EMPTY_ELEMENTS = {"hr", "br"}
_HEADINGS = {f"h{level}": f"h{min(6, level + 2)}" for level in range(1, 7)}
"""Headings of a text stand below the two levels of the page."""


def render_prose(text: str, max_bytes: int) -> Html:
    """Return a text as HTML.

    Args:
        text: Markdown.
        max_bytes: Bytes that are shown; of a longer text its head, its tail and the number of characters left out.
    """
    return tag("div", *map(_render, parse_markdown(unescape(truncate(text, max_bytes)))), class_="prose")


def render_answer(error: Any, answer: Any, max_bytes: int, anchor: str = "") -> Html:
    """Return the answer of a run, a text as Markdown; or the error of a run that has none."""
    if error:
        return tag("div", truncate(str(error), max_bytes), class_="answer wrong")
    is_text = isinstance(answer, str)
    shown = render_prose(answer, max_bytes) if is_text else render_block(answer, max_bytes, folded=False)
    return tag("div", shown, class_="answer", id=anchor)


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
