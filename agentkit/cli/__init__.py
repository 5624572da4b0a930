"""The command line: single questions, conversations, many questions, and information about tools.

Commands import from `agentkit` lazily, so that `--help` does not load pydantic.  The table `[tool.agentkit]` of the
nearest pyproject.toml holds defaults for the options of all commands.
"""

import errno
import sys
from typing import Any

import click

import agentkit

from .chat import chat_command
from .defaults import read_defaults
from .doors import acp_command, submit_command, web_command, worker_command
from .journals import replay_command, resume_command, runs_command, show_command
from .many import map_command
from .mcp import mcp_command
from .models import models_command
from .output import INTERRUPTED, exit_code, print_error
from .run import run_command
from .targets import PYPROJECT
from .tools import lint_command, lock_command, schema_command, tools_command

COMMANDS = (
    run_command, chat_command, map_command, show_command, runs_command, resume_command, replay_command,
    web_command, acp_command, worker_command, submit_command, models_command, tools_command, schema_command,
    lint_command, lock_command, mcp_command,
)  # fmt: skip


class Commands(click.Group):
    """A group whose commands print one line when they fail."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except (agentkit.AgentkitError, OSError) as error:
            if getattr(error, "errno", None) == errno.EPIPE:  # the reader of the output closed the pipe
                raise
            print_error(error)
            sys.exit(exit_code(error))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agentkit")
@click.pass_context
def main(context: click.Context) -> None:
    """Agents from plain Python functions.

    Options may stand in environment variables (AGENTKIT_MODEL, AGENTKIT_TOOLS, AGENTKIT_MCP, AGENTKIT_DESCRIPTION,
    AGENTKIT_MAX_STEPS, AGENTKIT_JOURNAL) and in the table [tool.agentkit] of pyproject.toml.

    \b
    Completion, in the start-up file of your shell:
      bash  eval "$(_AGENTKIT_COMPLETE=bash_source agentkit)"
      zsh   eval "$(_AGENTKIT_COMPLETE=zsh_source agentkit)"
      fish  _AGENTKIT_COMPLETE=fish_source agentkit | source
    """
    context.default_map, context.meta[PYPROJECT] = read_defaults(COMMANDS)


for command in COMMANDS:
    main.add_command(command)
