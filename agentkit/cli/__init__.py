"""The command line: single questions, conversations, many questions, and information about tools.

Commands import from `agentkit` lazily, so that `--help` does not load pydantic.  The table `[tool.agentkit]` of the
nearest pyproject.toml holds defaults for the options of all commands.
"""

import io
import os
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import agentkit

from .output import exit_codes, restored_terminal, write_warnings_plainly

COMMANDS = {
    "run": ("run", "Answer a question with tools."),
    "map": ("run", "Answer a file of questions."),
    "eval": ("evals", "Run cases with an agent, and compare."),
    "chat": ("chat", "Talk with an agent."),
    "show": ("journals", "Show a stored run or conversation."),
    "replay": ("journals", "Repeat a recorded run."),
    "resume": ("journals", "Continue a stopped run."),
    "runs": ("journals", "List, show and remove stored runs."),
    "sessions": ("journals", "List and find conversations, give them titles and tags."),
    "notes": ("journals", "List, edit and delete the notes of a memory."),
    "acp": ("doors", "Let an editor drive an agent."),
    "web": ("doors", "A page to talk with an agent and to read its runs."),
    "worker": ("doors", "Execute runs that were submitted."),
    "submit": ("doors", "Submit a question to workers."),
    "mcp": ("doors", "Serve tools over MCP, or inspect a server."),
    "models": ("models", "List models and missing keys; fetch a model."),
    "tools": ("tools", "List the tools."),
    "schema": ("tools", "Print a tool's schema."),
    "lint": ("tools", "Check tools for problems."),
    "lock": ("tools", "Store schemas, or check for changes."),
}
"""For each command: the module of this folder that has it as `NAME_command`, and its line in the help."""
PYPROJECT = "agentkit.pyproject"
"""The key of a click context's `meta` for the pyproject.toml that the defaults come from."""


def load_command(name: str) -> click.Command:
    """Import a command of the table."""
    module, line = COMMANDS[name]
    command: click.Command = getattr(import_module(f".{module}", __name__), f"{name}_command")
    command.short_help = line
    return command


class LazyCommands(dict[str, Any]):
    """The commands by their names, for click; the module of one is imported when it is used."""

    def get(self, name: str, default: Any = None) -> Any:
        return load_command(name) if name in self else default


class Commands(click.Group):
    """A group whose commands print one line when they fail; its help imports none of them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with exit_codes():  # --help and --version write here
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # the caller closed it, `>&-`
                setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
        if isinstance(sys.stdout, io.TextIOWrapper):  # else it is one of another program
            sys.stdout.reconfigure(errors="agentkit")
        with exit_codes(), restored_terminal(), write_warnings_plainly():
            return super().invoke(ctx)


@click.group(cls=Commands, commands=LazyCommands(COMMANDS), context_settings={"help_option_names": ["-h", "--help"]})
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
    context.default_map, context.meta[PYPROJECT] = read_defaults(context.invoked_subcommand or "")


def read_defaults(name: str) -> tuple[dict[str, dict[str, Any]], Path | None]:
    """Return the defaults for the options of the command `name` and of its subcommands, by its name, and their file.

    Raises:
        click.UsageError: The file cannot be read, or has a setting that no command has.
    """
    table, file = read_table()
    if not table:
        return {}, file
    command = load_command(name)
    for key in table.keys() - _list_keys(command):
        names = {option for other in COMMANDS for option in _list_keys(load_command(other))}
        if key not in names:
            hint = agentkit.extend.suggest(key, sorted(names), then="agentkit COMMAND --help lists the options.")
            raise click.UsageError(f"{file}: [tool.agentkit] has no setting {key!r}. {hint}")
    return {name: _choose_values(command, table)}, file


def read_table() -> tuple[dict[str, Any], Path | None]:
    """Return the table of the nearest pyproject.toml, with names of Python and paths of its folder, and that file.

    Raises:
        click.UsageError: The file cannot be read.
    """
    here = Path.cwd()
    file = next((path for folder in (here, *here.parents) if (path := folder / "pyproject.toml").is_file()), None)
    if file is None:
        return {}, None
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        entries = content.get("tool", {}).get("agentkit", {}).items()
        table = {key.replace("-", "_"): value for key, value in entries}
        if "tools" in table:
            table["tools"] = _resolve_targets(file.parent, table["tools"])
    except (OSError, ValueError, RecursionError, AttributeError) as error:
        raise click.UsageError(f"{file}: cannot be read: {error}") from error
    if "mcp" in table:
        configs = table["mcp"] if isinstance(table["mcp"], list) else [table["mcp"]]
        table["mcp"] = [str(file.parent / str(config)) for config in configs]
    return table, file


def _resolve_targets(folder: Path, targets: str | list[str]) -> list[str]:
    """Return the targets of a table with absolute paths; `require_trust` makes its modules importable."""
    targets = targets.split() if isinstance(targets, str) else targets
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise ValueError(f"tools: expected a list of texts, got {targets!r:.60}")
    is_file = re.compile(r"[^:]*\.py(:|$)").match
    return [str(folder / target) if is_file(target) else target for target in targets]


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their names in the table."""
    options = (parameter for parameter in command.params if isinstance(parameter, click.Option))
    return {max(option.opts, key=len).lstrip("-").replace("-", "_"): option for option in options}


def _subcommands(command: click.Command) -> dict[str, click.Command]:
    return dict(command.commands) if isinstance(command, click.Group) else {}


def _list_keys(command: click.Command) -> set[str]:
    """Return the names in the table of the options of a command and of its subcommands."""
    return {*_options(command)}.union(*map(_list_keys, _subcommands(command).values()))


def _choose_values(command: click.Command, table: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the table for the options of a command, by their names in click, and for its subcommands."""
    values: dict[str, Any] = {}
    for key, option in _options(command).items():
        if key in table:
            value = table[key]
            values[str(option.name)] = [value] if option.multiple and not isinstance(value, list) else value
    return values | {name: _choose_values(sub, table) for name, sub in _subcommands(command).items()}
