"""`agentkit map`: a file of queries, a file of answers."""

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import click

import agentkit

from .agents import agent_of, agent_options


@click.command("map")
@click.argument("queries", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@agent_options
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Where the answers go; else they are printed."
)
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1), help="Queries at a time.")
@click.option("--retry-failed", is_flag=True, help="Ask the queries again that failed before.")
def map_(queries: Path, out: Path | None, concurrency: int, retry_failed: bool, **settings: Any) -> None:
    """Answer each line of QUERIES (- for standard input), one JSON object a line: query, answer or error, usage.

    Queries that OUT has an answer for are skipped, so whatever was stopped can go on.  Exit code 1 if a query failed.
    """
    lines = [line.strip() for line in _text(queries).splitlines() if line.strip()]
    known = _answered(out, retry_failed) if out is not None and out.exists() else set()
    wanted = [line for line in dict.fromkeys(lines) if line not in known]
    if known:
        click.echo(f"{len(set(lines)) - len(wanted)} of {len(set(lines))} queries are answered already", err=True)
    agent = agent_of(**settings)
    file = out.open("a", encoding="utf-8") if out is not None else sys.stdout
    failed = 0
    finished = import_module("agentkit.batch").finished
    for place, outcome in finished(lambda query: agent.stream(query, session=agentkit.Session()), wanted, concurrency):
        failed += isinstance(outcome, Exception)
        _write(file, wanted[place], outcome)
    sys.exit(failed > 0)


def _text(path: Path) -> str:
    return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")


def _answered(out: Path, retry_failed: bool) -> set[str]:
    """The queries that `out` tells of; a last line that was cut short is cut off."""
    return {entry["query"] for entry in _entries(out) if "answer" in entry or not retry_failed}


def _entries(out: Path) -> Iterator[dict[str, Any]]:
    data = out.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        out.write_bytes(whole)
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entry = json.loads(line)
            entry["query"]
        except (ValueError, KeyError, TypeError) as error:
            raise click.UsageError(f"{out}: line {number} is no answer of agentkit map") from error
        yield entry


def _write(file: TextIO, query: str, outcome: "agentkit.Result[str] | Exception") -> None:
    if isinstance(outcome, Exception):
        entry: dict[str, Any] = {"query": query, "error": f"{type(outcome).__name__}: {outcome}"}
    else:
        entry = {"query": query, "answer": outcome.answer, "stopped": outcome.stopped, "usage": outcome.usage.as_dict()}
    file.write(json.dumps(entry, ensure_ascii=False) + "\n")
    file.flush()
