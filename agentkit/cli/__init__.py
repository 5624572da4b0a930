"""The terminal: `agentkit run "question"`, and what there is to know of tools: tools, schema, lint, lock.

Everything is taken from `agentkit` by name when a command needs it, so that `--help` loads no pydantic.  What stands in
the table `[tool.agentkit]` of the nearest pyproject.toml is the default of every command's options.
"""

import click

from .chat import chat
from .defaults import defaults
from .many import map_
from .models import models
from .run import run
from .show import show
from .tools import lint, lock, schema, tools

COMMANDS = (run, chat, map_, show, models, tools, schema, lint, lock)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agentkit")
@click.pass_context
def main(context: click.Context) -> None:
    """Agents from plain Python functions."""
    context.default_map = defaults(COMMANDS)


for command in COMMANDS:
    main.add_command(command)
