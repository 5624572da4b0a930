"""The agent that a command line describes."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar

import click

import agentkit

from .targets import TOOLS, registry_of

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    TOOLS,
    click.option(
        "--model", envvar="AGENTKIT_MODEL", help='The model, as litellm names it ("openai/gpt-4o-mini"), or "offline".'
    ),
    click.option(
        "--description", envvar="AGENTKIT_DESCRIPTION", default="", help="Who the agent is and what it is for."
    ),
    click.option(
        "--max-steps",
        envvar="AGENTKIT_MAX_STEPS",
        default=50,
        show_default=True,
        type=click.IntRange(1),
        help="Requests a run may make.",
    ),
)


def agent_options(command: Command) -> Command:
    """Give a command the options that describe an agent; it passes them on to `agent_of`."""
    return reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), command)


def agent_of(*, targets: Sequence[str], **settings: Any) -> "agentkit.JsonAgent[str]":
    """The agent with the tools of `targets`; `click.UsageError` for what cannot be."""
    try:
        return agentkit.JsonAgent(registry_of(targets), **settings)
    except agentkit.DefinitionError as error:
        raise click.UsageError(str(error)) from error
