"""The live view of a run at a terminal.  It imports rich, so it is itself imported only for a terminal.

Finished steps scroll by as lines.  Below them stands what is running: the text as it streams, the running calls, the
seconds and the usage.  Texts of models and tools are plain text: markup and control characters in them have no effect.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.segment import Segments
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ..core.ask_person import ask_terminal
from ..core.flow import Event, WarningEvent
from ..core.masking import MaskedStream
from ..core.messages import Usage
from ..engine.model import ModelAsked, ModelReplied, TextDelta, ThinkingDelta, ToolCallDelta
from ..engine.partial_answer import AnswerForming
from ..engine.result import RunEnded, RunStarted, SubRun
from ..tools.execution.turn import ToolFinished, ToolStarted
from .lines import ROLE_COLUMN_WIDTH, ROLE_STYLES, Line, format_call, format_usage, render_progress, sanitize
from .rich_markdown import join_lines, render_rows

MAX_TERMINAL_VALUE_CHARS = 300
"""Characters of a value that are shown in a line; the model's texts are shown whole."""
MAX_STREAMED_CHARS = 2_000
"""Characters of a text that are kept while it streams."""
MAX_CALLS = 8
"""Running calls that are shown."""


@dataclass
class StreamedReply:
    """A reply while it streams, and the time of its request."""

    model: str
    since: float
    stream: MaskedStream = field(default_factory=MaskedStream)
    text: str = ""
    call: int | None = None
    is_answering: bool = False

    def update(self, event: Event) -> None:
        """Add the text of `event`: of the final answer its text, of any other call its name and arguments."""
        match event:
            case TextDelta(text) | ThinkingDelta(text):
                self._add(text)
            case AnswerForming() if event.added:
                if not self.is_answering:
                    self.is_answering = True
                    self.text = ""
                    self.stream = MaskedStream()
                self._add(event.added)
            case ToolCallDelta(index, name, arguments) if not self.is_answering:
                if index != self.call:
                    self.call = index
                    self._add(f"\n{name} " if self.text else f"{name} ")
                self._add(arguments)
            case WarningEvent():  # a failed request: its text is withdrawn
                self.text = ""
                self.call = None
                self.is_answering = False
                self.stream = MaskedStream()

    def _add(self, piece: str) -> None:
        self.text = (self.text + self.stream.feed(piece))[-MAX_STREAMED_CHARS:]


class LiveView:
    """A listener that shows one run at a time on a terminal; a context manager, which restores the terminal."""

    def __init__(self, console: Console | None = None, ask: Callable[[str], str] = ask_terminal) -> None:
        self._ask = ask
        self.console = console or Console(stderr=True, highlight=False)
        self._is_open = False
        self._spinner = Spinner("dots")
        self._usage = Usage()
        self._replies: dict[tuple[str, ...], StreamedReply] = {}
        self._calls: dict[tuple[str, ...], tuple[str, float]] = {}
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
        self._replies.clear()
        self._calls.clear()
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show `event`."""
        self._update(event)
        for line in render_progress(event):
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

    def _update(self, event: Event, path: tuple[str, ...] = ()) -> None:
        """Take `event` into the state of the run at `path`: the ids of the enclosing calls, the outermost first."""
        now = time.monotonic()
        match event:
            case SubRun(_, call, inner):
                self._update(inner, (*path, call.id if call else ""))
            case RunStarted() if not path:
                self._usage = Usage()
            case RunEnded():
                for running in (self._replies, self._calls):
                    for inner_path in [key for key in running if key[: len(path)] == path]:
                        del running[inner_path]
            case ModelAsked(model):
                self._replies[path] = StreamedReply(model, now)
            case ModelReplied(reply):
                self._replies.pop(path, None)
                self._usage += reply.usage
            case ToolStarted(bound) if not bound.is_answer:
                self._calls[*path, bound.call.id] = format_call(bound.as_written), now
            case ToolFinished(result):
                self._calls.pop((*path, result.call.id), None)
                for inner_path in [key for key in self._replies if key[: len(path) + 1] == (*path, result.call.id)]:
                    del self._replies[inner_path]  # of an inner run that failed
            case _ if path in self._replies:
                self._replies[path].update(event)

    def _print(self, line: Line) -> None:
        text = line.format(None if line.role in ("query", "model", "answer") else MAX_TERMINAL_VALUE_CHARS)
        self.console.print(_row(Text(line.role, ROLE_STYLES[line.role]), Text(text, _text_style(line))))

    def render(self) -> RenderableType:
        """Return what is running now, in at most half of the terminal."""
        now = time.monotonic()
        rows = []
        replies = [*self._replies.values()]
        calls = [*self._calls.values()]
        if replies and replies[-1].text:
            rows.append(_row(Text(""), self._last_rows(replies[-1])))
        for text, since in calls[:MAX_CALLS]:
            rows.append(_busy_row(self._spinner, f"{sanitize(text, MAX_TERMINAL_VALUE_CHARS)}  {now - since:.0f} s"))
        if len(calls) > MAX_CALLS:
            rows.append(_row(Text(""), Text(f"and {len(calls) - MAX_CALLS} more", "dim")))
        for reply in replies[-MAX_CALLS:]:
            usage = format_usage(self._usage)
            rows.append(_busy_row(self._spinner, f"{reply.model}  {now - reply.since:.0f} s  {usage}"))
        return Group(*rows)

    def _last_rows(self, reply: StreamedReply) -> RenderableType:
        """Return the last rows of a text, in the terminal's width; an answer is drawn as Markdown."""
        max_rows = max(2, self.console.height // 3)
        width = max(10, self.console.width - ROLE_COLUMN_WIDTH - 1)
        if not reply.is_answering:
            return Text("\n", "dim").join(Text(sanitize(reply.text)).wrap(self.console, width)[-max_rows:])
        return Segments(join_lines(render_rows(reply.text, self.console, width)[-max_rows:]))


def _text_style(line: Line) -> str:
    return ROLE_STYLES[line.role] if line.role in ("error", "warning", "total", "progress", "query") else ""


def _row(first: RenderableType, second: RenderableType) -> Table:
    row = Table.grid()
    row.add_column(width=ROLE_COLUMN_WIDTH, no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(first, second)
    return row


def _busy_row(spinner: Spinner, text: str) -> Table:
    return _row(spinner, Text(" ".join(text.split("\n")), "dim"))
