"""The input of a chat: lines with editing and a history, and texts of several lines."""

import os
import select
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from ..core.ask_person import MAX_ANSWER_BYTES
from ..core.private_files import MODE, create_private
from .output import print_note

HISTORY_FILE = Path("~/.agentkit_history")
TEXT_DELIMITER = '"""'
"""Begins and ends a text of several lines."""


class LineReader:
    """Reads texts of one or several lines, with a history of earlier chats and completion of `commands`.

    That is what a terminal has with prompt_toolkit (extra `cli`); without it, Python's readline edits a line.
    """

    def __init__(self, commands: Iterable[str]) -> None:
        self._editor: Any = None
        if not sys.stdin.isatty():
            return
        if find_spec("prompt_toolkit") and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            self._editor = _make_editor(sorted(commands))
        else:
            with suppress(ImportError):
                import_module("readline").parse_and_bind("set enable-bracketed-paste on")  # pasted lines are one text

    def read(self, typed: str = "") -> str | None:
        """Return the person's next text; None at the end of the input.

        `typed` was typed before the prompt.
        """
        parts: list[str] = []
        is_text = False
        while True:
            try:
                part = self._read_part(_prompt(is_first=not parts and not is_text), typed)
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

    def _read_part(self, prompt: str, typed: str) -> str:
        """Return the next input; what was entered before and is not one line goes into the prompt, to be confirmed."""
        pending = typed + _take_pending_lines()
        if pending.find("\n") == len(pending) - 1 >= 0 or (pending and self._editor is None):
            click.echo(f"{prompt}{pending}", nl=False)
            return pending.removesuffix("\n")
        return input(prompt) if self._editor is None else str(self._editor.prompt(prompt, default=pending))


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


def _make_editor(commands: Sequence[str]) -> Any:
    """Return a session of prompt_toolkit: Enter sends, Alt-Enter begins a line, pasted lines are one text."""
    bindings = import_module("prompt_toolkit.key_binding").KeyBindings()
    bindings.add("enter")(lambda event: event.current_buffer.validate_and_handle())
    bindings.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
    return import_module("prompt_toolkit").PromptSession(
        history=_open_history(),
        completer=import_module("prompt_toolkit.completion").WordCompleter(commands, sentence=True),
        complete_while_typing=False,
        key_bindings=bindings,
        multiline=True,
        prompt_continuation=lambda *_: "... ",
    )


def _open_history() -> Any:
    """Return the history in the person's own file, or one in memory where it cannot be written."""
    kinds, file = import_module("prompt_toolkit.history"), HISTORY_FILE.expanduser()
    try:
        create_private(file)
        file.chmod(MODE)
    except OSError:
        return kinds.InMemoryHistory()
    return kinds.FileHistory(str(file))
