"""What the commands say: answers to standard output, everything else to standard error; and their exit codes."""

import json
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click

import agentkit

from ..core.ask_person import escape_unprintable
from ..core.masking import mask, mask_data

FAILED, PAUSED, INTERRUPTED = 1, 3, 130
"""The exit codes besides 0, and besides 2, which click has for wrong usage."""


def answer(text: str) -> None:
    """Print an answer; as it is for a program, without what would move the cursor for a terminal."""
    click.echo(_visible(text) if sys.stdout.isatty() else text)


def conversation(messages: Iterable[dict[str, Any]]) -> None:
    """Print what was said in a conversation, all of it, as runs are shown."""
    out = import_module("agentkit.views.log").printer(sys.stdout, longest=None)
    for line in import_module("agentkit.views.lines").conversation(messages):
        out.write(line)


def json_text(value: Any, indent: int | None = None) -> str:
    """Data as JSON, without secrets."""
    return json.dumps(mask_data(value), ensure_ascii=False, indent=indent)


def remark(text: str) -> None:
    """Say something beside the answer."""
    click.echo(_visible(mask(text)), err=True)


def complain(error: BaseException) -> None:
    """Say in one line what went wrong."""
    remark(f"agentkit: {told(error)}")


def told(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, agentkit.Paused):
        names = ", ".join(call.name for call in error.calls)
        return f"{names} waits for a person's word, and nobody could be asked"
    if isinstance(error, agentkit.AgentkitError | OSError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def exit_code(error: BaseException) -> int:
    """The exit code for what ended a run."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return PAUSED if isinstance(error, agentkit.Paused) else FAILED


def _visible(text: str) -> str:
    rows = text.expandtabs(4).split("\n")
    return "\n".join(row if row.isprintable() else escape_unprintable(row, len(row)) for row in rows)
