"""`agentkit runs`: the runs of a journal; `agentkit resume`: continue a stopped run."""

import sys
from collections.abc import Mapping
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
RUN_OPTIONS, JOURNAL_OPTIONS = ("html", "export", "delete"), ("prune", "check", "salvage")
"""The options of `agentkit runs` that need a run, and those about the whole journal."""


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
@click.option("--html", type=FILE, help="Write the run as a page.")
@click.option("--json", is_flag=True, help="Print the list, or the run, as JSON.")
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
def runs_command(run_id: str | None, journal: Path | str, limit: int | None, **options: Any) -> None:
    """List the runs of a journal, the newest first; or show the run RUN_ID.

    In a database that workers use, the list has the submitted runs with their states, costs and workers.
    """
    action, queued = _find_action(run_id, options), {name: options[name] for name in ("state", "retry", "cancel")}
    if action in ("", "json") and manage_runs(journal, run_id, limit, as_json=options["json"], **queued):
        return
    store, repair = import_module("agentkit.journal"), import_module("agentkit.sessions.journal.repair")
    if action == "check":
        problems = repair.find_problems(journal)
        click.echo("\n".join(problems) or "no damage found")
        sys.exit(bool(problems))
    elif action == "salvage":
        click.echo(f"{repair.salvage(journal, options['salvage'])} runs copied to {options['salvage']}")
    elif action == "prune":
        click.echo(f"{store.prune(options['prune'], store=journal)} runs removed")
    elif action == "export":
        store.export(run_id, options["export"], store=journal)
    elif action == "delete":
        store.delete(run_id, store=journal)
    elif action == "html":
        store.show(run_id, store=journal).to_html(options["html"])
    elif run_id is not None:
        data = store.show(run_id, store=journal).as_dict()
        if options["json"]:
            click.echo(dump_json(data, indent=2))
        else:
            print_lines(import_module("agentkit.views.history").render_result(data))
    elif options["json"]:
        listed = [{name: getattr(run, name) for name in LISTED_FIELDS} for run in store.runs(journal, limit=limit)]
        click.echo(dump_json(listed, indent=2))
    else:
        _print_runs(store.runs(journal, limit=limit), "the journal is empty")


def _find_action(run_id: str | None, options: Mapping[str, Any]) -> str:
    """Return the option that decides what is done, or ""; raise `click.UsageError` for one that has no effect."""
    names = (*RUN_OPTIONS, "json", *JOURNAL_OPTIONS)
    given = [name for name in names if options[name] is not None and options[name] is not False]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(f'--{name}' for name in given)} exclude each other")
    action = given[0] if given else ""
    if run_id is None and action in RUN_OPTIONS:
        raise click.UsageError(f"--{action} needs the id of a run: agentkit runs RUN_ID --{action}")
    if run_id is not None and action in JOURNAL_OPTIONS:
        raise click.UsageError(f"--{action} is about the whole journal: leave the id of the run out")
    return action


def _print_runs(listed: list[Any], if_empty: str) -> None:
    for run in listed:
        query = escape_unprintable(" ".join(mask(run.query).split()), 60)
        last = escape_unprintable(mask(run.error or run.last), 100)
        state = f"{escape_unprintable(run.id)}  {escape_unprintable(run.state):<11}"
        click.echo(f"{state}  {format_age(run.age):>4}  {query}\n    {last}")
    if not listed:
        print_note(if_empty)
