"""The progress of a run in a notebook's cell while it works; it is removed when the run is over.

It is shown in a kernel with IPython, for one run at a time; a run inside another run's tool is part of that run.
It is not shown while `log.show` prints the run or with `AGENTKIT_PROGRESS=off` in the environment.  A thread redraws
it several times a second, also without new events; the run itself only stores events.  A run that ends before the
first redraw leaves the cell unchanged, and all runs of a cell share one output.
"""

import os
import sys
import threading
import time
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from ..core.flow import Listener
from ..core.host import find_kernel
from .frames import Frame, draw_frames
from .html import live_view
from .lines import Line, RunLines, format_usage, sanitize
from .log import is_shown
from .running import Running

REDRAW_SECONDS = 0.15
"""Seconds between two redraws."""
MAX_LINES = 8
"""Lines of the last events that are shown."""
MAX_LINE_CHARS = 160
INTERRUPTED_NOTICE = (
    'Interrupted. Finished steps are kept: agent.run() continues the run, agent("...") asks something else.'
)

_cell_lock = threading.Lock()


@contextmanager
def show_in_cell(redraw_seconds: float = REDRAW_SECONDS) -> Iterator[Listener]:
    """Return a listener that shows a run in the current cell; outside a notebook it does nothing."""
    with explain_interrupt(INTERRUPTED_NOTICE), _draw(redraw_seconds) as listener:
        yield listener


@contextmanager
def explain_interrupt(text: str) -> Iterator[None]:
    """Let a kernel show `text` instead of a traceback if the block is interrupted or cancelled."""
    try:
        yield
    except (KeyboardInterrupt, CancelledError) as error:
        if find_kernel() is not None:  # IPython calls this method of an exception instead of printing a traceback
            error.__dict__["_render_traceback_"] = lambda: [text]
        raise


@contextmanager
def _draw(redraw_seconds: float) -> Iterator[Listener]:
    display = _find_display()
    if display is None or not _cell_lock.acquire(blocking=False):
        yield lambda _: None
        return
    try:
        view = CellView()
        output = _cell_output(display)
        over = threading.Event()
        painter = threading.Thread(
            target=copy_context().run,
            args=(_redraw, view, output, over, redraw_seconds),
            name="agentkit-notebook",
            daemon=True,
        )
        painter.start()
        try:
            yield draw_frames(view.draw)
        finally:
            over.set()
            painter.join()
            output.clear()
    finally:
        _cell_lock.release()


class CellView:
    """The current state of a run, and its last lines."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._running = Running()
        self._reader = RunLines()
        self._lines: deque[Line] = deque(maxlen=MAX_LINES)

    def draw(self, frame: Frame) -> None:
        """Take a frame into the state."""
        self._running.update(frame)
        self._lines.extend(line for line in self._reader.read(frame) if line.role != "total")

    def snapshot(self) -> tuple[list[tuple[str, str]], list[str], str]:
        """Return the last lines (role, text), the running operations, and the usage."""
        now = time.monotonic()
        past = [(line.role, " ".join(line.format(MAX_LINE_CHARS).split())) for line in [*self._lines]]
        calls = [*self._running.calls.values()]
        running = [f"{sanitize(call, MAX_LINE_CHARS)}  {now - since:.0f} s" for call, since in calls]
        if not running:
            replies = [*self._running.replies.values()]
            running = [f"{sanitize(replies[-1].model, MAX_LINE_CHARS)} writes" if replies else "working"]
        return past, running, format_usage(self._running.usage, now - self._started)


class CellOutput:
    """An output of a cell, which is created when there is something to show."""

    def __init__(self, cell: object, display: Callable[..., Any]) -> None:
        self.cell = cell
        self._display = display
        self._handle: Any = None

    def show(self, html: str, plain: str) -> None:
        """Replace the content of the output."""
        bundle = {"text/html": html, "text/plain": plain}
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def clear(self) -> None:
        """Remove the content of the output."""
        if self._handle is not None:
            self.show("", "")


_last: list[CellOutput] = []
"""The output that was created last."""


def _cell_output(display: Callable[..., Any]) -> CellOutput:
    """Return the output in the current cell, an existing one first."""
    kernel = find_kernel()
    request = kernel.get_parent() if hasattr(kernel, "get_parent") else {}
    cell = request.get("header", {}).get("msg_id")
    if not (_last and cell and _last[0].cell == cell):
        _last[:] = [CellOutput(cell, display)]
    return _last[0]


def _redraw(view: CellView, output: CellOutput, over: threading.Event, seconds: float) -> None:
    """Redraw every `seconds` until `over` is set."""
    last = None
    while not over.wait(seconds):
        if (current := view.snapshot()) != last:
            last = current
            past, running, usage = current
            plain = [*(f"{role}: {text}" for role, text in past), *running, usage]
            output.show(live_view(past, running, usage), "\n".join(plain))


def _find_display() -> Callable[..., Any] | None:
    """Return IPython's `display`, or None where no cell shows the run."""
    is_off = os.environ.get("AGENTKIT_PROGRESS", "").lower() in ("off", "0", "no", "false")
    if find_kernel() is None or is_shown() or is_off:
        return None
    display: Callable[..., Any] = sys.modules["IPython"].display.display
    return display
