"""`agentkit map`: a file of queries, a file of answers."""

import json
import sys
import time
from contextlib import closing, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import click

import agentkit

from ..core.masking import mask_data
from .agents import agent_of, agent_options
from .output import INTERRUPTED, remark, told


@click.command("map", short_help="Answer a file of questions.")
@click.argument("queries", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@agent_options
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Where the answers go; else they are printed."
)
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1), help="Queries at a time.")
@click.option("--retry-failed", is_flag=True, help="Ask the queries again that failed before.")
def map_(queries: Path, out: Path | None, concurrency: int, retry_failed: bool, **settings: Any) -> None:
    """Answer each line of QUERIES (- for standard input), one JSON object a line: query, answer or error, usage.

    Queries that OUT has an answer for are skipped, so whatever was stopped can go on.  The lines come as the answers
    do; a query that stands there twice is asked once.

    Exit codes: 0 all answered, 1 a query failed, 2 wrong usage, 130 interrupted.
    """
    lines = dict.fromkeys(filter(None, map(str.strip, _text(queries).splitlines())))
    known = _answered(out, retry_failed) if out is not None and out.exists() else set()
    wanted = [line for line in lines if line not in known]
    if skipped := len(lines) - len(wanted):
        remark(f"{skipped} of {len(lines)} queries are answered already")
    agent = agent_of(**settings)
    is_watched = out is not None or not sys.stdout.isatty()  # else the bar would stand among the answers
    bar = import_module("agentkit.views.progress_bar").ProgressBar(len(wanted), None if is_watched else False)
    failed, done, usage, began = 0, 0, agentkit.Usage(), time.monotonic()
    try:
        with (
            _opened(out) as file,
            bar,
            closing(agent.imap(wanted, concurrency=concurrency)) as arriving,
        ):
            for place, outcome in arriving:
                failed += isinstance(outcome, Exception)
                done += 1
                usage += getattr(outcome, "usage", agentkit.Usage())
                _write(file, wanted[place], outcome)
                bar.advance(failed=isinstance(outcome, Exception))
    except KeyboardInterrupt:
        _total(usage, began)
        remark(f"agentkit: interrupted; {done} of {len(wanted)} are done, and the same command goes on with the rest")
        sys.exit(INTERRUPTED)
    _total(usage, began)
    if failed:
        remark(f"agentkit: {failed} of {len(wanted)} queries failed; --retry-failed asks them again")
    sys.exit(failed > 0)


def _total(usage: "agentkit.Usage", began: float) -> None:
    """Say what the answers took, if there were any."""
    if usage.requests:
        told = import_module("agentkit.views.lines").figures(usage, time.monotonic() - began)
        remark(f"{'total':<9}{told}")


def _text(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: cannot be read: {error}") from error


def _opened(out: Path | None) -> Any:
    try:
        return nullcontext(sys.stdout) if out is None else out.open("a", encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{out}: cannot be written: {error.strerror}") from error


def _answered(out: Path, retry_failed: bool) -> set[str]:
    """The queries that `out` tells of; a last line that was cut short is cut off."""
    return {entry["query"] for entry in _entries(out) if "answer" in entry or not retry_failed}


def _entries(out: Path) -> list[dict[str, Any]]:
    data = out.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    entries = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entry = json.loads(line)
            entry["query"]
        except (ValueError, KeyError, TypeError) as error:
            raise click.UsageError(f"{out}: line {number} is no answer of agentkit map") from error
        entries.append(entry)
    if whole != data:
        if not whole and not data.startswith(b"{"):
            raise click.UsageError(f"{out}: line 1 is no answer of agentkit map")
        with out.open("r+b") as file:
            file.truncate(len(whole))
    return entries


def _write(file: TextIO, query: str, outcome: "agentkit.Result[str] | Exception") -> None:
    if isinstance(outcome, Exception):
        entry: dict[str, Any] = {"error": f"{type(outcome).__name__}: {told(outcome)}"}
    else:
        entry = {"answer": outcome.answer, "stopped": outcome.stopped, "usage": outcome.usage.as_dict()}
    file.write(json.dumps({"query": query, **mask_data(entry)}, ensure_ascii=False) + "\n")  # the query is looked up
    file.flush()
