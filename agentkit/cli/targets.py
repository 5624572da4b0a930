"""The tools of a command line: from its targets, and from MCP servers.

A target is `module`, `module:function`, `file.py` or `file.py:function`.  The code that a folder's pyproject.toml names
as tools needs the consent of the person, once per folder.  `--mcp FILE` adds the tools of servers.
"""

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import isabstract, isclass, isfunction, signature
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from click.core import ParameterSource

import agentkit

from ..extend import ask_terminal, escape_unprintable, open_private

PYPROJECT = "agentkit.pyproject"
"""The key of a click context's `meta` for the pyproject.toml that the defaults come from."""


def require_trust(file: Path, targets: Sequence[str], ask: Callable[[str], str] = ask_terminal) -> None:
    """Make the modules beside `file` importable if the person allows its `targets`; else raise `click.UsageError`."""
    folder = str(file.parent.resolve())
    trusted = _read_trusted()
    allowed = trusted.get(folder, [])
    if not set(targets) <= set(allowed):
        names = escape_unprintable(", ".join(targets), 1_000)
        place = escape_unprintable(str(file))
        question = f"{place} names tools: {names}\nagentkit would run this code. Allow it from now on? y, n: "
        try:
            is_allowed = ask(question).strip().lower() in ("y", "yes")
        except EOFError:
            is_allowed = False
        if not is_allowed:
            raise click.UsageError(
                f"{place}: its tools are not allowed: {names}. Allow them at a terminal, or name them with --tools."
            )
        _write_trusted({**trusted, folder: sorted({*allowed, *targets})})
    if folder not in sys.path:
        sys.path.append(folder)


def _trusted_file() -> Path:
    return Path(click.get_app_dir("agentkit")) / "allowed_tools.json"


def _read_trusted() -> dict[str, Any]:
    """Return the allowed targets by folder; nothing is allowed by a file that is missing or damaged."""
    try:
        data = json.loads(_trusted_file().read_text(encoding="utf-8"))
        return {folder: list(map(str, targets)) for folder, targets in data.items()}
    except (OSError, ValueError, RecursionError, AttributeError, TypeError):
        return {}


def _write_trusted(trusted: dict[str, Any]) -> None:
    file = _trusted_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")
    with open_private(part, encoding="utf-8") as opened:
        json.dump(trusted, opened, indent=2)
    os.replace(part, file)


def check_trust(context: click.Context, parameter: click.Parameter, targets: Sequence[str]) -> Sequence[str]:
    """Ask about targets that the person did not name, those of a pyproject.toml; the context's `obj` may ask."""
    is_default = context.get_parameter_source(str(parameter.name)) is ParameterSource.DEFAULT_MAP
    if is_default and targets and not context.resilient_parsing:
        require_trust(context.meta[PYPROJECT], targets, context.obj or ask_terminal)
    return targets


FILE = click.Path(dir_okay=False, path_type=Path)


class JournalPlace(click.Path):
    """The path of a file, or a URL."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a URL as it is, and anything else as a path."""
        return value if isinstance(value, str) and "://" in value else super().convert(value, param, ctx)


JOURNAL_PLACE = JournalPlace(dir_okay=False, path_type=Path)
JOURNAL_HELP = "The journal: a file, or postgresql://USER@HOST/DATABASE."
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
TOOLS = click.option(
    "--tools",
    "targets",
    callback=check_trust,
    multiple=True,
    envvar="AGENTKIT_TOOLS",
    metavar="TARGET",
    help="Tools to use: module:function, module, file.py or file.py:function; may be given several times. "
    "Without it and without --mcp, the bundled tools.",
)
BUNDLED = ("agentkit_tools:ALL_TOOLS",)
"""The targets of a command line without targets."""


def load_registry(targets: Sequence[str]) -> "agentkit.ToolRegistry":
    """Return the tools of all targets, or the bundled ones; raise `click.UsageError` if a target is invalid."""
    try:
        return agentkit.ToolRegistry(load_targets(targets))
    except agentkit.DefinitionError as error:
        raise click.UsageError(str(error)) from error


