"""Ask the person at the terminal or in the notebook whether a tool call may be made."""

import json
import os
import select
import sys
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

from .errors import Paused
from .messages import ToolCall
from .threads import is_cancelled

MAX_ARGUMENT_CHARS = 10_000
"""Characters of one argument that the person is shown."""
QUESTION = 'Allow it? y, n, a reason to refuse it, or other arguments as {"...": ...}: '

_PROMPT_LOCK = Lock()
_POLL_SECONDS = 0.2
"""How often a waiting prompt checks whether its run was cancelled."""


@dataclass(frozen=True, slots=True)
class Person:
    """Ask a person whether a call may be made.

    Args:
        read: Shows a prompt and returns what the person enters; default: `input`.
    """

    read: Callable[[str], str] | None = None

    def __call__(self, call: ToolCall, problem: str = "") -> bool | str | dict[str, Any] | type[Paused]:
        """Return the person's decision about `call`.

        Args:
            call: The call to decide about.
            problem: What was wrong with the arguments that the person entered last; "" for the first question.

        Returns:
            True to allow the call, False to refuse it, a text to refuse it with a reason that the model reads, a dict
            to allow it with these arguments, or `Paused` if there is no terminal or its input has ended.
        """
        text = f"\n{describe_call(call)}\n"
        while True:
            complaint = f"{escape_unprintable(problem)}\n" if problem else ""
            try:
                with _PROMPT_LOCK:
                    entry = (self.read or input)(f"{text}{complaint}{QUESTION}").strip()
            except (EOFError, OSError, RuntimeError):  # a lost standard input; a notebook without a frontend
                return Paused
            if entry.lower() in ("y", "yes"):
                return True
            if entry.lower() in ("n", "no"):
                return False
            if entry and not entry.startswith("{"):
                return entry
            try:
                return dict(json.loads(entry))
            except ValueError as error:
                problem = f"That is no JSON object: {error}." if entry else ""


def ask_terminal(prompt: str) -> str:
    """Write `prompt` to standard error and return the line that the person enters.

    Raises:
        EOFError: There is no terminal, its input has ended, or the run was cancelled while it waited.
    """
    if not sys.stdin.isatty():
        raise EOFError
    sys.stderr.write(prompt)
    sys.stderr.flush()
    while os.name == "posix" and not select.select([sys.stdin], [], [], _POLL_SECONDS)[0]:
        if is_cancelled():
            raise EOFError
    if not (line := sys.stdin.readline()):
        raise EOFError
    return line


def describe_call(call: ToolCall) -> str:
    """Return the call as text for a person: one line per argument, with control characters escaped."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    entries = arguments.items() if isinstance(arguments, dict) else [("arguments", arguments)]
    lines = [f"The agent wants to call {escape_unprintable(call.name)}:"]
    for key, value in entries:
        shown = escape_unprintable(json.dumps(value, ensure_ascii=False))
        lines.append(f"  {escape_unprintable(str(key))}: {shown}")
    return "\n".join(lines)


def escape_unprintable(text: str, max_chars: int = MAX_ARGUMENT_CHARS) -> str:
    """Escape what moves the cursor or reverses the writing direction, and truncate to `max_chars` characters."""
    shown = "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text[:max_chars])
    return shown if len(text) <= max_chars else f"{shown}... ({len(text) - max_chars:,} more characters)"
