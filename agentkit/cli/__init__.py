"""The terminal: `agentkit run "question"`, conversations, many questions, and what there is to know of tools.

Everything is taken from `agentkit` by name when a command needs it, so that `--help` loads no pydantic.  What stands in
the table `[tool.agentkit]` of the nearest pyproject.toml is the default of every command's options.
"""

import errno
import sys
from typing import Any

import click

import agentkit

from .chat import chat
from .defaults import defaults
from .journals import resume, runs
from .many import map_
from .models import models
from .output import FAILED, INTERRUPTED, complain
from .replay import replay
from .run import run
from .show import show
from .tools import lint, lock, schema, tools

COMMANDS = (run, chat, map_, show, runs, resume, replay, models, tools, schema, lint, lock)


class Commands(click.Group):
    """A group whose commands fail in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except (agentkit.AgentkitError, OSError) as error:
            if getattr(error, "errno", None) == errno.EPIPE:  # whoever read the output has gone
                raise
            complain(error)
            sys.exit(FAILED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agentkit")
@click.pass_context
def main(context: click.Context) -> None:
    """Agents from plain Python functions.

    Options may stand in environment variables (AGENTKIT_MODEL, AGENTKIT_TOOLS, AGENTKIT_DESCRIPTION,
    AGENTKIT_MAX_STEPS, AGENTKIT_JOURNAL) and in the table [tool.agentkit] of pyproject.toml.

    \b
    Completion, in the start-up file of your shell:
      bash  eval "$(_AGENTKIT_COMPLETE=bash_source agentkit)"
      zsh   eval "$(_AGENTKIT_COMPLETE=zsh_source agentkit)"
      fish  _AGENTKIT_COMPLETE=fish_source agentkit | source
    """
    context.default_map = defaults(COMMANDS)


for command in COMMANDS:
    main.add_command(command)
