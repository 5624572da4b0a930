"""`agentkit show`: a stored run or conversation."""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from .output import print_lines
from .targets import EXISTING_FILE, JOURNAL_HELP, JOURNAL_PLACE


@click.command("show", short_help="Show a stored run or conversation.")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--journal", "--db", type=JOURNAL_PLACE, help=f"Show the run with the id FILE. {JOURNAL_HELP}")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write a page to this file (- for standard output) instead.",
)
@click.option(
    "--compare",
    "other",
    type=EXISTING_FILE,
    help="With --html: another result, shown beside FILE with the differences.",
)
def show_command(file: Path, journal: Path | str | None, page: Path | None, other: Path | None) -> None:
    """Show FILE as text, or as a page that loads nothing else.

    FILE is the result of `run --json`, the events of `run --jsonl`, a run of `run --record`, or a saved session; - for
    standard input.  With the variable AGENTKIT_DB, FILE may be the id of a run in that journal.
    """
    if other is not None and page is None:
        raise click.UsageError("--compare needs --html: two runs are shown as a page")
    if journal is None and str(file) != "-" and not file.exists():
        journal = os.environ.get("AGENTKIT_DB") or None
    try:
        data = _read(file) if journal is None else _read_run(str(file), journal)
        lines = [*import_module("agentkit.views.history").render_result(data)]
        text = "" if page is None else _render_page(data, other)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _refuse(file) from None
    if page is None:
        print_lines(lines)
        return
    if str(page) == "-":
        click.echo(text, nl=False)
        return
    try:
        import_module("agentkit.views.html").write_page(text, page)
    except OSError as error:
        raise click.UsageError(f"{page}: cannot be written: {error.strerror}") from error
    click.echo(f"{page}: {page.stat().st_size:,} bytes")


def _render_page(data: dict[str, Any], other: Path | None) -> str:
    html = import_module("agentkit.views.html")
    if other is not None:
        try:
            compared: str = html.compare_page(data, _read_result(other))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise _refuse(other) from None
        return compared
    page: str = html.result_page(data) if "answer" in data else html.session_page(data["messages"], data["usage"])
    return page


def _read_result(file: Path) -> dict[str, Any]:
    data = _read(file)
    [*import_module("agentkit.views.history").render_result(data)]  # raises for anything else
    return data


def _refuse(file: Path) -> click.UsageError:
    expected = "a result (agentkit run --json or --jsonl), a recorded run or a saved session"
    return click.UsageError(f"{file}: not {expected}, or damaged")


def _read(file: Path) -> dict[str, Any]:
    """Return the data of a result, a recorded run or a session; of events, the result in the last `RunFinished`."""
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise click.UsageError(f"{file}: cannot be read: {error.strerror}") from error
    if not content.lstrip().startswith(b'{"event"'):
        return dict(import_module("agentkit.sessions.session_file").read_saved(content))
    finished = [line for line in content.splitlines() if line.startswith(b'{"event": "RunFinished"')]
    return dict(json.loads(finished[-1])["result"])


def _read_run(run_id: str, journal: Path | str) -> dict[str, Any]:
    data: dict[str, Any] = import_module("agentkit.journal").show(run_id, store=journal).as_dict()
    return data
