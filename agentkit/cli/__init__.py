"""The command line: single questions, conversations, many questions, and information about tools.

Commands import from `agentkit` lazily, so that `--help` does not load pydantic.  The table `[tool.agentkit]` of the
nearest pyproject.toml holds defaults for the options of all commands.
"""

import errno
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

import agentkit

from .chat import chat_command
from .doors import acp_command, mcp_command, submit_command, web_command, worker_command
from .journals import replay_command, resume_command, runs_command, show_command
from .models import models_command
from .output import INTERRUPTED, exit_code, print_error
from .run import map_command, run_command
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


def read_defaults(commands: Iterable[click.Command]) -> tuple[dict[str, dict[str, Any]], Path | None]:
    """Return the defaults for the options of each command, and their file; raise `click.UsageError` for a bad one."""
    table, file = _read_table()
    known: dict[str, dict[str, str]] = {str(command.name): _options(command) for command in commands}
    for key in table:
        if not any(key in options for options in known.values()):
            raise click.UsageError(f"{file}: [tool.agentkit] has no setting {key!r}")
    defaults = {
        name: {options[key]: value for key, value in table.items() if key in options} for name, options in known.items()
    }
    return defaults, file


def _options(command: click.Command) -> dict[str, str]:
    """Return the names of a command's options: in the table > in click."""
    options = (parameter for parameter in command.params if isinstance(parameter, click.Option))
    return {max(option.opts, key=len).lstrip("-").replace("-", "_"): str(option.name) for option in options}


def _read_table() -> tuple[dict[str, Any], Path | None]:
    here = Path.cwd()
    file = next((path for folder in (here, *here.parents) if (path := folder / "pyproject.toml").is_file()), None)
    if file is None:
        return {}, None
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        entries = content.get("tool", {}).get("agentkit", {}).items()
    except (OSError, ValueError, RecursionError, AttributeError) as error:
        raise click.UsageError(f"{file}: cannot be read: {error}") from error
    table = {key.replace("-", "_"): value for key, value in entries}
    if "tools" in table:
        table["tools"] = _resolve_targets(file.parent, table["tools"])
    if "mcp" in table:
        configs = table["mcp"] if isinstance(table["mcp"], list) else [table["mcp"]]
        table["mcp"] = [str(file.parent / str(config)) for config in configs]
    return table, file


def _resolve_targets(folder: Path, targets: str | list[str]) -> list[str]:
    """Return the targets of a table with absolute paths; `require_trust` makes its modules importable."""
    targets = targets.split() if isinstance(targets, str) else targets
    is_file = re.compile(r"[^:]*\.py(:|$)").match
    return [str(folder / target) if is_file(target) else target for target in targets]
