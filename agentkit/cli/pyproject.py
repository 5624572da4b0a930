"""The table `[tool.agentkit]` of the nearest pyproject.toml."""

import re
import tomllib
from pathlib import Path
from typing import Any

import click

PYPROJECT = "agentkit.pyproject"
"""The key of a click context's `meta` for the pyproject.toml that the defaults come from."""


def read_table() -> tuple[dict[str, Any], Path | None]:
    """Return the table, with the names of Python and the paths of its folder, and its file.

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
