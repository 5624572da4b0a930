"""`agentkit replay`: a recorded run played again."""

from pathlib import Path
from typing import Any

import click

import agentkit

from .agents import agent_of, agent_options
from .output import answer, json_text
from .views import view


@click.command(short_help="Play a recorded run again.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@agent_options
@click.option("--execute", is_flag=True, help="Run the tools for real; without it, nothing is done.")
@click.option("--any-model", is_flag=True, help="Replay under the name of another provider's model, too.")
@click.option("--timed", is_flag=True, help="As slowly as it was recorded.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the run on standard error.")
def replay(
    file: Path, execute: bool, any_model: bool, timed: bool, as_json: bool, quiet: bool, **settings: Any
) -> None:
    """Play the run recorded in FILE again, without model, key and network; no tool is run.

    The tools' schemas and the description must be those of the recorded run: the first difference ends the replay, and
    is shown.  Without --model the recorded one is named.

    Exit codes: 0 the same answer, 1 it differs, 2 wrong usage.
    """
    if settings["model"] is None:
        settings["model"], any_model = "offline", True
    with view(quiet=quiet) as shown:
        agent: agentkit.JsonAgent[str] = agent_of(**settings, listeners=[shown])
        result = agent.replay(file, execute=execute, any_model=any_model, timed=timed)
    if as_json:
        click.echo(json_text(result.as_dict(), indent=2))
    else:
        answer(result.text)
