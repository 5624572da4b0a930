"""`agentkit show`: what happened in a run or a conversation that was kept."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import agentkit

from .output import conversation


@click.command(short_help="Show a kept run or conversation.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write a page to this file (- for standard output) instead.",
)
def show(file: Path, page: Path | None) -> None:
    """Show FILE as text, or as a page that needs nothing else.

    FILE is the result of `run --json`, the events of `run --jsonl`, or a saved session; - for standard input.
    """
    kept = _read(file)
    if page is None:
        conversation(kept["messages"])
        click.echo(f"{'total':<9}{_figures(kept)}")
        return
    report = import_module("agentkit.views.html")
    text = report.result_page(kept) if "answer" in kept else report.session_page(kept["messages"], kept["usage"])
    if str(page) == "-":
        click.echo(text, nl=False)
        return
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{page}: cannot be written: {error.strerror}") from error
    click.echo(f"{page}: {page.stat().st_size:,} bytes")


def _figures(kept: dict[str, Any]) -> str:
    usage = agentkit.Usage(**kept["usage"])
    told: str = import_module("agentkit.views.lines").figures(usage, kept.get("seconds"))
    return f"{told}, stopped: {kept['stopped']}" if "answer" in kept else told


def _read(file: Path) -> dict[str, Any]:
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        kept = _last_result(data.splitlines()) if data.lstrip().startswith(b'{"event"') else json.loads(data)
        agentkit.Usage(**kept["usage"])
        if all(isinstance(message["role"], str) for message in kept["messages"]):
            tuple(import_module("agentkit.views.lines").conversation(kept["messages"]))  # raises for what is none
            return dict(kept)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    except OSError as error:
        raise click.UsageError(f"{file}: cannot be read: {error.strerror}") from error
    raise click.UsageError(f"{file}: holds neither a result (agentkit run --json or --jsonl) nor a saved session")


def _last_result(lines: list[bytes]) -> dict[str, Any]:
    """The result at the end of the events of a run."""
    result: dict[str, Any] = json.loads(lines[-1])["result"]
    return result
