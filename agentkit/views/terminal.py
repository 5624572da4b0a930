"""The run as a person at a terminal sees it while it works; imports rich, so it is imported only for them.

What is settled scrolls by as lines; what goes on now stands under them: the text as it streams, the calls that run, how
long all that takes and what it took.  Everything that comes from a model or a tool is text: neither markup nor control
characters in it have an effect.
"""

import sys
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ..core.ask_person import ask_terminal
from ..core.flow import Event, WarningEvent
from ..core.messages import Usage
from ..engine.model import ModelAsked, ModelReplied, TextDelta, ThinkingDelta, ToolCallDelta
from ..engine.partial_answer import AnswerForming
from ..engine.result import RunStarted, SubRun
from ..tools.execution.call_tools import ToolFinished, ToolStarted
from .lines import STYLES, WIDTH, Line, figures, presentable, watched, written
from .streamed_text import Pieces

LONGEST = 300
"""Characters of a value that are shown in a line; of what the model says, all are."""
TAIL = 2_000
"""Characters that are kept of a text while it streams."""
MOST_CALLS = 8
"""How many of the calls that run are shown."""


@dataclass
class Talk:
    """What a model says at this moment, and since when it was waited for."""

    model: str
    since: float
    pieces: Pieces = field(default_factory=Pieces)
    text: str = ""
    call: int | None = None
    is_answering: bool = False

    def hear(self, event: Event) -> None:
        """Take what `event` brings of the text: of the answer its own, of any other call name and arguments."""
        match event:
            case TextDelta(text) | ThinkingDelta(text):
                self._add(text)
            case AnswerForming() if event.added:
                if not self.is_answering:
                    self.is_answering, self.text, self.pieces = True, "", Pieces()
                self._add(event.added)
            case ToolCallDelta(index, name, arguments) if not self.is_answering:
                if index != self.call:
                    self.call = index
                    self._add(f"\n{name} " if self.text else f"{name} ")
                self._add(arguments)
            case WarningEvent():  # what was streamed is withdrawn
                self.text, self.call, self.is_answering, self.pieces = "", None, False, Pieces()

    def _add(self, piece: str) -> None:
        self.text = (self.text + self.pieces.take(piece))[-TAIL:]


class LiveView:
    """A listener that shows one run at a time on a terminal; a context manager, which gives the terminal back."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._is_open = False
        self._spinner = Spinner("dots")
        self._usage = Usage()
        self._talks: dict[tuple[str, ...], Talk] = {}
        self._calls: dict[tuple[str, ...], tuple[str, float]] = {}
        self._live = Live(
            console=self.console, get_renderable=self._now, refresh_per_second=8, transient=True,
            redirect_stdout=sys.stdout.isatty(),
        )  # fmt: skip

    def __enter__(self) -> Self:
        self._is_open = True
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._talks.clear()
        self._calls.clear()
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show `event`."""
        self._note(event)
        for line in watched(event):
            if line.role != "query" or line.inside:  # the person has just written it
                self._say(line)

    def read(self, prompt: str) -> str:
        """Ask the person, with nothing moving meanwhile; raises `EOFError` when nobody is there."""
        self._live.stop()
        try:
            return ask_terminal(prompt)
        finally:
            if self._is_open:
                self._live.start()

    def _note(self, event: Event, path: tuple[str, ...] = ()) -> None:
        """What goes on after `event`, in the run at the end of `path` (calls, from the outermost to it)."""
        now = time.monotonic()
        match event:
            case SubRun(_, call, inner):
                self._note(inner, (*path, call.id if call else ""))
            case RunStarted() if not path:
                self._usage = Usage()
            case ModelAsked(model):
                self._talks[path] = Talk(model, now)
            case ModelReplied(reply):
                self._talks.pop(path, None)
                self._usage += reply.usage
            case ToolStarted(bound) if not bound.is_answer:
                self._calls[*path, bound.call.id] = written(bound.as_written), now
            case ToolFinished(result):
                self._calls.pop((*path, result.call.id), None)
                for inside in [key for key in self._talks if key[: len(path) + 1] == (*path, result.call.id)]:
                    del self._talks[inside]  # of a run that failed
            case _ if path in self._talks:
                self._talks[path].hear(event)

    def _say(self, line: Line) -> None:
        shown = line.shown(None if line.role in ("query", "model", "answer") else LONGEST)
        self.console.print(_row(Text(line.role, STYLES[line.role]), Text(shown, _style(line))))

    def _now(self) -> RenderableType:
        """What goes on at this moment, in no more than half of the terminal."""
        now, rows = time.monotonic(), []
        talks, calls = [*self._talks.values()], [*self._calls.values()]
        if talks and talks[-1].text:
            rows.append(_row(Text(""), self._end_of(talks[-1].text)))
        for text, since in calls[:MOST_CALLS]:
            rows.append(_working(self._spinner, f"{presentable(text, LONGEST)}  {now - since:.0f} s"))
        if len(calls) > MOST_CALLS:
            rows.append(_row(Text(""), Text(f"and {len(calls) - MOST_CALLS} more", "dim")))
        for talk in talks[-MOST_CALLS:]:
            rows.append(_working(self._spinner, f"{talk.model}  {now - talk.since:.0f} s  {figures(self._usage)}"))
        return Group(*rows)

    def _end_of(self, text: str) -> Text:
        """The last rows of a text, in the terminal's width."""
        most = max(2, self.console.height // 3)
        rows = Text(presentable(text)).wrap(self.console, max(10, self.console.width - WIDTH - 1))
        return Text("\n", "dim").join(rows[-most:])


def _style(line: Line) -> str:
    return STYLES[line.role] if line.role in ("error", "warning", "total", "progress", "query") else ""


def _row(first: RenderableType, second: RenderableType) -> Table:
    row = Table.grid()
    row.add_column(width=WIDTH, no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(first, second)
    return row


def _working(spinner: Spinner, text: str) -> Table:
    return _row(spinner, Text(" ".join(text.split("\n")), "dim"))
