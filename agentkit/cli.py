"""The terminal: `agentkit run "question"`, `agentkit tools`, `agentkit schema NAME`.

Everything is taken from `agentkit` by name when a command needs it, so that `--help` loads no pydantic.
"""

import importlib
import importlib.util
import json
import sys
from collections.abc import Sequence
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import agentkit

TOOLS = click.option(
    "--tools",
    "targets",
    multiple=True,
    metavar="TARGET",
    help="Tools to use: module:function, module, file.py or file.py:function; may be given several times. "
    "Without it, the bundled tools.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agentkit")
def main() -> None:
    """Agents from plain Python functions."""


@main.command()
@click.argument("question", required=False)
@TOOLS
@click.option("--model", help='The model, as litellm names it ("openai/gpt-4o-mini"), or "offline".')
@click.option("--description", default="", help="Who the agent is and what it is for.")
@click.option("--max-steps", default=50, show_default=True, type=click.IntRange(1), help="Requests a run may make.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the run on standard error.")
def run(
    question: str | None,
    targets: Sequence[str],
    model: str | None,
    description: str,
    max_steps: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Answer QUESTION (or what stands on standard input) with tools.

    The answer goes to standard output, the run to standard error.  Exit codes: 0 answered, 1 the run failed, 2 wrong
    usage.
    """
    question = (question if question not in (None, "-") else _standard_input()).strip()
    if not question:
        raise click.UsageError('no question: agentkit run "What is 2 + 3?", or pipe one in')
    tools = _load(targets)

    try:
        listeners = () if quiet else (agentkit.log.printer(sys.stderr).listen,)
        agent = agentkit.JsonAgent(
            tools, model=model, description=description, max_steps=max_steps, listeners=listeners
        )
        result = agent.run(question)
    except agentkit.DefinitionError as error:
        raise click.UsageError(str(error)) from error
    except agentkit.RunError as error:
        click.echo(f"agentkit: {error}", err=True)
        sys.exit(1)
    click.echo(json.dumps(result.as_dict(), ensure_ascii=False, indent=2) if as_json else result.text)


@main.command()
@TOOLS
def tools(targets: Sequence[str]) -> None:
    """List the tools: name, parameters, description."""
    for tool in _load(targets).values():
        required = tool.parameters.get("required", [])
        names = [name if name in required else f"{name}?" for name in tool.parameters["properties"]]
        click.echo(f"{tool.name}({', '.join(names)})\n    {tool.description.splitlines()[0]}")


@main.command()
@click.argument("name")
@TOOLS
@click.option("--format", "dialect", default="json", show_default=True, help="json, openai, anthropic or gemini.")
def schema(name: str, targets: Sequence[str], dialect: str) -> None:
    """Print the schema of the tool NAME in a provider's dialect."""
    registry = _load(targets)
    if name not in registry:
        raise click.UsageError(f"there is no tool {name!r}; there are: {', '.join(registry)}")
    try:
        click.echo(json.dumps(registry[name].schema(dialect), ensure_ascii=False, indent=2))
    except agentkit.DefinitionError as error:
        raise click.UsageError(str(error)) from error


def _standard_input() -> str:
    return "" if sys.stdin.isatty() else sys.stdin.read()


def _load(targets: Sequence[str]) -> "agentkit.ToolRegistry":
    try:
        return agentkit.ToolRegistry([_tools_at(target) for target in targets or ("agentkit_tools",)])
    except agentkit.DefinitionError as error:
        raise click.UsageError(str(error)) from error


def _tools_at(target: str) -> list[Any]:
    """What a target names: one function of a module or file, or all tools that it defines."""
    place, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    try:
        module = _file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:
        raise click.UsageError(f"--tools {target}: cannot be imported: {type(error).__name__}: {error}") from error
    if name:
        if not hasattr(module, name):
            raise click.UsageError(f"--tools {target}: {place} has no {name!r}")
        return [getattr(module, name)]
    if found := _public(module):
        return found
    raise click.UsageError(f"--tools {target}: {place} defines no public function")


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def _public(module: ModuleType) -> list[Any]:
    """The tools of a module: what its `__all__` names, else the public functions and tools that it defines itself."""
    listed = getattr(module, "__all__", None)
    return [
        value
        for name, value in vars(module).items()
        if (name in listed if listed is not None else not name.startswith("_"))
        and (isinstance(value, agentkit.JsonTool) or isfunction(value))
        and (listed is not None or value.__module__ == module.__name__)
    ]
