"""`agentkit replay`: repeat a recorded run."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import agentkit

from .agents import agent_options, build_agent
from .output import dump_json, print_answer
from .targets import FILE
from .views import make_view


@click.command("replay", short_help="Repeat a recorded run.")
@click.argument("file", type=FILE)
@agent_options
@click.option("--execute", is_flag=True, help="Run the tools; without it, the recorded results are used.")
@click.option("--any-model", is_flag=True, help="Replay under the name of another provider's model, too.")
@click.option("--timed", is_flag=True, help="At the recorded speed.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the run on standard error.")
def replay_command(
    file: Path, execute: bool, any_model: bool, timed: bool, as_json: bool, quiet: bool, **settings: Any
) -> None:
    """Repeat the run recorded in FILE, without model, key and network; no tool is run.

    With --journal, FILE is the id of a run in that journal.
    The tools' schemas and the description must be those of the recorded run: the first difference ends the replay and
    is printed.  Without --model the recorded model's name is used.

    Exit codes: 0 the same answer, 1 it differs, 2 wrong usage, 3 paused as the recorded run did.
    """
    if settings["model"] is None:
        settings["model"], any_model = "offline", True
    journal = settings.pop("journal")
    if file.exists():
        if click.get_current_context().get_parameter_source("journal") is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--journal: {str(file)!r} is a file, and a replayed run is not stored.")
        journal = None  # that of the environment
    elif journal is None:
        raise click.UsageError(f"File {str(file)!r} does not exist. For a run in a journal, add --journal.")
    with make_view(quiet=quiet) as view:
        agent: agentkit.JsonAgent[str] = build_agent(**settings, listeners=[view])
        result = agent.replay(file, execute=execute, any_model=any_model, timed=timed, journal=journal)
    if as_json:
        click.echo(dump_json(result.as_dict(), indent=2))
    else:
        print_answer(result.text)
