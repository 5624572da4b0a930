"""`agentkit show`: a stored run or conversation."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from .output import print_result


@click.command("show", short_help="Show a stored run or conversation.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write a page to this file (- for standard output) instead.",
)
def show_command(file: Path, page: Path | None) -> None:
    """Show FILE as text, or as a page that loads nothing else.

    FILE is the result of `run --json`, the events of `run --jsonl`, or a saved session; - for standard input.
    """
    data = _read(file)
    if page is None:
        print_result(data)
        return
    html = import_module("agentkit.views.html")
    text = html.result_page(data) if "answer" in data else html.session_page(data["messages"], data["usage"])
    if str(page) == "-":
        click.echo(text, nl=False)
        return
    try:
        html.write_page(text, page)
    except OSError as error:
        raise click.UsageError(f"{page}: cannot be written: {error.strerror}") from error
    click.echo(f"{page}: {page.stat().st_size:,} bytes")


def _read(file: Path) -> dict[str, Any]:
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        is_events = content.lstrip().startswith(b'{"event"')
        data = json.loads(content.splitlines()[-1])["result"] if is_events else json.loads(content)
        if all(isinstance(message["role"], str) for message in data["messages"]):
            tuple(import_module("agentkit.views.history").render_result(data))  # raises if invalid
            return dict(data)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    except OSError as error:
        raise click.UsageError(f"{file}: cannot be read: {error.strerror}") from error
    raise click.UsageError(f"{file}: holds neither a result (agentkit run --json or --jsonl) nor a saved session")
