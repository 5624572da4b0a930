"""`agentkit run`: one question, one answer."""

import json
import sys
from typing import Any

import click

import agentkit

from .agents import agent_of, agent_options


@click.command()
@click.argument("question", required=False)
@agent_options
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the run on standard error.")
def run(question: str | None, as_json: bool, quiet: bool, **settings: Any) -> None:
    """Answer QUESTION (or what stands on standard input) with tools.

    The answer goes to standard output, the run to standard error.  Exit codes: 0 answered, 1 the run failed, 2 wrong
    usage.
    """
    question = (question if question not in (None, "-") else _standard_input()).strip()
    if not question:
        raise click.UsageError('no question: agentkit run "What is 2 + 3?", or pipe one in')
    listeners = () if quiet else (agentkit.log.printer(sys.stderr).listen,)
    agent = agent_of(**settings, listeners=listeners)
    try:
        result = agent.run(question)
    except agentkit.RunError as error:
        click.echo(f"agentkit: {error}", err=True)
        sys.exit(1)
    click.echo(json.dumps(result.as_dict(), ensure_ascii=False, indent=2) if as_json else result.text)


def _standard_input() -> str:
    return "" if sys.stdin.isatty() else sys.stdin.read()
