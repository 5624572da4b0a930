"""The run as lines for people: in the log (loguru) and, on request, directly in the terminal or the notebook.

agentkit logs as a library should: it is silent until the program calls `logger.enable("agentkit")`, and it never adds
or removes a sink.  `show()` is the short way for scripts and notebooks: it prints the lines itself, without the log.

INFO is the run, DEBUG adds each request and reply, WARNING is what failed or was repaired: errors of tools, repairs,
retries, final requests.  Secrets are masked in all lines, also in the traceback of a tool.  The traceback is therefore
logged as text: loguru would print the variables of its frames.
"""

import os
import shutil
import sys
import textwrap
import traceback
from dataclasses import replace
from functools import partial
from typing import Any, Self, TextIO

from loguru import logger

from ..core.ask_person import ask_terminal
from ..core.context import AgentPath, enclosing
from ..core.errors import DefinitionError
from ..core.flow import Event
from ..core.host import find_kernel
from ..core.values import frozen
from ..engine.result import SubRun
from ..tools.execution.turn import ToolFinished
from .frames import Frame
from .lines import LEVELS, ROLE_COLUMN_WIDTH, ROLE_STYLES, Level, Line, RunLines, render_event, sanitize

MAX_LOGGED_VALUE_CHARS = 1_000
"""Characters of a value that are shown."""
MIN_WRAP_COLUMNS = 20
"""Columns of the text below which it is not wrapped."""
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_lazy_logger: Any = logger.opt(lazy=True)
_core = getattr(logger, "_core", None)
_activations = getattr(_core, "activation_list", ())
if not any("agentkit.".startswith(name) for name, _ in _activations):
    logger.disable("agentkit")  # unless the program enabled or disabled it before this import


def log_event(event: Event) -> None:
    """Send the lines of an event to loguru and to the printer that `show` set; every agent has this listener."""
    if event.is_piece or isinstance(event, SubRun):  # the inner agent has this listener, too
        return
    if not _printers and getattr(_core, "enabled", {}).get(__name__) is False:
        return
    path = enclosing(AgentPath)
    agents = path.names if path else ()
    for line in render_event(event):
        line = replace(line, agents=agents) if agents else line
        # the text is an argument, so that loguru does not interpret its braces
        _lazy_logger.log(line.level, "{}", partial(_format_log_line, line))
        for printer in _printers:
            printer.write(line)
    exception = event.result.exception if isinstance(event, ToolFinished) else None
    if exception is not None:
        _lazy_logger.debug("{}", partial(_format_traceback, exception))


def _format_log_line(line: Line) -> str:
    return f"{line.role:<{ROLE_COLUMN_WIDTH}}{line.format(MAX_LOGGED_VALUE_CHARS)}".replace("\n", " ⏎ ")


def _format_traceback(exception: BaseException) -> str:
    return sanitize(f"the tool raised\n{''.join(traceback.format_exception(exception))}")


@frozen
class Printer:
    """Writes lines from `level` on to a stream; `longest` characters of a value are written, None for all."""

    file: TextIO
    colour: bool
    level: Level = "INFO"
    longest: int | None = MAX_LOGGED_VALUE_CHARS

    def write(self, line: Line) -> None:
        """Write one line: the role in the first column, the text in the second."""
        if LEVELS.index(line.level) < LEVELS.index(self.level):
            return
        rows = self._wrap(line.format(self.longest))
        is_whole = line.role in ("error", "warning")  # else only the first column has the style
        style = ROLE_STYLES[line.role]
        label = f"{line.role:<{ROLE_COLUMN_WIDTH}}"
        first = self.style(label + rows[0], style) if is_whole else self.style(label, style) + rows[0]
        others = (" " * ROLE_COLUMN_WIDTH + (self.style(row, style) if is_whole else row) for row in rows[1:])
        self.file.write("\n".join([*(row.rstrip() for row in (first, *others)), ""]))  # one write: threads may print
        self.file.flush()

    def style(self, text: str, style: str) -> str:
        """Return the text in a style ("bold green") if colours are on."""
        codes = ";".join(_CODES[word] for word in style.split())
        return f"\033[{codes}m{text}\033[0m" if self.colour and codes else text

    def _wrap(self, text: str) -> list[str]:
        """Split a text into rows that fit into the terminal."""
        rows = text.split("\n")
        columns = (shutil.get_terminal_size().columns if self.file.isatty() else 0) - ROLE_COLUMN_WIDTH
        if columns < MIN_WRAP_COLUMNS:
            return rows
        return [part for row in rows for part in textwrap.wrap(row, columns) or [""]]


_printers: list[Printer] = []


def show(
    file: TextIO | None = None,
    *,
    colour: bool | None = None,
    level: Level = "INFO",
    longest: int | None = MAX_LOGGED_VALUE_CHARS,
) -> None:
    """Print every run from now on while it works: the model's text, each call with arguments and result, the answer.

    A second call replaces these settings; `hide()` stops the printing.

    Args:
        file: The stream; default: standard error, or the cell's output in a notebook.
        colour: Whether to use colours; default: in terminals and notebooks, unless the environment has NO_COLOR or
            TERM=dumb.
        level: "DEBUG" adds requests and replies, "WARNING" is restricted to what failed or was repaired.
        longest: Characters of a value that are printed; None prints all.

    Raises:
        DefinitionError: `level` is not one of the three, or `file` is no stream.
    """
    if file is not None and not hasattr(file, "write"):
        raise DefinitionError(
            f"log.show: file must be a stream, got {file!r:.80}. A level is show(level='DEBUG'), "
            "a file show(open(path, 'a'))."
        )
    if level not in LEVELS:
        raise DefinitionError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    _printers[:] = [make_printer(file, colour=colour, level=level, longest=longest)]


def hide() -> None:
    """Stop what `show` started."""
    _printers.clear()


def is_shown() -> bool:
    """Return whether `show` prints the runs."""
    return bool(_printers)


def make_printer(
    file: TextIO | None = None,
    *,
    colour: bool | None = None,
    level: Level = "INFO",
    longest: int | None = MAX_LOGGED_VALUE_CHARS,
) -> Printer:
    """Return the printer for `file`; the arguments are those of `show`."""
    in_notebook = find_kernel() is not None
    file = file or (sys.stdout if in_notebook else sys.stderr)
    if colour is None:
        in_cell = in_notebook and file in (sys.stdout, sys.stderr)
        has_colours = in_cell or (file.isatty() and os.environ.get("TERM") != "dumb")
        colour = has_colours and not os.environ.get("NO_COLOR")  # https://no-color.org
    return Printer(file, colour, level, longest)


class PlainView:
    """Draws the frames of a run on standard error, line by line; a context manager like `LiveView`."""

    def __init__(self) -> None:
        self._lines = RunLines()
        self._printer = make_printer(sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def draw(self, frame: Frame) -> None:
        """Write the lines of a frame."""
        for line in self._lines.read_progress(frame):
            self._printer.write(line)

    def read(self, prompt: str) -> str:
        """Ask the person at the terminal; raise `EOFError` without a terminal."""
        return ask_terminal(prompt)


class SilentView(PlainView):
    """A view that shows nothing but can still ask."""

    def draw(self, frame: Frame) -> None:
        """Ignore a frame."""
