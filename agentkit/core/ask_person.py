"""The person at the terminal or in the notebook, who is asked whether a call may be made."""

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
from .threads import is_given_up

SHOWN = 10_000
"""Characters of one argument that the person reads."""
QUESTION = 'Allow it? y, n, a reason to refuse it, or other arguments as {"...": ...}: '

_ONE_AT_A_TIME = Lock()
_TICK = 0.2
"""Seconds between two looks at whether the run still waits for the person's word."""


@dataclass(frozen=True, slots=True)
class Person:
    """Asks whether a call may be made: yes, no, no for a reason that the model reads, or yes with other arguments.

    `read` shows a text and returns what the person writes; by default it is `input`.  When nobody can be asked (there
    is no terminal, the input is at its end) the run is paused.
    """

    read: Callable[[str], str] | None = None

    def __call__(self, call: ToolCall, problem: str = "") -> bool | str | dict[str, Any] | type[Paused]:
        """What the person says about `call`; `problem` is what was wrong with the arguments they gave last."""
        text = f"\n{described(call)}\n"
        while True:
            complaint = f"{printable(problem)}\n" if problem else ""
            try:
                with _ONE_AT_A_TIME:
                    said = (self.read or input)(f"{text}{complaint}{QUESTION}").strip()
            except (EOFError, OSError, RuntimeError):  # a lost standard input; a notebook that cannot ask
                return Paused
            if said.lower() in ("y", "yes"):
                return True
            if said.lower() in ("n", "no"):
                return False
            if said and not said.startswith("{"):
                return said
            try:
                return dict(json.loads(said))
            except ValueError as error:
                problem = f"That is no JSON object: {error}." if said else ""


def ask_terminal(prompt: str) -> str:
    """What the person at the terminal writes after `prompt`, which goes to standard error.

    Raises `EOFError` when there is no terminal, and when nobody waits for the answer any longer.
    """
    if not sys.stdin.isatty():
        raise EOFError
    sys.stderr.write(prompt)
    sys.stderr.flush()
    while os.name == "posix" and not select.select([sys.stdin], [], [], _TICK)[0]:
        if is_given_up():
            raise EOFError
    if not (line := sys.stdin.readline()):
        raise EOFError
    return line


def described(call: ToolCall) -> str:
    """The call for a person's eyes: each argument in a line of its own, nothing in it that a terminal would obey."""
    try:
        given = json.loads(call.arguments)
    except ValueError:
        given = call.arguments
    entries = given.items() if isinstance(given, dict) else [("arguments", given)]
    lines = [f"  {printable(str(key))}: {printable(json.dumps(value, ensure_ascii=False))}" for key, value in entries]
    return "\n".join([f"The agent wants to call {printable(call.name)}:", *lines])


def printable(text: str, most: int = SHOWN) -> str:
    """The text with escapes for what moves the cursor or turns the writing; of a longer one `most` characters."""
    shown = "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text[:most])
    return shown if len(text) <= most else f"{shown}... ({len(text) - most:,} more characters)"
