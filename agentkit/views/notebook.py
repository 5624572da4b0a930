"""The progress of a run in a notebook's cell while it works; it is removed when the run is over.

It is shown in a kernel with IPython, for one run at a time; a run inside another run's tool is part of that run.
It is not shown while `log.show` prints the run or with `AGENTKIT_PROGRESS=off` in the environment.  A thread redraws
it several times a second, also without new events; the run itself only stores events.  A run that ends before the
first redraw leaves the cell unchanged, and all runs of a cell share one output.

`%load_ext agentkit` gives the cell magic `%%ask`, which streams an answer into its cell.
"""

import os
import shlex
import sys
import threading
import time
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from importlib import import_module
from typing import Any

from ..core.errors import DefinitionError, suggest
from ..core.flow import Listener
from ..core.host import find_kernel
from ..core.lazy_names import display_with
from ..core.masking import mask
from ..engine.result import RunFinished
from .frames import AnswerPiece, AnswerWithdrawn, Frame, draw_frames
from .lines import Line, RunLines, Running, format_usage, sanitize
from .log import is_shown

REDRAW_SECONDS = 0.15
"""Seconds between two redraws."""
MAX_LINES = 8
"""Lines of the last events that are shown."""
MAX_LINE_CHARS = 160
INTERRUPTED_NOTICE = (
    'Interrupted. Finished steps are kept: agent.run() continues the run, agent("...") asks something else.'
)
NOTHING_LEFT_NOTICE = 'Interrupted. No step is left to continue: ask again, agent("...").'

_live_view = display_with("agentkit.views.html:live_view")
_prose_view = display_with("agentkit.views.html:prose_view")
VOID_NOTICE = "\n[The text above is void: the answer begins again.]\n"
MAX_STREAMED_BYTES = 1_000_000
"""Bytes of an answer that a cell shows."""

_cell_lock = threading.Lock()


@contextmanager
def show_in_cell(redraw_seconds: float = REDRAW_SECONDS) -> Iterator[Listener]:
    """Return a listener that shows a run in the current cell; outside a notebook it does nothing."""
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


@contextmanager
def explain_interrupt(text: str) -> Iterator[None]:
    """Let a kernel show `text` instead of a traceback if the block is interrupted or cancelled."""
    try:
        yield
    except (KeyboardInterrupt, CancelledError) as error:
        if find_kernel() is not None:  # IPython calls this method of an exception instead of printing a traceback
            error.__dict__["_render_traceback_"] = lambda: [text]
        raise


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
        """Return the plan and the last lines (role, text), the running operations, and the usage."""
        now = time.monotonic()
        plan = [("", sanitize(row, MAX_LINE_CHARS)) for row in self._running.plan_rows()]
        past = [(line.role, " ".join(line.format(MAX_LINE_CHARS).split())) for line in [*self._lines]]
        calls = [*self._running.calls.values()]
        running = [f"{sanitize(call, MAX_LINE_CHARS)}  {now - since:.0f} s" for call, since in calls]
        if not running:
            replies = [*self._running.replies.values()]
            running = [f"{sanitize(replies[-1].model, MAX_LINE_CHARS)} writes" if replies else "working"]
        return [*plan, *past], running, format_usage(self._running.usage, now - self._started)


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
            plain = [*(f"{role}: {text}" if role else text for role, text in past), *running, usage]
            output.show(_live_view(past, running, usage), "\n".join(plain))


def _find_display() -> Callable[..., Any] | None:
    """Return IPython's `display`, or None where no cell shows the run."""
    is_off = os.environ.get("AGENTKIT_PROGRESS", "").lower() in ("off", "0", "no", "false")
    if find_kernel() is None or is_shown() or is_off:
        return None
    display: Callable[..., Any] = sys.modules["IPython"].display.display
    return display


