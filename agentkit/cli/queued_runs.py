"""The runs that workers execute, in `agentkit runs`: their states, and what a person does about them."""

from collections.abc import Callable
from dataclasses import asdict
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from ..core.ask_person import escape_unprintable
from ..core.masking import mask
from ..sessions.journal.location import SQLITE_SCHEME
from .output import dump_json, print_note

Command = TypeVar("Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--state", default="", help="List only submitted runs in this state: queued, running, paused ..."),
    click.option("--retry", is_flag=True, help="Submit the run again that failed, was stopped or is dead."),
    click.option("--cancel", is_flag=True, help="Cancel the submitted run."),
)


def queue_options(command: Command) -> Command:
    """Add the options that are about submitted runs."""
    return reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), command)


def manage_runs(
    place: Path | str, run: str | None, limit: int | None, *, as_json: bool, state: str, retry: bool, cancel: bool
) -> bool:
    """List, retry or cancel submitted runs; return False if the journal has to answer.

    Raises:
        click.UsageError: The options need a database of workers, or the id of a run.
    """
    if (retry or cancel) and (run is None or retry == cancel):
        raise click.UsageError("--retry and --cancel need the id of a run, and exclude each other")
    client = _client_of(place)
    if client is None:
        if state or retry or cancel:
            raise click.UsageError(
                f"{place}: no workers use this journal, so --state, --retry and --cancel mean nothing"
            )
        return False
    with client:
        if retry or cancel:
            handle = client.run(run)
            handle.retry() if retry else handle.stop()
            print_note(_describe(handle.status))
        elif run is not None:
            found = client.states([run])
            for status in found:
                print_note(_describe(status))
            return any(not status.worker for status in found)  # the journal does not have it
        else:
            listed = client.runs(limit=limit or 100, state=state)
            if as_json:
                click.echo(dump_json([asdict(status) for status in listed], indent=2))
            else:
                click.echo("\n".join(map(_describe, listed)) or f"no run {f'is {state}' if state else 'was submitted'}")
    return True


def format_age(seconds: float) -> str:
    """Return a time as a number and a unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def _describe(status: Any) -> str:
    query = escape_unprintable(" ".join(mask(status.query).split()), 60)
    cost = "" if status.usage.cost is None or not status.usage.requests else f"${status.usage.cost:.4f}"
    about = [status.agent, *([f"key {status.key}"] if status.key else []), cost, status.worker]
    problems = [mask(status.error), *(f"in doubt: {call}" for call in status.in_doubt)]
    problems += [f"changed: {change}" for change in status.changes]
    line = f"{status.id}  {status.state:<8}  {format_age(status.age):>4}  {'  '.join(filter(None, about))}  {query}"
    return "\n    ".join([escape_unprintable(line, 240), *(escape_unprintable(one, 200) for one in problems if one)])


def _client_of(place: Path | str) -> Any:
    """Return the client of a database that workers use; None for a journal without workers."""
    url = str(place)
    if "://" not in url:
        return None
    sql = "SELECT 1 FROM pg_tables WHERE schemaname = 'agentkit' AND tablename = 'run_attempts'"
    if url.startswith(SQLITE_SCHEME):
        sql = "SELECT 1 FROM sqlite_master WHERE name = 'run_attempts'"
    with import_module("agentkit.sessions.journal.connections").opened_store(url, must_exist=True) as store:
        is_used = bool(store.read(sql))
    return import_module("agentkit.dbos").Client(url) if is_used else None
