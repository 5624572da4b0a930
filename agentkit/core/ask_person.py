"""Ask the person at the terminal or in the notebook: whether a call may be made, and what tools want to know."""

import json
import os
import select
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

from .approval_question import PendingCall, PersonAnswer, make_question, read_answer
from .errors import Paused
from .messages import ToolCall
from .notebook import find_kernel
from .question_form import read_value
from .questions import Question
from .threads import is_cancelled

if sys.platform == "win32":
    import msvcrt
else:
    import termios

MAX_ARGUMENT_CHARS = 10_000
"""Characters of one argument that the person is shown."""
MAX_ANSWER_BYTES = 65_536
"""Bytes of an answer that are read at once."""
QUIET_SECONDS = 0.15
"""A question is shown when this time has passed without input: text that was typed or pasted before is no answer."""
BURST_SECONDS = 0.05
"""Lines that follow each other within this time were pasted together; they are one answer."""

_PROMPT_LOCK = Lock()
_POLL_SECONDS = 0.2
"""How often a waiting prompt checks whether its run was cancelled."""


@dataclass(frozen=True, slots=True)
class Person:
    """Ask a person whether a call may be made, or a question of a tool.

    `read` shows a prompt and returns what the person enters; default: `ask_terminal` at a terminal, else `input`.
    """

    read: Callable[[str], str] | None = None

    def __call__(self, call: ToolCall) -> bool | str | dict[str, Any] | type[Paused]:
        """Return the person's decision about one call; see `ask_about`."""
        answers = self.ask_about([PendingCall(call)])
        return answers[call.id].decision if answers else Paused

    def ask_about(self, pending: Sequence[PendingCall]) -> dict[str, PersonAnswer]:
        """Ask one question about all these calls, again until each has an answer; return the answers by call id.

        Some are missing if there is no terminal or its input has ended.
        """
        answers: dict[str, PersonAnswer] = {}
        problem = ""
        while left := [entry for entry in pending if entry.call.id not in answers]:
            complaint = f"{escape_unprintable(problem)}\n" if problem else ""
            try:
                with _PROMPT_LOCK:
                    text = (self.read or _read)(f"\n{describe_calls(left)}\n{complaint}{make_question(left)}")
            except (EOFError, OSError, RuntimeError):  # a lost standard input; a notebook without a frontend
                return answers
            try:
                answers |= {left[place].call.id: answer for place, answer in read_answer(text, left).items()}
                problem = ""
            except ValueError as error:
                problem = str(error)
        return answers

    def answer(self, question: Question, problem: str = "") -> Any:
        """Return the person's answer to a question of a tool, as JSON data; None if no person can be asked."""
        try:
            with _PROMPT_LOCK:
                return read_value(question, partial(_ask_line, self.read or _read), problem)
        except (EOFError, OSError, RuntimeError):
            return None


def ask_line(prompt: str) -> str | None:
    """Return the line that the person at the terminal or in the notebook enters; None if no person can be asked."""
    try:
        with _PROMPT_LOCK:
            return _ask_line(_read, prompt)
    except (EOFError, OSError, RuntimeError):  # a lost standard input; a notebook without a frontend
        return None


def _ask_line(read: Callable[[str], str], text: str) -> str:
    return read("\n".join(map(escape_unprintable, text.split("\n")))).strip()


def _read(prompt: str) -> str:
    is_terminal = find_kernel() is None and sys.stdin is not None and sys.stdin.isatty()
    return ask_terminal(prompt) if is_terminal else input(prompt)


def ask_terminal(prompt: str) -> str:
    """Write `prompt` to standard error and return what the person enters after it is shown.

    Input from before the prompt is discarded.  Pasted lines are returned together.

    Raises:
        EOFError: There is no terminal, its input has ended, or the run was cancelled while it waited.
    """
    if not sys.stdin.isatty():
        raise EOFError
    _discard_input()
    sys.stderr.write(prompt)
    sys.stderr.flush()
    entry = sys.stdin.readline() if sys.platform == "win32" else _read_burst()
    if not entry:
        raise EOFError
    return entry


def _read_burst() -> str:
    """Return the next line of the terminal with the lines pasted after it; "" at the end of the input.

    It bypasses the buffer of `sys.stdin`, which may hold lines from before the question.
    """
    while not _has_input(_POLL_SECONDS):
        if is_cancelled():
            return ""
    entry = os.read(sys.stdin.fileno(), MAX_ANSWER_BYTES)
    while entry and _has_input(BURST_SECONDS) and (more := os.read(sys.stdin.fileno(), MAX_ANSWER_BYTES)):
        entry += more
    return entry.decode(sys.stdin.encoding, errors="replace")


def _discard_input() -> None:
    """Discard the input of the terminal until it is quiet; raise `EOFError` if the run is cancelled meanwhile."""
    if sys.platform == "win32":
        while msvcrt.kbhit():
            msvcrt.getwch()
        return
    while True:
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        if not _has_input(QUIET_SECONDS):
            break
        if is_cancelled():
            raise EOFError
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)  # a line that has no end yet


def _has_input(seconds: float) -> bool:
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def describe_calls(pending: Sequence[PendingCall]) -> str:
    """Return the calls as text for a person, numbered if there are several, each with its reason."""
    parts = []
    for number, entry in enumerate(pending, 1):
        text = describe_call(entry.call)
        lines = [f"{number}. {text}" if len(pending) > 1 else text]
        lines += [escape_unprintable(f"  It waits: {entry.reason}")] if entry.reason else []
        lines += [escape_unprintable(f"  {entry.problem}")] if entry.problem else []
        parts.append("\n".join(lines))
    return "\n".join(parts)


def describe_call(call: ToolCall) -> str:
    """Return the call as text for a person: one line per argument, with control characters escaped."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    entries = arguments.items() if isinstance(arguments, dict) else [("arguments", arguments)]
    lines = [f"The agent wants to call {escape_unprintable(call.name)}:"]
    for key, value in entries:
        lines.append(f"  {escape_unprintable(str(key))}: {_show_ends(json.dumps(value, ensure_ascii=False))}")
    return "\n".join(lines)


def _show_ends(text: str) -> str:
    """Return the escaped text; of a long one the head and the tail, because both can decide about a call."""
    if len(text) <= MAX_ARGUMENT_CHARS:
        return escape_unprintable(text)
    half = MAX_ARGUMENT_CHARS // 2
    left_out = f"... ({len(text) - 2 * half:,} characters left out) ..."
    return f"{escape_unprintable(text[:half])}{left_out}{escape_unprintable(text[-half:])}"


def escape_unprintable(text: str, max_chars: int = MAX_ARGUMENT_CHARS) -> str:
    """Escape what moves the cursor or reverses the writing direction, and truncate to `max_chars` characters."""
    shown = "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text[:max_chars])
    return shown if len(text) <= max_chars else f"{shown}... ({len(text) - max_chars:,} more characters)"
