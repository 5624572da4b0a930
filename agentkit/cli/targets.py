"""From what a user names on the command line to tools: `module`, `module:function`, `file.py`, `file.py:function`."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from inspect import isabstract, isclass, isfunction, signature
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import agentkit

TOOLS = click.option(
    "--tools",
    "targets",
    multiple=True,
    envvar="AGENTKIT_TOOLS",
    metavar="TARGET",
    help="Tools to use: module:function, module, file.py or file.py:function; may be given several times. "
    "Without it, the bundled tools.",
)
BUNDLED = ("agentkit_tools",)
"""The tools of those who name none."""


def registry_of(targets: Sequence[str]) -> "agentkit.ToolRegistry":
    """The tools of all targets; without any the bundled ones.  `click.UsageError` if they cannot be had."""
    try:
        return agentkit.ToolRegistry(candidates(targets))
    except agentkit.DefinitionError as error:
        raise click.UsageError(str(error)) from error


def candidates(targets: Sequence[str]) -> list[Any]:
    """The functions and tools that the targets name; nobody has checked yet that they can be tools."""
    return [entry for target in targets or BUNDLED for entry in _named(target)]


def _named(target: str) -> list[Any]:
    """What a target names: one function of a module or file, or all tools that it defines."""
    place, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    try:
        module = _file(Path(place)) if place.endswith(".py") else _module(place)
    except Exception as error:
        raise click.UsageError(f"{target}: cannot be imported: {type(error).__name__}: {error}") from error
    if name:
        if not hasattr(module, name):
            raise click.UsageError(f"{target}: {place} has no {name!r}")
        return [getattr(module, name)]
    if found := _public(module):
        return found
    raise click.UsageError(f"{target}: {place} defines no public function")


def _module(name: str) -> ModuleType:
    """A module by name; those in the folder one stands in are found too, which a console script alone would not do."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    return importlib.import_module(name)


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    name = path.stem if path.stem not in {*sys.modules, *sys.stdlib_module_names} else f"{path.stem}_of_tools"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def _public(module: ModuleType) -> list[Any]:
    """The tools of a module: what its `__all__` names, else the public functions and tools that it defines itself.

    A function that the module makes a tool of is there as that tool only.
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
    """Whether it is the class of a tool that can be made without arguments."""
    if not isclass(value) or not issubclass(value, agentkit.ToolExecutor) or isabstract(value):
        return False
    parameters = signature(value).parameters.values()
    return all(
        parameter.default is not parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in parameters
    )
