"""Defaults of options: the table `[tool.agentkit]` of the nearest pyproject.toml."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click


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
