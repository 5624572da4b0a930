"""The agent and the session that the options of a command line describe."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

import agentkit

from .models import EXAMPLES
from .output import usage_errors
from .targets import AGENT, FILE, JOURNAL_PLACE, MCP, TOOLS, load_agent, load_tools

Command = TypeVar("Command", bound=Callable[..., Any])


def _complete_models(_context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in EXAMPLES if name.startswith(start)]


def _make_option(name: str, **settings: Any) -> Callable[[Command], Command]:
    """Return an option that an environment variable can set as well."""
    return click.option(f"--{name}", envvar=f"AGENTKIT_{name.replace('-', '_').upper()}", show_envvar=True, **settings)


_MODEL_HELP = 'The model, by its name in litellm ("openai/gpt-4o-mini"), or "offline".'
_STEPS_HELP = "Requests that a run may make."
_OPTIONS = (
    AGENT,
    TOOLS,
    MCP,
    _make_option("model", shell_complete=_complete_models, help=_MODEL_HELP),
    _make_option("description", default="", help="The agent's role and purpose."),
    _make_option("max-steps", default=50, show_default=True, type=click.IntRange(1), help=_STEPS_HELP),
    _make_option("journal", type=JOURNAL_PLACE, help="The journal of the runs, for agentkit resume: a file or a URL."),
)
_SESSION_HELP = "Continue the conversation in this file, if it exists, and store it there."
SESSION = click.option("--session", "file", type=FILE, help=_SESSION_HELP)


def agent_options(command: Command) -> Command:
    """Add the options that describe an agent to a command, which passes them to `build_agent`."""
    return reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), command)


def options_as_given(names: Sequence[str] = ("agent", "targets", "configs", "model", "description")) -> str:
    """Return the options of this command line that describe the agent, quoted for a shell, with a leading space."""
    context = click.get_current_context()
    words = []
    for option in context.command.params:
        is_given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if is_given and option.name in names:
            value = context.params[option.name]
            for one in value if isinstance(value, tuple) else [value]:
                words += [option.opts[-1], str(one)]
    return f" {shlex.join(words)}" if words else ""


def command_to_resume(session: "agentkit.Session") -> str:
    """Return the command that continues the stopped run of a journaled conversation; "" if there is no such run."""
    command = "" if session.journaled is None else session.journaled.command_to_resume()
    return f"{command}{options_as_given()}" if command else ""


def build_agent(
    *,
    targets: Sequence[str],
    configs: Sequence[str] = (),
    read: Callable[[str], str] | None = None,
    agent: str | None = None,
    **settings: Any,
) -> "agentkit.JsonAgent[Any]":
    """Build the agent of a command from tools (see `load_tools`) and keywords of `JsonAgent`, or load `agent`.

    `read` asks the person about dangerous calls; None pauses the run instead.

    Raises:
        click.UsageError: The tools or the settings are invalid, or an agent has settings of its own.
    """
    person = agentkit.extend.Person(read) if read else None
    if agent is not None:
        return _take_agent(agent, person, settings)
    with usage_errors():
        return agentkit.JsonAgent(load_tools(targets, configs), approve=person, on_question=person, **settings)


def _take_agent(target: str, person: Any, settings: Mapping[str, Any]) -> "agentkit.JsonAgent[Any]":
    """Return the agent that `target` names; `person` decides and answers where it asks one or leaves that open."""
    if given := options_as_given(("targets", "configs", "model", "description", "max_steps")):
        raise click.UsageError(f"{target} has tools and settings of its own. Set them there, and leave out:{given}")
    agent = load_agent(target)
    own = agent.spec.settings
    settled = {"approve": own.approve, "on_question": own.on_question}
    asking = {name: person for name, value in settled.items() if person and value in (None, "ask")}
    agent.spec = replace(agent.spec, settings=replace(own, **asking))
    agent.listeners = (*agent.listeners, *settings.get("listeners", ()))
    if (journal := settings.get("journal")) is not None:
        agent.journal = journal
    return agent


def load_session(file: Path | None) -> "agentkit.Session":
    """Return the session in `file`, or a new one; raise `click.UsageError` if the file holds something else."""
    if file is not None and not file.parent.is_dir():
        raise click.UsageError(f"{file}: the folder {file.parent} does not exist. Create it, or name another file.")
    if file is None or not file.exists():
        return agentkit.Session()
    with usage_errors(agentkit.RunError, OSError):
        return agentkit.Session.load(file)
