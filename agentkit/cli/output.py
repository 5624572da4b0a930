"""The output of all commands: answers on standard output, all else on standard error; and the exit codes.

A run is shown while it works: live at a terminal, in plain lines elsewhere.
"""

import codecs
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

import agentkit

FAILED = 1
WRONG_USAGE = 2
PAUSED = 3
INTERRUPTED = 130
"""The exit codes besides 0; 2 is click's code, too."""


def print_text(text: str) -> None:
    """Print to standard output: unchanged for a program, with escaped control characters for a terminal."""
    click.echo(_escape_controls(text) if sys.stdout.isatty() else text)


def print_answer(text: str) -> None:
    """Print an answer to standard output: as Markdown at a terminal with rich, unchanged for a program."""
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and find_spec("rich"):
        agentkit.extend.print_markdown(text)
    else:
        print_text(text)


def dump_json(value: Any, indent: int | None = None) -> str:
    """Return data as JSON, with secrets masked, and escapes for all that a terminal would obey."""
    text = json.dumps(agentkit.extend.mask_data(value), ensure_ascii=False, indent=indent)
    return "".join(mark if mark.isprintable() or mark == "\n" else json.dumps(mark)[1:-1] for mark in text)


def print_note(text: str) -> None:
    """Print a note to standard error."""
    click.echo(_escape_controls(agentkit.extend.mask(text)), err=True)


OWN_FOLDER = str(Path(agentkit.__file__).parent)


@contextmanager
def write_warnings_plainly() -> Iterator[None]:
    """Write a warning of agentkit inside the block as one line, without its place in the code of agentkit."""
    before = warnings.formatwarning

    def write(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        is_own = filename.startswith(OWN_FOLDER)
        return f"agentkit: {message}\n" if is_own else before(message, category, filename, lineno, line)

    warnings.formatwarning = write
    try:
        yield
    finally:
        warnings.formatwarning = before


@contextmanager
def usage_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Raise a `DefinitionError` in the block, and errors of other kinds, as wrong usage of the command."""
    wrong: tuple[type[Exception], ...] = (agentkit.DefinitionError, *kinds)
    try:
        yield
    except wrong as error:
        raise click.UsageError(str(error)) from error


def escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Return the escapes of JSON for characters that the encoding of the output lacks; a handler of codecs."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error("agentkit", escape_unencodable)


def print_error(error: BaseException) -> None:
    """Print an error as one line to standard error."""
    print_note(f"agentkit: {format_error(error)}")


def format_error(error: BaseException) -> str:
    """Return an error as one line."""
    text = " ".join(str(error).split())
    if isinstance(error, agentkit.Paused):
        wanted = [f"{call.name} needs an approval" for call in error.calls]
        wanted += [f"a tool asks: {' '.join(question.text.split())}" for question in error.questions]
        return f"{'; '.join(wanted) or text}, and no terminal is attached to ask for it"
    if isinstance(error, agentkit.AgentkitError | OSError | click.ClickException):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def exit_code(error: BaseException) -> int:
    """Return the exit code for an error that ended a run."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, agentkit.extend.JournalNotFound):
        return WRONG_USAGE
    return PAUSED if isinstance(error, agentkit.Paused) else FAILED


def _escape_controls(text: str) -> str:
    rows = text.expandtabs(4).split("\n")
    return "\n".join(row if row.isprintable() else agentkit.extend.escape_unprintable(row, len(row)) for row in rows)


def follow(agent: "agentkit.JsonAgent[Any]", query: Any, *draw: Callable[[Any], None], **how: Any) -> Any:
    """Run an agent, send the frames of the run to each of `draw`, and return the result."""
    finished: list[Any] = []

    def keep(event: Any) -> None:
        if isinstance(event, agentkit.events.RunFinished):
            finished[:] = [event.result]

    listeners = [keep, *how.pop("listeners", ())]
    frames = agentkit.extend.stream_frames(agent, query, **how, listeners=listeners)
    with closing(frames):
        for frame in frames:
            for show in draw:
                show(frame)
    return finished[0]


def make_view(*, quiet: bool = False) -> Any:
    """Return what draws the frames of a run on standard error, such as `LiveView`; its `read` asks the person."""
    if quiet:
        return agentkit.extend.SilentView()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and find_spec("rich"):
        return agentkit.extend.LiveView()
    return agentkit.extend.PlainView()
