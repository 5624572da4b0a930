"""The run as a person at a terminal sees it while it works; imports rich, so it is imported only for them.

What is settled scrolls by as lines; what goes on now stands under them: the text as it streams, the calls that run, how
long all that takes.  Everything that comes from a model or a tool is text: neither markup nor control characters in it
have an effect.
"""

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from ..asking import printable
from ..flow import Event
from ..messages import ToolCall, Usage
from ..model import ModelAsked, ModelReplied, TextDelta, ThinkingDelta, ToolCallDelta
from ..policies.approve import ApprovalAsked, ApprovalGiven
from ..run import RunFinished, RunStarted
from ..running import ToolFinished, ToolStarted
from .log import lines

LINE = 300
"""Characters of a value that are shown in a line."""
TAIL = 1_500
"""Characters of a text that are shown while it streams."""


class LiveView:
    """A listener that shows one run at a time on a terminal; a context manager, which gives the terminal back."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._live = Live(
            console=self.console, get_renderable=self._now, refresh_per_second=8, transient=True, redirect_stdout=False
        )
        self._waiting_for = ""
        self._since = 0.0
        self._text = ""
        self._calls: dict[str, tuple[ToolCall, float]] = {}
        self._usage = Usage()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting_for, self._text = "", ""
        self._calls.clear()
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show `event`."""
        match event:
            case RunStarted(query, _, note):
                self._usage = Usage()
                self._say(f"? {query}", "bold")
                if note:
                    self._say(f"  {note}", "dim")
            case ModelAsked(model):
                self._waiting_for, self._since, self._text = model, time.monotonic(), ""
            case TextDelta(text) | ThinkingDelta(text):
                self._text += text
            case ToolCallDelta(_, name, arguments):
                self._text += arguments if self._text else f"{name} {arguments}"
            case ModelReplied(reply):
                self._waiting_for, self._text = "", ""
                self._usage += reply.usage
                if text := str(reply.message.get("content") or "").strip():
                    self._say(f"  {text}", "")
            case ToolStarted(bound) if not bound.is_answer:
                self._calls[bound.call.id] = bound.call, time.monotonic()
                self._tell(event)
            case ToolFinished(result) if not result.is_answer:
                self._calls.pop(result.call.id, None)
                mark, style = ("✗", "red") if result.error else ("✓", "green")
                self._say(f"{mark} {_written(result.call)}  {result.seconds:.1f} s", style)
                self._say(f"  {result.content}", "red" if result.error else "dim")
            case ApprovalAsked():
                self._live.stop()
            case ApprovalGiven():
                self._live.start()
            case RunFinished(result):
                self._say(f"  {_figures(result.usage, result.seconds)}", "dim")
            case _:
                self._tell(event)

    def _tell(self, event: Event) -> None:
        """The lines of an event that are worth a person's attention."""
        for line in lines(event):
            if line.level in ("WARNING", "ERROR"):
                self._say(f"  {line.text}", "yellow")

    def _say(self, text: str, style: str) -> None:
        self.console.print(Text(_line(text), style=style))

    def _now(self) -> RenderableType:
        """What goes on at this moment."""
        rows: list[RenderableType] = []
        if self._text:
            rows.append(Text("\n".join(printable(line) for line in self._text[-TAIL:].splitlines()), style="dim"))
        if self._waiting_for:
            seconds = time.monotonic() - self._since
            rows.append(_working(f"{self._waiting_for}  {seconds:.0f} s  {self._usage.output_tokens:,} tokens written"))
        for call, since in list(self._calls.values()):
            rows.append(_working(f"{_written(call)}  {time.monotonic() - since:.0f} s"))
        return Group(*rows)


def _working(text: str) -> Spinner:
    return Spinner("dots", Text(_line(text)))


def _written(call: ToolCall) -> str:
    return f"{call.name}({call.arguments})"


def _line(text: str) -> str:
    return printable(text.replace("\n", " ⏎ "), LINE)


def _figures(usage: Usage, seconds: float) -> str:
    cost = "price unknown" if usage.cost is None else f"${usage.cost:.4f}" if usage.cost else ""
    tokens = f"{usage.input_tokens + usage.output_tokens:,} tokens" if usage.input_tokens else ""
    return ", ".join(filter(None, [f"{usage.requests} requests", tokens, cost, f"{seconds:.1f} s"]))
