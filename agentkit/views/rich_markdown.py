"""Markdown at a terminal.  It imports rich, so it is itself imported only for a terminal."""

import sys

from rich.console import Console
from rich.markdown import Markdown
from rich.segment import Segment, Segments

from .lines import sanitize
from .markdown import MAX_PARSED_CHARS, parse_tokens


class SafeMarkdown(Markdown):
    """Markdown of a model: HTML in it stays text, addresses of links are shown, and control characters are escaped.

    Args:
        text: The text; one of more than `MAX_PARSED_CHARS` characters is to be shown as it is.
    """

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.markup = sanitize(text)
        self.parsed = parse_tokens(self.markup)


def render_rows(text: str, console: Console, width: int | None = None) -> list[list[Segment]]:
    """Return the rows of a text as Markdown, without the blanks up to the edge, which would be copied with the text.

    Args:
        text: The text of a model.
        console: The terminal.
        width: Columns; None stands for the terminal's.
    """
    options = console.options.update(width=width) if width else console.options
    rows = console.render_lines(SafeMarkdown(text), options, pad=False)
    for row in rows:
        while row and not _has_background(row[-1]) and not row[-1].text.strip():
            row.pop()
        if row and not _has_background(row[-1]):
            row[-1] = Segment(row[-1].text.rstrip(" "), row[-1].style)
    return rows


def join_lines(rows: list[list[Segment]]) -> list[Segment]:
    """Return the segments of all rows, with a line break after each row."""
    return [segment for row in rows for segment in (*row, Segment.line())]


def print_markdown(text: str, console: Console | None = None) -> None:
    """Print a text to the terminal as Markdown.

    Args:
        text: The answer of a model.
        console: The terminal; None stands for standard output.
    """
    console = console or Console(file=sys.stdout, highlight=False)
    if len(text) > MAX_PARSED_CHARS:
        console.print(sanitize(text), markup=False)
    else:
        console.print(Segments(join_lines(render_rows(text, console))), end="")


def _has_background(segment: Segment) -> bool:
    return bool(segment.style and segment.style.bgcolor)
