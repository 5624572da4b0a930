"""`agentkit show`: what happened in a run or a conversation that was kept."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import agentkit


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write a page to this file instead."
)
def show(file: Path, page: Path | None) -> None:
    """Show FILE, the result of `run --json` or a saved session, as text or as a page that needs nothing else."""
    kept = _read(file)
    if page is not None:
        report = import_module("agentkit.report")
        text = report.result_page(kept) if "answer" in kept else report.session_page(kept["messages"])
        page.write_text(text, encoding="utf-8")
        click.echo(f"{page}: {page.stat().st_size:,} bytes")
        return
    agentkit.log.show_messages(kept["messages"])
    usage = kept["usage"]
    cost = "unknown" if usage["cost"] is None else f"${usage['cost']:.6f}"
    stopped = f", stopped: {kept['stopped']}, {kept['seconds']} s" if "answer" in kept else ""
    tokens = f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"
    click.echo(f"{usage['requests']} requests, {tokens}, cost {cost}{stopped}")


def _read(file: Path) -> dict[str, Any]:
    try:
        kept = json.loads(file.read_bytes())
        if isinstance(kept["messages"], list) and isinstance(kept["usage"], dict):
            return dict(kept)
    except (ValueError, KeyError, TypeError):
        pass
    raise click.UsageError(f"{file}: holds neither a result (agentkit run --json) nor a saved session")
