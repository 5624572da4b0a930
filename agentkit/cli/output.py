"""The output of all commands: answers on standard output, all else on standard error; and the exit codes.

A run is shown while it works: live at a terminal, in plain lines elsewhere.
"""

import atexit
import builtins
import codecs
import errno
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, redirect_stdout, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

import agentkit

if sys.platform != "win32":
    import termios

FAILED = 1
WRONG_USAGE = 2
PAUSED = 3
INTERRUPTED = 130
PIPE_CLOSED = 141
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


SHOW_CURSOR = b"\x1b[?25h"
PASTE_PLAINLY = b"\x1b[?2004l"


@contextmanager
def restored_terminal() -> Iterator[None]:
    """Leave the terminal as it was, also when a signal ends or stops the program: it may be without echo or cursor."""
    screens = [stream.fileno() for stream in (sys.stdout, sys.stderr) if stream.isatty()]
    has_terminal = screens or sys.stdin.isatty()
    if sys.platform == "win32" or not has_terminal or threading.current_thread() is not threading.main_thread():
        yield
        return
    mode = _read_mode()

    def end(number: int, _: object) -> None:
        now = _read_mode()
        _set_mode(mode)
        for screen in screens if os.environ.get("TERM") != "dumb" else ():
            with suppress(OSError):  # the terminal is gone
                os.write(screen, SHOW_CURSOR + PASTE_PLAINLY)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, end)  # a stopped program continues here
        _set_mode(now)

    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
    handled = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, end)
    try:
        yield
    finally:
        _set_mode(mode)
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the exit writes no traceback


def _read_mode() -> list[Any] | None:
    """Return the mode of the terminal; None without one, and for a program in the background, which cannot set it."""
    try:
        is_ours = os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
        return termios.tcgetattr(sys.stdin) if is_ours else None
    except (OSError, ValueError, termios.error):
        return None


def _set_mode(mode: list[Any] | None) -> None:
    """Set the mode of the terminal if it is another one."""
    if mode is not None and _read_mode() not in (mode, None):
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(sys.stdin, termios.TCSANOW, mode)


def print_error(error: BaseException) -> None:
    """Print an error as one line to standard error."""
    print_note(f"agentkit: {format_error(error)}")


def format_error(error: BaseException) -> str:
    """Return an error as one line."""
    text = " ".join(str(error).split())
    if isinstance(error, agentkit.Paused):
        wanted = [f"{call.name} needs an approval" for call in error.calls]
        wanted += [f"a tool asks: {' '.join(question.text.split())}" for question in error.questions]
        how = f". Decide with agentkit resume {error.run_id} and --approve, --deny or --answer" if error.run_id else ""
        return f"{'; '.join(wanted) or text}, and no terminal is attached to ask for it{how}"
    if isinstance(error, agentkit.AgentkitError | OSError | click.ClickException):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def exit_codes() -> Iterator[None]:
    """Print an error in the block as one line, and exit with its code.

    A reader that closes the pipe ends the program without a word, with the code of one that SIGPIPE ends.
    """
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (agentkit.AgentkitError, OSError) as error:
        if getattr(error, "errno", None) != errno.EPIPE:
            print_error(error)
            sys.exit(exit_code(error))
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # not a file: the stream of another program
                os.dup2(nothing, stream.fileno())
        sys.exit(PIPE_CLOSED)


def exit_code(error: BaseException) -> int:
    """Return the exit code for an error that ended a run."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, agentkit.DefinitionError | agentkit.extend.JournalNotFound):
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


@contextmanager
def clean_output() -> Iterator[None]:
    """Send what the user's code prints inside the block to standard error, unless standard output is a terminal.

    A program that reads standard output expects the answer alone there.
    """
    with nullcontext() if sys.stdout.isatty() else redirect_stdout(sys.stderr):
        yield


@contextmanager
def answered_input(read: Callable[[str], str]) -> Iterator[None]:
    """Let `read`, which shows a prompt, take the place of `input` in tools inside the block, with `clean_output`.

    `input` cannot be cancelled: its thread would keep the terminal after an interrupt, and Python aborts at its own end
    while a thread is in it.
    """
    own = builtins.input
    lock = threading.Lock()

    def ask(prompt: object = "", /) -> str:
        if not sys.stdin.isatty():
            click.echo(prompt, nl=False, err=True)
            if not (line := sys.stdin.readline()):
                raise EOFError
            return line.removesuffix("\n")
        with lock:
            return read(str(prompt)).removesuffix("\n")

    builtins.input = ask
    try:
        with clean_output():
            yield
    finally:
        builtins.input = own
        with lock:  # a question whose run was cancelled ends, and leaves the terminal
            pass


def make_view(*, quiet: bool = False) -> Any:
    """Return what draws the frames of a run on standard error, such as `LiveView`; its `read` asks the person."""
    if quiet:
        return agentkit.extend.SilentView()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and find_spec("rich"):
        return agentkit.extend.LiveView()
    return agentkit.extend.PlainView()
