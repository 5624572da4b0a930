"""What a person writes in a chat: lines with editing and a history, one after the other or several as one."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from .output import remark

HISTORY = Path("~/.agentkit_history")
MOST_LINES = 1_000
END = '"""'
"""Begins and ends a text of many lines."""


def line() -> str | None:
    """What the person writes next; None at the end."""
    parts: list[str] = []
    is_text = False
    while True:
        try:
            part = input(_prompt(is_first=not parts and not is_text))
        except EOFError:
            return "\n".join(parts) if parts else None
        except KeyboardInterrupt:  # what was written so far is dropped
            remark("\nCtrl-D or /quit leaves" if not parts and not is_text else "")
            parts, is_text = [], False
            continue
        if not is_text and not parts and part.lstrip().startswith(END):
            part, is_text = part.lstrip().removeprefix(END), True
        if is_text:
            parts.append(part.rstrip().removesuffix(END))
            if part.rstrip().endswith(END):
                return "\n".join(parts)
        elif part.endswith("\\"):
            parts.append(part[:-1])
        else:
            return "\n".join([*parts, part])


def _prompt(*, is_first: bool) -> str:
    if not sys.stdin.isatty():
        return ""
    return "> " if is_first else "... "


def remember_lines(commands: Iterable[str]) -> None:
    """Line editing, the lines of earlier chats, and completion of `commands`, where Python has readline."""
    if not sys.stdin.isatty():
        return
    with suppress(ImportError):
        readline: Any = import_module("readline")
        readline.set_completer_delims(" ")
        readline.set_completer(lambda text, number: _completion(text, number, sorted(commands)))
        readline.parse_and_bind("tab: complete")
        file = HISTORY.expanduser()
        with suppress(OSError):
            readline.read_history_file(file)
        import_module("atexit").register(_keep_lines, readline, file)


def _completion(text: str, number: int, commands: list[str]) -> str | None:
    fitting = [command for command in commands if text and command.startswith(text)]
    return fitting[number] if number < len(fitting) else None


def _keep_lines(readline: Any, file: Path) -> None:
    readline.set_history_length(MOST_LINES)
    with suppress(OSError):
        readline.write_history_file(file)
        file.chmod(0o600)
