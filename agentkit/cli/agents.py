"""The agent that a command line describes, and the conversation that it goes on with."""

import shlex
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

import agentkit

from ..core.ask_person import Person
from .providers import EXAMPLES
from .targets import TOOLS, registry_of

Command = TypeVar("Command", bound=Callable[..., Any])


def _models(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in EXAMPLES if name.startswith(begun)]


_OPTIONS = (
    TOOLS,
    click.option(
        "--model",
        envvar="AGENTKIT_MODEL",
        show_envvar=True,
        shell_complete=_models,
        help='The model, as litellm names it ("openai/gpt-4o-mini"), or "offline".',
    ),
    click.option(
        "--description",
        envvar="AGENTKIT_DESCRIPTION",
        show_envvar=True,
        default="",
        help="Who the agent is and what it is for.",
    ),
    click.option(
        "--max-steps",
        envvar="AGENTKIT_MAX_STEPS",
        show_envvar=True,
        default=50,
        show_default=True,
        type=click.IntRange(1),
        help="Requests a run may make.",
    ),
    click.option(
        "--journal",
        envvar="AGENTKIT_JOURNAL",
        show_envvar=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="Keep every run in this file, for agentkit resume.",
    ),
)
SESSION = click.option(
    "--session",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file to go on from, if it is there, and to keep the conversation in.",
)


def agent_options(command: Command) -> Command:
    """Give a command the options that describe an agent; it passes them on to `agent_of`."""
    return reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), command)


def as_given() -> str:
    """The options of the command line that say which agent it is, to be written again; begins with a space."""
    context, words = click.get_current_context(), []
    for option in context.command.params:
        if option.name in ("targets", "model", "description") and _is_on_command_line(context, option.name):
            value = context.params[option.name]
            for one in value if isinstance(value, tuple) else [value]:
                words += [option.opts[-1], str(one)]
    return f" {shlex.join(words)}" if words else ""


def resuming(session: "agentkit.Session") -> str:
    """The command that goes on with the run that was stopped in a kept conversation; "" if there is none."""
    kept = session.journaled
    return f"agentkit resume {kept.run} --journal {kept.journal.path}{as_given()}" if kept and kept.run else ""


def _is_on_command_line(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def agent_of(
    *, targets: Sequence[str], read: Callable[[str], str] | None = None, **settings: Any
) -> "agentkit.JsonAgent[str]":
    """The agent with the tools of `targets`, which asks by `read` about dangerous calls.

    Raises `click.UsageError` for what cannot be.
    """
    try:
        return agentkit.JsonAgent(registry_of(targets), approve=Person(read) if read else None, **settings)
    except agentkit.DefinitionError as error:
        raise click.UsageError(str(error)) from error


def session_of(file: Path | None) -> "agentkit.Session":
    """The conversation in `file`, or a new one; `click.UsageError` if something else is in the file."""
    if file is None or not file.exists():
        return agentkit.Session()
    try:
        return agentkit.Session.load(file)
    except (agentkit.RunError, OSError) as error:
        raise click.UsageError(str(error)) from error
