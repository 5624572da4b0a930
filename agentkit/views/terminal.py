"""The live view of a run at a terminal, and Markdown there.  It imports rich, so it is imported only for a terminal.

Finished steps scroll by as lines.  Below them stands what is running: the text as it streams, the running calls, the
seconds and the usage.  Texts of models and tools are plain text: markup and control characters in them have no effect.
"""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment, Segments
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ..core.ask_person import ask_terminal
from .frames import Frame
from .lines import ROLE_COLUMN_WIDTH, ROLE_STYLES, Line, RunLines, Running, StreamedReply, format_usage, sanitize
from .markdown import MAX_PARSED_CHARS, parse_tokens

MAX_TERMINAL_VALUE_CHARS = 300
"""Characters of a value that are shown in a line; the model's texts are shown whole."""
MAX_CALLS = 8
"""Running calls that are shown."""


class LiveView:
    """Draws the frames of one run at a time on a terminal; a context manager, which restores the terminal."""

    def __init__(self, console: Console | None = None, ask: Callable[[str], str] = ask_terminal) -> None:
        self._ask = ask
        self.console = console or Console(stderr=True, highlight=False)
        self._is_open = False
        self._spinner = Spinner("line" if self.console.options.ascii_only else "dots")
        self._running = Running()
        self._lines = RunLines()
        self._live = Live(
            console=self.console,
            get_renderable=self.render,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        )

    def __enter__(self) -> Self:
        self._is_open = True
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._running = Running()
        self._live.stop()

    def draw(self, frame: Frame) -> None:
        """Show a frame."""
        self._running.update(frame)
        for line in self._lines.read_progress(frame):
            if line.role != "query" or line.agents:  # the person has just written the query
                self._print(line)

    def read(self, prompt: str) -> str:
        """Ask the person, with the animation stopped; raise `EOFError` without a terminal."""
        self._live.stop()
        try:
            return self._ask(prompt)
        finally:
            if self._is_open:
                self._live.start()

    def _print(self, line: Line) -> None:
        text = line.format(None if line.role in ("query", "model", "answer") else MAX_TERMINAL_VALUE_CHARS)
        style = ROLE_STYLES[line.role]
        is_whole = line.role in ("error", "warning", "total", "progress", "query")  # else only the role has the style
        self.console.print(_row(Text(line.role, style), Text(text, style if is_whole else "")))

    def render(self) -> RenderableType:
        """Return what is running now, in at most half of the terminal."""
        now = time.monotonic()
        rows = [_row(Text(""), Text(sanitize(row, MAX_TERMINAL_VALUE_CHARS))) for row in self._running.plan_rows()]
        replies = [*self._running.replies.values()]
        calls = [*self._running.calls.values()]
        if replies and replies[-1].text:
            rows.append(_row(Text(""), self._last_rows(replies[-1])))
        for text, since in calls[:MAX_CALLS]:
            rows.append(_busy_row(self._spinner, f"{sanitize(text, MAX_TERMINAL_VALUE_CHARS)}  {now - since:.0f} s"))
        if len(calls) > MAX_CALLS:
            rows.append(_row(Text(""), Text(f"and {len(calls) - MAX_CALLS} more", "dim")))
        for reply in replies[-MAX_CALLS:]:
            usage = format_usage(self._running.usage)
            rows.append(_busy_row(self._spinner, f"{reply.model}  {now - reply.since:.0f} s  {usage}"))
        return Group(*rows)

    def _last_rows(self, reply: StreamedReply) -> RenderableType:
        """Return the last rows of a text, in the terminal's width; an answer is drawn as Markdown."""
        max_rows = max(2, self.console.height // 3)
        width = max(10, self.console.width - ROLE_COLUMN_WIDTH - 1)
        if not reply.is_answering:
            return Text("\n", "dim").join(Text(sanitize(reply.text)).wrap(self.console, width)[-max_rows:])
        return Segments(join_lines(render_rows(reply.text, self.console, width)[-max_rows:]))


def _row(first: RenderableType, second: RenderableType) -> Table:
    row = Table.grid()
    row.add_column(width=ROLE_COLUMN_WIDTH, no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(first, second)
    return row


def _busy_row(spinner: Spinner, text: str) -> Table:
    return _row(spinner, Text(" ".join(text.split("\n")), "dim"))


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