def load_ipython_extension(shell: Any) -> None:
    """Give a notebook the cell magic `%%ask`: `%load_ext agentkit`.

    Args:
        shell: IPython's shell, which calls this function.
    """
    arguments = import_module("IPython.core.magic_arguments")
    parser = arguments.MagicArgumentParser("%%ask", add_help=False)
    parser.add_argument("agent", nargs="?", help="the variable with the agent; default: agent, or the only one")
    parser.add_argument("-m", "--model", help="the model for this query")
    parser.add_argument("-o", "--output", help="the variable that gets the Result")
    parser.add_argument("-n", "--new", action="store_true", help="begin a new conversation")

    def ask(line: str, cell: str) -> None:
        try:
            given = parser.parse_args(shlex.split(line))
        except ValueError as error:
            raise DefinitionError(f"%%ask {line}: {error}.") from None
        agent = _find_agent(shell.user_ns, given.agent)
        if not cell.strip():
            raise DefinitionError("%%ask: the cell has no question. Write it below the first line.")
        if given.new:
            agent.clear_history()
        how = {"model": given.model} if given.model else {}
        result = _show_answer(agent, cell.strip(), how)
        if given.output:
            shell.user_ns[given.output] = result

    ask.__doc__ = f"Ask an agent the question below; the answer streams into the cell.\n\n{parser.format_help()}"
    shell.register_magic_function(ask, "cell", "ask")


def _find_agent(names: Mapping[str, Any], name: str | None) -> Any:
    """Return the agent of a variable, or the one that is meant without a name.

    Raises:
        DefinitionError: No agent is there, or several are and none is named.
    """
    agents = {key: value for key, value in names.items() if not key.startswith("_") and _is_agent(value)}
    if name is None and len({*map(id, agents.values())}) == 1:
        return next(iter(agents.values()))
    if (name or "agent") in agents:
        return agents[name or "agent"]
    if not agents:
        raise DefinitionError("%%ask: there is no agent here. Make one: agent = JsonAgent([my_function])")
    known = f"There are: {', '.join(agents)}."
    if name is None:
        raise DefinitionError(f"%%ask: name the agent, %%ask {next(iter(agents))}. {known}")
    raise DefinitionError(f"%%ask: {name} is no agent. {suggest(name, agents, then=known)}")


def _is_agent(value: Any) -> bool:
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("stream", "clear_history"))


def _show_answer(agent: Any, query: str, how: Mapping[str, Any]) -> Any:
    """Answer a query, show the answer in the cell while it is written, and return the result."""
    result = None
    answer = _ShownAnswer() if find_kernel() is not None else _PrintedAnswer()
    draw = draw_frames(answer.draw)
    with show_in_cell() as show:
        for event in agent.stream(query, **how):
            show(event)
            draw(event)
            if isinstance(event, RunFinished):
                result = event.result
                answer.finish(mask(result.text))
    return result


class _PrintedAnswer:
    """The answer of a run, printed as it arrives."""

    def __init__(self) -> None:
        self._is_begun = False

    def draw(self, frame: Frame) -> None:
        """Print a piece of the answer."""
        match frame:
            case AnswerPiece(agent=""):
                self._is_begun = True
                self._write(frame.text)
            case AnswerWithdrawn(agent=""):
                self._is_begun = False
                self._write(VOID_NOTICE)

    def finish(self, text: str) -> None:
        """Print the answer, if it did not arrive in pieces, and end the line."""
        self._write("\n" if self._is_begun else f"{text}\n")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


class _ShownAnswer:
    """The answer of a run as Markdown in a cell, drawn again as it grows."""

    def __init__(self) -> None:
        self._output = CellOutput(None, sys.modules["IPython"].display.display)
        self._pieces: list[str] = []
        self._next = 0.0

    def draw(self, frame: Frame) -> None:
        """Take a piece of the answer, and draw it if it is time."""
        match frame:
            case AnswerPiece(agent=""):
                self._pieces.append(frame.text)
                if time.monotonic() >= self._next:
                    self._show()
            case AnswerWithdrawn(agent=""):
                self._pieces.clear()
                self._next = 0.0

    def finish(self, text: str) -> None:
        """Show the whole answer."""
        self._pieces = [text]
        self._show()

    def _show(self) -> None:
        """Draw the text; a long one is drawn less often, so that the cost stays in proportion to its length."""
        began = time.monotonic()
        text = "".join(self._pieces)
        self._output.show(_prose_view(text, MAX_STREAMED_BYTES), text)
        now = time.monotonic()
        self._next = now + max(REDRAW_SECONDS, 10 * (now - began))
