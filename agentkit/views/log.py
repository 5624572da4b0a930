"""The run as lines for people: into the log (loguru), and on request straight to the terminal or the notebook.

agentkit logs as a library should: it is silent until the program says `logger.enable("agentkit")`, and it never adds
or removes a sink.  `show()` is the short way for scripts and notebooks: it prints the lines itself, past the log.

INFO is the run, DEBUG each request and reply besides, WARNING what did not go as it should: errors of tools, repairs,
retries, landings.  Secrets are masked in all of it; also in the traceback of a tool, which is therefore logged as text:
loguru would print the variables of its frames.
"""

import json
import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TextIO

from loguru import logger

from ..core.context import ENCLOSING_AGENTS
from ..core.errors import DefinitionError
from ..core.flow import Event
from ..core.masking import mask
from ..core.messages import Message, text_of
from ..core.notebook import find_kernel
from ..engine.result import SubRun
from ..tools.execution.call_tools import ToolFinished
from .lines import LEVELS, STYLES, WIDTH, Level, Line, lines, presentable

LONGEST = 1_000
"""How many characters of a value are shown."""
NARROWEST = 20
"""Columns of a text below which it is no use to wrap it."""
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_MESSAGE_STYLES = {"system": "dim", "user": "bold", "assistant": "cyan", "tool": "green"}
_lazily: Any = logger.opt(lazy=True)
_asked_for = getattr(getattr(logger, "_core", None), "activation_list", ())
if not any("agentkit.".startswith(name) for name, _ in _asked_for):
    logger.disable("agentkit")  # unless the host has asked for the lines already, before there was anything to log


def log(event: Event) -> None:
    """The listener that every agent has: the lines of an event go to loguru, and to where `show` said."""
    if event.is_piece or isinstance(event, SubRun):  # that agent has this listener, too
        return
    if not _printers and _is_disabled():
        return
    inside = ENCLOSING_AGENTS.get()
    for line in lines(event):
        line = replace(line, inside=inside) if inside else line
        _lazily.log(line.level, "{}", partial(_logged, line))  # an argument, so that braces in the text stay text
        for printer in _printers:
            printer.write(line)
    exception = event.result.exception if isinstance(event, ToolFinished) else None
    if exception is not None:
        _lazily.debug("{}", partial(_raised, exception))


def _is_disabled() -> bool:
    """Return whether loguru is known to drop the lines of this module; loguru stores it after the first line."""
    return getattr(getattr(logger, "_core", None), "enabled", {}).get(__name__) is False


def _logged(line: Line) -> str:
    return f"{line.role:<{WIDTH}}{line.shown(LONGEST)}".replace("\n", " ⏎ ")


def _raised(exception: BaseException) -> str:
    return mask(f"the tool raised\n{''.join(traceback.format_exception(exception))}")


@dataclass(frozen=True, slots=True)
class Printer:
    """Writes lines to a stream: those from `level` on, values cut after `longest` characters, coloured if wanted."""

    file: TextIO
    colour: bool
    level: Level = "INFO"
    longest: int | None = LONGEST

    def write(self, line: Line) -> None:
        """Write one line: who speaks in the first column, the text in the second."""
        if LEVELS.index(line.level) < LEVELS.index(self.level):
            return
        rows = self._wrapped(line.shown(self.longest))
        is_whole = line.role in ("error", "warning")  # else only the first column has the style
        style = STYLES[line.role]
        label = f"{line.role:<{WIDTH}}"
        first = self.styled(label + rows[0], style) if is_whole else self.styled(label, style) + rows[0]
        others = (" " * WIDTH + (self.styled(row, style) if is_whole else row) for row in rows[1:])
        self.file.write("\n".join([*(row.rstrip() for row in (first, *others)), ""]))  # at once: threads may write
        self.file.flush()

    def styled(self, text: str, style: str) -> str:
        """The text in a style ("bold green"), where colours are wanted."""
        codes = ";".join(_CODES[word] for word in style.split())
        return f"\033[{codes}m{text}\033[0m" if self.colour and codes else text

    def listen(self, event: Event) -> None:
        """The listener that prints an event's lines."""
        for line in lines(event):
            self.write(line)

    def _wrapped(self, text: str) -> list[str]:
        """The rows of a text, which fit into a terminal."""
        rows = text.split("\n")
        columns = (shutil.get_terminal_size().columns if self.file.isatty() else 0) - WIDTH
        if columns < NARROWEST:
            return rows
        return [part for row in rows for part in textwrap.wrap(row, columns) or [""]]


_printers: list[Printer] = []


def show(
    file: TextIO | None = None, *, colour: bool | None = None, level: Level = "INFO", longest: int | None = LONGEST
) -> None:
    """Print every run from now on as it goes: what the model says, each call with arguments and result, the answer.

    `file` is where to (without it: standard error, or the cell's output in a notebook); `colour` is by default on for
    terminals and notebooks, unless the environment has NO_COLOR.  `level` "DEBUG" prints requests and replies, too,
    "WARNING" only what did not go as it should.  Of a value `longest` characters are shown; None shows all of it.
    Calling it again changes these; `hide()` ends it.  Raises `DefinitionError` for a level that there is not.
    """
    if level not in LEVELS:
        raise DefinitionError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    _printers[:] = [printer(file, colour=colour, level=level, longest=longest)]


def hide() -> None:
    """End what `show` began."""
    _printers.clear()


def is_shown() -> bool:
    """Whether `show` prints the runs."""
    return bool(_printers)


def printer(
    file: TextIO | None = None, *, colour: bool | None = None, level: Level = "INFO", longest: int | None = LONGEST
) -> Printer:
    """The printer that suits `file`."""
    in_notebook = find_kernel() is not None
    file = file or (sys.stdout if in_notebook else sys.stderr)
    if colour is None:
        in_cell = in_notebook and file in (sys.stdout, sys.stderr)
        colour = (in_cell or file.isatty()) and not os.environ.get("NO_COLOR")  # https://no-color.org
    return Printer(file, colour, level, longest)


def show_messages(messages: Iterable[Message], file: TextIO | None = None) -> None:
    """Print a conversation to standard output (or `file`): each message under its role, calls as indented JSON."""
    out = printer(file or sys.stdout)
    for message in messages:
        role = message["role"]
        print(out.styled(f"[{role.upper()}]", _MESSAGE_STYLES.get(role, "")), file=out.file)
        calls = (json.dumps(call, indent=4, ensure_ascii=False) for call in message.get("tool_calls") or ())
        for text in filter(None, (text_of(message), *calls)):
            print(presentable(text), file=out.file)
        print(file=out.file)
