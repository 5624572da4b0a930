"""`agentkit runs`: what a journal holds; `agentkit resume`: go on with a run that was stopped."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

import agentkit

from ..core.ask_person import escape_unprintable
from ..core.masking import mask
from .agents import agent_of, agent_options
from .output import answer, json_text, remark
from .views import followed, view

DEFAULT = Path("runs.db")
FIELDS = ("id", "state", "query", "model", "steps", "last", "error", "origin", "begun", "seen")


@click.command(short_help="Go on with a run that was stopped.")
@click.argument("run_id", required=False)
@agent_options
@click.option("--go-on", is_flag=True, help="Go on although the tools or the instruction have changed since.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the run on standard error.")
def resume(run_id: str | None, go_on: bool, quiet: bool, journal: Path | None, **settings: Any) -> None:
    """Go on with the run RUN_ID of the journal (by default runs.db); without RUN_ID, list those that can go on.

    Name the tools and the description that the run began with.  What it has done is not done again; about a call that
    was under way, and of which nobody knows whether it took effect, you are asked.

    Exit codes: those of `agentkit run`.
    """
    journal = journal or DEFAULT
    if run_id is None:
        _list(import_module("agentkit.journal").runs(journal, unfinished=True), "no run waits to go on")
        return
    changed: Any = "go on" if go_on else "refuse"
    session = agentkit.Session.resumed(run_id, journal, on_uncertain="ask", changed=changed)
    shown = view(quiet=quiet)
    agent = agent_of(**settings, journal=journal, read=shown.read)
    with shown:
        result = followed(agent.stream(session=session), shown)
    answer(result.text)


@click.command(short_help="List, show and remove kept runs.")
@click.argument("run_id", required=False)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    default=DEFAULT,
    show_default=True,
    help="The journal.",
)
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the run as a page.")
@click.option("--json", "as_json", is_flag=True, help="Print the list, or the run, as JSON.")
@click.option("--delete", is_flag=True, help="Remove the run.")
@click.option("--prune", type=float, metavar="DAYS", help="Remove all runs that have done nothing for so many days.")
def runs(
    run_id: str | None, journal: Path, page: Path | None, as_json: bool, delete: bool, prune: float | None
) -> None:
    """List the runs of a journal, the newest first; or show the run RUN_ID."""
    kept = import_module("agentkit.journal")
    if prune is not None:
        click.echo(f"{kept.prune(prune, store=journal)} runs are removed")
    elif run_id is None:
        listed = kept.runs(journal)
        if as_json:
            click.echo(json_text([{name: getattr(run, name) for name in FIELDS} for run in listed], indent=2))
        else:
            _list(listed, "the journal holds no run")
    elif delete:
        kept.delete(run_id, store=journal)
    else:
        shown = kept.show(run_id, store=journal)
        if page is not None:
            shown.to_html(page)
        elif as_json:
            click.echo(json_text(shown.as_dict(), indent=2))
        else:
            answer(str(shown))


def _list(listed: list[Any], nothing: str) -> None:
    for run in listed:
        query = escape_unprintable(" ".join(mask(run.query).split()), 60)
        what = run.error or run.last
        click.echo(f"{run.id}  {run.state:<11}  {_age(run.age):>4}  {query}\n    {escape_unprintable(mask(what), 100)}")
    if not listed:
        remark(nothing)


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"