def load_targets(targets: Sequence[str]) -> list[Any]:
    """Return the functions and tools that the targets name, unchecked."""
    return [entry for target in targets or BUNDLED for entry in _load_target(target)]


def load_agent(target: str) -> "agentkit.JsonAgent[Any]":
    """Return the agent that `module:agent` or `file.py:agent` names."""
    found = load_targets([target])
    if ":" not in target or len(found) != 1 or not isinstance(found[0], agentkit.JsonAgent):
        raise click.UsageError(f"{target}: expected an agent, as module:agent or file.py:agent")
    return found[0]


def _load_target(target: str) -> list[Any]:
    """Return one function (or a list of them) of a module or file, or all tools that it defines."""
    place, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    if place.endswith(".py") and not Path(place).is_file():
        raise click.UsageError(f"{target}: no such file: {place}")
    try:
        module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    except Exception as error:
        raise click.UsageError(f"{target}: cannot be imported: {type(error).__name__}: {error}") from error
    if name:
        if not hasattr(module, name):
            raise click.UsageError(f"{target}: {place} has no {name!r}")
        named = getattr(module, name)
        return [*named] if isinstance(named, list | tuple) else [named]
    if found := _public_tools(module):
        return found
    raise click.UsageError(f"{target}: {place} defines no public function")


def _import_module(name: str) -> ModuleType:
    """Import a module by name, also from the current folder, which is not on a console script's `sys.path`."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    name = path.stem if path.stem not in {*sys.modules, *sys.stdlib_module_names} else f"{path.stem}_of_tools"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def _public_tools(module: ModuleType) -> list[Any]:
    """Return the tools of a module: those in its `__all__`, else the public functions and tools that it defines itself.

    A function that the module wraps in a tool is returned as that tool only.
    """
    listed = getattr(module, "__all__", None)
    found = [
        value
        for name, value in vars(module).items()
        if (name in listed if listed is not None else not name.startswith("_"))
        and (isfunction(value) or isinstance(value, agentkit.JsonTool | agentkit.ToolExecutor) or _is_tool_class(value))
        and (listed is not None or value.__module__ == module.__name__)
    ]
    wrapped = [entry.function for entry in found if isinstance(entry, agentkit.JsonTool)]
    return [entry for entry in found if entry not in wrapped]


def _is_tool_class(value: Any) -> bool:
    """Return whether `value` is a tool class that can be instantiated without arguments."""
    if not isclass(value) or not issubclass(value, agentkit.ToolExecutor) or isabstract(value):
        return False
    parameters = signature(value).parameters.values()
    return all(
        parameter.default is not parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in parameters
    )


MCP = click.option(
    "--mcp",
    "configs",
    callback=check_trust,
    multiple=True,
    envvar="AGENTKIT_MCP",
    metavar="FILE",
    help='Use the tools of the MCP servers in this file, {"mcpServers": {"name": {"command": ..., "args": [...]}}}. '
    "May be given several times.",
)


def load_servers(configs: Sequence[str], **settings: Any) -> list[Any]:
    """Return the servers of configuration files; raise `click.UsageError` if one is invalid or the SDK is missing."""
    if not configs:
        return []
    try:
        return [server for config in configs for server in agentkit.mcp.MCPServer.from_config(config, **settings)]
    except (ImportError, agentkit.DefinitionError) as error:
        raise click.UsageError(str(error)) from error


def load_tools(targets: Sequence[str], configs: Sequence[str]) -> list[Any]:
    """Return what an agent gets: the tools of the targets, and servers; the bundled tools without both."""
    tools = [load_registry(targets)] if targets or not configs else []
    return [*tools, *load_servers(configs)]


@contextmanager
def open_registry(targets: Sequence[str], configs: Sequence[str]) -> "Iterator[agentkit.ToolRegistry]":
    """Yield all tools by name; the servers are open meanwhile."""
    tools, servers = agentkit.extend.split_toolsets(load_tools(targets, configs))
    registry = agentkit.ToolRegistry(tools)
    with agentkit.extend.opened_toolsets(servers):
        yield registry.merged(agentkit.extend.name_toolset_tools(servers, registry))
