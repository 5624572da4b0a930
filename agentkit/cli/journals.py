"""`agentkit runs`: the runs of a journal; `agentkit resume`: continue a stopped run."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import agentkit

from ..core.ask_person import escape_unprintable
from ..core.masking import mask
from .agents import agent_options, build_agent
from .output import dump_json, print_answer, print_lines, print_note
from .queued_runs import format_age, manage_runs, queue_options
from .targets import FILE, JOURNAL_HELP, JOURNAL_PLACE
from .views import follow, make_view

DEFAULT_JOURNAL = Path("runs.db")
LISTED_FIELDS = ("id", "state", "query", "model", "steps", "last", "error", "origin", "begun", "seen")


@click.command("resume", short_help="Continue a stopped run.")
@click.argument("run_id", required=False)
@agent_options
@click.option("--go-on", is_flag=True, help="Continue although the tools or the instruction have changed.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the run on standard error.")
def resume_command(run_id: str | None, go_on: bool, quiet: bool, journal: Path | str | None, **settings: Any) -> None:
    """Continue the run RUN_ID of the journal (default: runs.db); without RUN_ID, list the runs that can continue.

    Pass the tools and the description that the run started with.  Finished steps are not repeated.  You are asked about
    calls that were running when the run stopped, because their effect is unknown.

    Exit codes: those of `agentkit run`.
    """
    journal = journal or DEFAULT_JOURNAL
    if run_id is None:
        _print_runs(import_module("agentkit.journal").runs(journal, unfinished=True), "no run is waiting to continue")
        return
    changed: Any = "go on" if go_on else "refuse"
    session = agentkit.Session.resumed(run_id, journal, on_uncertain="ask", changed=changed)
    view = make_view(quiet=quiet)
    agent = build_agent(**settings, journal=journal, read=view.read)
    with view:
        result = follow(agent.stream(session=session), view)
    print_answer(result.text)


@click.command("runs", short_help="List, show and remove stored runs.")
@click.argument("run_id", required=False)
@click.option(
    "--journal",
    "--db",
    type=JOURNAL_PLACE,
    default=DEFAULT_JOURNAL,
    show_default=True,
    envvar=["AGENTKIT_DB", "AGENTKIT_JOURNAL"],
    show_envvar=True,
    help=JOURNAL_HELP,
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="List only the newest N runs.")
@click.option("--html", "page", type=FILE, help="Write the run as a page.")
@click.option("--json", "as_json", is_flag=True, help="Print the list, or the run, as JSON.")
@queue_options
@click.option("--export", type=FILE, help="Write the run into a file for agentkit replay and show.")
@click.option("--delete", is_flag=True, help="Remove the run.")
@click.option(
    "--prune",
    type=click.FloatRange(0),
    metavar="DAYS",
    help="Remove all runs without activity for this number of days.",
)
@click.option("--check", is_flag=True, help="Report damage of the file.")
@click.option("--salvage", type=FILE, help="Copy the sound runs to a new file.")
def runs_command(
    run_id: str | None,
    journal: Path | str,
    limit: int | None,
    page: Path | None,
    as_json: bool,
    export: Path | None,
    delete: bool,
    prune: float | None,
    check: bool,
    salvage: Path | None,
    **queued: Any,
) -> None:
    """List the runs of a journal, the newest first; or show the run RUN_ID.

    In a database that workers use, the list has the submitted runs with their states, costs and workers.
    """
    _check_combination(run_id, page, as_json, export, delete, prune, check, salvage)
    is_about_journal = any(value not in (None, False) for value in (page, export, delete, prune, check, salvage))
    if not is_about_journal and manage_runs(journal, run_id, limit, as_json=as_json, **queued):
        return
    store, repair = import_module("agentkit.journal"), import_module("agentkit.sessions.journal.repair")
    if check:
        problems = repair.find_problems(journal)
        click.echo("\n".join(problems) or "no damage found")
        sys.exit(bool(problems))
    elif salvage is not None:
        click.echo(f"{repair.salvage(journal, salvage)} runs copied to {salvage}")
    elif prune is not None:
        click.echo(f"{store.prune(prune, store=journal)} runs removed")
    elif run_id is None:
        listed = store.runs(journal, limit=limit)
        if as_json:
            click.echo(dump_json([{name: getattr(run, name) for name in LISTED_FIELDS} for run in listed], indent=2))
        else:
            _print_runs(listed, "the journal is empty")
    elif export is not None:
        store.export(run_id, export, store=journal)
    elif delete:
        store.delete(run_id, store=journal)
    else:
        _show_run(store.show(run_id, store=journal), page, as_json=as_json)


def _show_run(run: Any, page: Path | None, *, as_json: bool) -> None:
    if page is not None:
        run.to_html(page)
    elif as_json:
        click.echo(dump_json(run.as_dict(), indent=2))
    else:
        print_lines(import_module("agentkit.views.history").render_result(run.as_dict()))


def _check_combination(run_id: str | None, *values: Any) -> None:
    """Raise `click.UsageError` for options that would have no effect beside each other, or without a run."""
    names = ("--html", "--json", "--export", "--delete", "--prune", "--check", "--salvage")
    given = [name for name, value in zip(names, values, strict=True) if value not in (None, False)]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other")
    if run_id is None and given in (["--html"], ["--export"], ["--delete"]):
        raise click.UsageError(f"{given[0]} needs the id of a run: agentkit runs RUN_ID {given[0]}")
    if run_id is not None and given in (["--prune"], ["--check"], ["--salvage"]):
        raise click.UsageError(f"{given[0]} is about the whole journal: leave the id of the run out")


def _print_runs(listed: list[Any], if_empty: str) -> None:
    for run in listed:
        query = escape_unprintable(" ".join(mask(run.query).split()), 60)
        last = escape_unprintable(mask(run.error or run.last), 100)
        state = f"{escape_unprintable(run.id)}  {escape_unprintable(run.state):<11}"
        click.echo(f"{state}  {format_age(run.age):>4}  {query}\n    {last}")
    if not listed:
        print_note(if_empty)
