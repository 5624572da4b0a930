"""How far a run is, in the cell of a notebook while it works; when it is over, nothing of it is left.

It is shown where a kernel with IPython runs the program, for one run at a time (one inside of another's tool is part of
that one), unless `log.show` prints the run anyhow or the environment says `AGENTKIT_PROGRESS=off`.  A thread draws it a
few times a second, also when nothing happens; the run itself only puts down what happened.  A run that is over before
the first drawing leaves the cell as it is, and all runs of a cell share one place in it.
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from ..core.flow import Event, Listener
from ..core.messages import Usage
from ..core.notebook import find_kernel
from ..engine.model import ModelAsked, ModelReplied
from ..engine.result import SubRun
from ..tools.execution.call_tools import ToolFinished, ToolStarted
from .html import live_view
from .lines import Line, figures, lines, presentable, written
from .log import is_shown

PAUSE = 0.15
"""Seconds between two drawings."""
LINES = 8
"""What happened last is shown in so many lines."""
LONGEST = 160

_one_at_a_time = threading.Lock()


@contextmanager
def watched() -> Iterator[Listener]:
    """A listener that shows a run in the cell that is running, if there is one; else it does nothing."""
    display = _display()
    if display is None or not _one_at_a_time.acquire(blocking=False):
        yield lambda _: None
        return
    try:
        view, place, over = View(), _place(display), threading.Event()
        painter = threading.Thread(
            target=copy_context().run, args=(_paint, view, place, over), name="agentkit-notebook", daemon=True
        )
        painter.start()
        try:
            yield view.note
        finally:
            over.set()
            painter.join()
            place.clear()
    finally:
        _one_at_a_time.release()


class View:
    """What goes on in a run at this moment, and what happened last."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._usage = Usage()
        self._model = ""
        self._lines: deque[Line] = deque(maxlen=LINES)
        self._calls: dict[tuple[str, ...], tuple[str, float]] = {}

    def note(self, event: Event) -> None:
        """Put down what happened."""
        self._lines.extend(line for line in lines(event) if line.level != "DEBUG" and line.role != "total")
        path: tuple[str, ...] = ()
        while isinstance(event, SubRun):
            path, event = (*path, event.call.id if event.call else event.name), event.event
        match event:
            case ModelAsked(model):
                self._model = model
            case ModelReplied(reply):
                self._model = ""
                self._usage += reply.usage
            case ToolStarted(bound) if not bound.is_answer:
                self._calls[(*path, bound.call.id)] = written(bound.as_written), time.monotonic()
            case ToolFinished(result):
                self._calls.pop((*path, result.call.id), None)

    def shown(self) -> tuple[list[tuple[str, str]], list[str], str]:
        """What happened (who, what), what is under way, and the figures."""
        now = time.monotonic()
        happened = [(line.role, " ".join(line.shown(LONGEST).split())) for line in [*self._lines]]
        going_on = [
            f"{presentable(call, LONGEST)}  {now - since:.0f} s" for call, since in [*self._calls.values()]
        ] or [f"{presentable(self._model, LONGEST)} writes" if self._model else "working"]
        return happened, going_on, figures(self._usage, now - self._began)


class Place:
    """Where in a cell something is shown; it is opened when there is something to show."""

    def __init__(self, cell: object, display: Callable[..., Any]) -> None:
        self.cell = cell
        self._display = display
        self._handle: Any = None

    def show(self, html: str, plain: str) -> None:
        """Show this in the place of what stands there."""
        bundle = {"text/html": html, "text/plain": plain}
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def clear(self) -> None:
        """Show nothing more."""
        if self._handle is not None:
            self.show("", "")


_last: list[Place] = []
"""The place that was opened last."""


def _place(display: Callable[..., Any]) -> Place:
    """The place in the cell that is running; the one that it has, if it has one."""
    running = find_kernel()
    request = running.get_parent() if hasattr(running, "get_parent") else {}
    cell = request.get("header", {}).get("msg_id")
    if not (_last and cell and _last[0].cell == cell):
        _last[:] = [Place(cell, display)]
    return _last[0]


def _paint(view: View, place: Place, over: threading.Event) -> None:
    last = None
    while not over.wait(PAUSE):
        if (shown := view.shown()) != last:
            last = shown
            happened, going_on, told = shown
            plain = [*(f"{role}: {text}" for role, text in happened), *going_on, told]
            place.show(live_view(happened, going_on, told), "\n".join(plain))


def _display() -> Callable[..., Any] | None:
    """IPython's `display`, if a kernel's cell is to show the run."""
    if (
        find_kernel() is None
        or is_shown()
        or os.environ.get("AGENTKIT_PROGRESS", "").lower() in ("off", "0", "no", "false")
    ):
        return None
    display: Callable[..., Any] = sys.modules["IPython"].display.display
    return display
