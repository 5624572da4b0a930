"""The input of a chat: lines with editing and a history, and texts of several lines."""

import os
import select
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from ..core.ask_person import MAX_ANSWER_BYTES
from ..core.private_files import MODE, create_private
from .output import print_note

HISTORY_FILE = Path("~/.agentkit_history")
MAX_HISTORY_LINES = 1_000
TEXT_DELIMITER = '"""'
"""Begins and ends a text of several lines."""


def read_line(typed: str = "") -> str | None:
    """Return the person's next text, of one or several lines; None at the end of the input.

    `typed` was typed before the prompt.
    """
    parts: list[str] = []
    is_text = False
    while True:
        try:
            part = _read_part(_prompt(is_first=not parts and not is_text), typed)
            typed = ""
        except EOFError:
            return "\n".join(parts) if parts else None
        except KeyboardInterrupt:  # the unfinished text is dropped
            print_note("\nCtrl-D or /quit leaves" if not parts and not is_text else "")
            parts, is_text, typed = [], False, ""
            continue
        if not is_text and not parts and part.lstrip().startswith(TEXT_DELIMITER):
            part, is_text = part.lstrip().removeprefix(TEXT_DELIMITER), True
        if is_text:
            parts.append(part.rstrip().removesuffix(TEXT_DELIMITER))
            if part.rstrip().endswith(TEXT_DELIMITER):
                return "\n".join(parts)
        elif part.endswith("\\"):
            parts.append(part[:-1])
        else:
            return "\n".join([*parts, part])


def _read_part(prompt: str, typed: str) -> str:
    """Return the next line.  What was entered before the prompt and is not one line is put into it, to be confirmed."""
    readline: Any = sys.modules.get("readline")
    pending = typed + _take_pending_lines()
    if pending.find("\n") == len(pending) - 1 >= 0 or (pending and readline is None):
        click.echo(f"{prompt}{pending}", nl=False)
        return pending.removesuffix("\n")
    if not pending:
        return input(prompt)
    readline.set_startup_hook(lambda: readline.insert_text(pending))  # the start of a next line may follow
    try:
        return input(prompt)
    finally:
        readline.set_startup_hook(None)


def _take_pending_lines() -> str:
    """Return the whole lines that were entered at the terminal before the prompt."""
    pending = b""
    while os.name == "posix" and sys.stdin.isatty() and select.select([sys.stdin], [], [], 0)[0]:
        if not (data := os.read(sys.stdin.fileno(), MAX_ANSWER_BYTES)):
            if not pending:
                raise EOFError
            break
        pending += data
    return pending.decode(sys.stdin.encoding, errors="replace")


def _prompt(*, is_first: bool) -> str:
    if not sys.stdin.isatty():
        return ""
    return "> " if is_first else "... "


def set_up_readline(commands: Iterable[str]) -> None:
    """Switch on line editing, the history of earlier chats, and completion of `commands`, if Python has readline."""
    if not sys.stdin.isatty():
        return
    with suppress(ImportError):
        readline: Any = import_module("readline")
        readline.set_completer_delims(" ")
        readline.set_completer(lambda text, number: _complete(text, number, sorted(commands)))
        readline.parse_and_bind("tab: complete")
        readline.parse_and_bind("set enable-bracketed-paste on")  # pasted lines are one text until Enter
        file = HISTORY_FILE.expanduser()
        with suppress(OSError):
            readline.read_history_file(file)
        import_module("atexit").register(_save_history, readline, file)


def _complete(text: str, number: int, commands: list[str]) -> str | None:
    matching = [command for command in commands if text and command.startswith(text)]
    return matching[number] if number < len(matching) else None


def _save_history(readline: Any, file: Path) -> None:
    readline.set_history_length(MAX_HISTORY_LINES)
    with suppress(OSError):
        create_private(file)
        readline.write_history_file(file)
        file.chmod(MODE)
