"""Consent to the code that a folder's pyproject.toml names as tools: asked once per folder and stored."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ..core.ask_person import ask_terminal, escape_unprintable
from ..core.private_files import open_private

PYPROJECT = "agentkit.pyproject"
"""The key of a click context's `meta` for the pyproject.toml that the defaults come from."""


def require_trust(file: Path, targets: Sequence[str], ask: Callable[[str], str] = ask_terminal) -> None:
    """Make the modules beside `file` importable if the person allows its `targets`; else raise `click.UsageError`."""
    folder, trusted = str(file.parent.resolve()), _read_trusted()
    allowed = trusted.get(folder, [])
    if not set(targets) <= set(allowed):
        names = escape_unprintable(", ".join(targets), 1_000)
        place = escape_unprintable(str(file))
        question = f"{place} names tools: {names}\nagentkit would run this code. Allow it from now on? y, n: "
        try:
            is_allowed = ask(question).strip().lower() in ("y", "yes")
        except EOFError:
            is_allowed = False
        if not is_allowed:
            raise click.UsageError(
                f"{place}: its tools are not allowed: {names}. Allow them at a terminal, or name them with --tools."
            )
        _write_trusted({**trusted, folder: sorted({*allowed, *targets})})
    if folder not in sys.path:
        sys.path.append(folder)


def _trusted_file() -> Path:
    return Path(click.get_app_dir("agentkit")) / "allowed_tools.json"


def _read_trusted() -> dict[str, Any]:
    """Return the allowed targets by folder; nothing is allowed by a file that is missing or damaged."""
    try:
        data = json.loads(_trusted_file().read_text(encoding="utf-8"))
        return {folder: list(map(str, targets)) for folder, targets in data.items()}
    except (OSError, ValueError, RecursionError, AttributeError, TypeError):
        return {}


def _write_trusted(trusted: dict[str, Any]) -> None:
    file = _trusted_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")
    with open_private(part, encoding="utf-8") as opened:
        json.dump(trusted, opened, indent=2)
    os.replace(part, file)
