"""What a command line names: tools, by targets and of MCP servers, and files that belong to a question.

A target is `module`, `module:function`, `file.py` or `file.py:function`.  The code that a folder's pyproject.toml names
as tools needs the consent of the person, once per folder.  `--mcp FILE` adds the tools of servers.
"""

import importlib
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from inspect import isabstract, isclass, isfunction, signature
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from click.core import ParameterSource

import agentkit

from ..extend import (
    ContentPart,
    Query,
    ask_terminal,
    escape_unprintable,
    import_file,
    read_file,
    suggest,
    write_atomically,
)
from . import PYPROJECT
from .output import clean_output, usage_errors


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
            remedy = "Allow them at a terminal, or name others with --tools or --mcp."
            raise click.UsageError(f"{place}: its tools are not allowed: {names}. {remedy}")
        trusted[folder] = sorted({*allowed, *targets})
        _trusted_file().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_trusted_file(), json.dumps(trusted, indent=2).encode())
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


def check_trust(context: click.Context, parameter: click.Parameter, targets: Sequence[str]) -> Sequence[str]:
    """Ask about targets that the person did not name, those of a pyproject.toml; the context's `obj` may ask."""
    is_default = context.get_parameter_source(str(parameter.name)) is ParameterSource.DEFAULT_MAP
    if is_default and targets and not context.resilient_parsing:
        require_trust(context.meta[PYPROJECT], targets, context.obj or ask_terminal)
    return targets


def _check_agent(context: click.Context, parameter: click.Parameter, target: str | None) -> str | None:
    check_trust(context, parameter, [target] if target else [])
    return target


AGENT = click.option(
    "--agent",
    callback=_check_agent,
    envvar="AGENTKIT_AGENT",
    metavar="TARGET",
    help="An agent of yours, module:agent or file.py:agent; file.py:agent may also be the first argument.",
)
_TWO_AGENTS = "{}: --agent names an agent as well. Leave one of them out."
_QUOTE_IT = "If it is a word of the question, put the question in quotes."


def choose_agent(target: str | None, agent: str | None) -> str | None:
    """Return the agent of the argument, or of --agent; raise `click.UsageError` if the command line has both."""
    source = click.get_current_context().get_parameter_source("agent")
    if target is not None and source is ParameterSource.COMMANDLINE:
        raise click.UsageError(_TWO_AGENTS.format(target))
    return agent if target is None else target


_IMPORTERS = {__file__, import_file.__code__.co_filename, importlib.__file__}
_IN_FILE = re.compile(r".+\.py:[A-Za-z_]\w*")
_IN_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class AgentCommand(click.Command):
    """A command whose first argument may name an agent, as `file.py:agent` or `module:agent`.

    Attributes:
        takes_text: Whether the other arguments are words of a person, which `module:agent` could be, too.
    """

    takes_text = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = self._find_argument(args)
        if place < len(args) and self._is_agent(args[place]):
            options = args[: args.index("--")] if "--" in args else args
            if any(word.partition("=")[0] == "--agent" for word in options):
                ctx.fail(_TWO_AGENTS.format(args[place]))
            args = [*args[:place], "--agent", *args[place:]]
        elif self.takes_text and self._names_agent_last(args, place):
            word = args[-1]
            ctx.fail(f"{word}: the agent is the first argument: {ctx.command_path} {word} ... {_QUOTE_IT}")
        elif self.takes_text and self._names_file_first(args, place):
            ctx.fail(f"{_explain_file(ctx, args[place])}. {_QUOTE_IT}")
        ctx.allow_extra_args = True  # they are refused here
        if (rest := super().parse_args(ctx, args)) and not ctx.resilient_parsing:
            ctx.fail(self._describe_extra(ctx, rest))
        return rest

    def _describe_extra(self, ctx: click.Context, rest: Sequence[str]) -> str:
        """Return the error text for arguments that the command does not take; an agent may be in the wrong place."""
        named = [str(ctx.params.get(str(one.name))) for one in self.params if isinstance(one, click.Argument)]
        for word in [*named, *rest]:
            if self._is_agent(word):
                return f"{word}: the agent is the first argument: {ctx.command_path} {word} ..."
            if word.endswith(".py"):
                return _explain_file(ctx, word)
        return f"Got unexpected extra argument{'s' if len(rest) > 1 else ''} ({' '.join(rest)})"

    def _is_agent(self, word: str) -> bool:
        if _IN_FILE.fullmatch(word):
            is_one_word = len(word.split()) == 1  # of a path or a typing error in it
            return not self.takes_text or is_one_word or Path(word.rpartition(":")[0]).is_file()
        return not self.takes_text and bool(_IN_MODULE.fullmatch(word)) and not Path(word).exists()

    def _names_agent_last(self, args: Sequence[str], place: int) -> bool:
        """Whether the last word behind `place` is an agent of a file that exists, and no option names other tools."""
        last = args[-1] if place < len(args) - 1 and not _names_tools(args) else ""
        return len(last.split()) == 1 and self._is_agent(last) and Path(last.rpartition(":")[0]).is_file()

    def _names_file_first(self, args: Sequence[str], place: int) -> bool:
        """Whether the words of a person begin with a file of Python that exists, and no option names other tools."""
        first = args[place] if place < len(args) and not _names_tools(args) else ""
        return first.endswith(".py") and Path(first).is_file()

    def _find_argument(self, args: Sequence[str]) -> int:
        """Return the place of the first argument that is neither an option nor the value of one."""
        options = [option for option in self.params if isinstance(option, click.Option)]
        with_value = {name for option in options if not (option.is_flag or option.count) for name in option.opts}
        place = 0
        while place < len(args) and args[place].startswith("-") and args[place] not in ("-", "--"):
            place += 2 if args[place] in with_value else 1
        return place


def _names_tools(args: Sequence[str]) -> bool:
    return not {"--", "--tools", "--agent", "--mcp"}.isdisjoint(word.partition("=")[0] for word in args)


def _explain_file(ctx: click.Context, word: str) -> str:
    """Return the error text for a file of Python in the place of an agent."""
    return (
        f"{word}: name an agent of the file as the first argument, {ctx.command_path} {word}:AGENT ..., "
        f"or its tools with --tools {word}"
    )


FILE = click.Path(dir_okay=False, path_type=Path)
FILE_OR_DASH = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


class JournalPlace(click.Path):
    """The path of a file, or a URL."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a URL as it is, and anything else as a path."""
        return value if isinstance(value, str) and "://" in value else super().convert(value, param, ctx)


JOURNAL_PLACE = JournalPlace(dir_okay=False, path_type=Path)
JOURNAL_HELP = "The journal: a file, or postgresql://USER@HOST/DATABASE."
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_ARGUMENTS = f"{__name__}.arguments"
"""Where a context has the targets that are arguments of its command."""


def _keep_arguments(context: click.Context, _parameter: click.Parameter, targets: Sequence[str]) -> None:
    context.meta[_ARGUMENTS] = targets


def _join_targets(context: click.Context, parameter: click.Parameter, targets: Sequence[str]) -> Sequence[str]:
    """Return the targets that are arguments with those of --tools; without both, those of the settings."""
    named = context.meta.get(_ARGUMENTS, ())
    if context.params.get("agent") or context.params.get("target"):
        return targets  # an agent has its own: those of the settings are not loaded
    if not named:
        return check_trust(context, parameter, targets)
    is_given = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    return (*named, *targets) if is_given else named


TARGETS = click.argument(
    "named", nargs=-1, metavar="[TARGET]...", is_eager=True, expose_value=False, callback=_keep_arguments
)
"""The targets of a command about tools as arguments, which `TOOLS` reads."""
TOOLS = click.option(
    "--tools",
    "targets",
    callback=_join_targets,
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
    with usage_errors():
        return agentkit.ToolRegistry(agentkit.extend.split_toolsets(list_tools(load_described(targets)))[0])


def load_described(targets: Sequence[str]) -> list[Any]:
    """Return the functions and tools that the targets name; raise `click.UsageError` for one without a docstring."""
    found = load_targets(targets)
    for entry in found:
        if isfunction(entry) and "<locals>" not in entry.__qualname__ and not (entry.__doc__ or "").strip():
            raise click.UsageError(
                f"the tool {entry.__name__!r} has no description, which a model needs to choose it. Write a docstring "
                f"under `def {entry.__name__}(...)`. If it is no tool, rename it _{entry.__name__}, list the tools of "
                "the file in __all__, or mark them with @tool."
            )
    return found


def load_targets(targets: Sequence[str]) -> list[Any]:
    """Return the functions and tools that the targets name, unchecked."""
    return [entry for target in targets or BUNDLED for entry in _load_target(target)]


def list_tools(entries: Sequence[Any]) -> list[Any]:
    """Return the entries with the tools and servers of an agent in its place."""
    found: list[Any] = []
    for entry in entries:
        is_agent = isinstance(entry, agentkit.JsonAgent)
        found += [*entry.spec.tools.own_tools, *entry.toolsets] if is_agent else [entry]
    return found


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
        with clean_output():
            module = import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    except (Exception, SystemExit) as error:  # a script that ends itself
        raise click.UsageError(f"{target}: cannot be imported: {_describe_failure(error)}") from error
    if name:
        if not hasattr(module, name):
            names = _list_names(module)
            hint = suggest(
                name, names, then=f"It has: {', '.join(names)}." if names else "It defines no public function."
            )
            raise click.UsageError(f"{target}: {place} has no {name!r}. {hint}")
        named = getattr(module, name)
        return [*named] if isinstance(named, list | tuple) else [named]
    if found := _public_tools(module):
        return found
    raise click.UsageError(f"{target}: {place} defines no public function")


def _describe_failure(error: BaseException) -> str:
    """Return the name and text of an error at an import, and the line of the imported code that failed."""
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if frame.filename not in _IMPORTERS and not frame.filename.startswith("<")]
    where = f" ({Path(places[0].filename).name}, line {places[0].lineno})" if places else ""
    is_relative = isinstance(error, ImportError) and "attempted relative import" in str(error)
    remedy = ". Name the module in place of its file: package.module" if is_relative else ""
    return f"{text}{where}{remedy}"


def _import_module(name: str) -> ModuleType:
    """Import a module by name, also from the current folder, which is not on a console script's `sys.path`."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    return importlib.import_module(name)


def _list_names(module: ModuleType) -> list[str]:
    """Return the names of a module that a target may have: functions, tools, agents and lists of tools."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (
            isinstance(value, agentkit.JsonAgent | list | tuple)
            or (callable(value) and getattr(value, "__module__", "") == module.__name__)
        )
    ]


def _public_tools(module: ModuleType) -> list[Any]:
    """Return the tools of a module: those in its `__all__`, else the public functions and tools that it defines itself.

    Where a module has tools (`@tool`), its plain functions are left out.
    """
    listed = getattr(module, "__all__", None)
    found = [
        value
        for name, value in vars(module).items()
        if (name in listed if listed is not None else not name.startswith("_"))
        and (isfunction(value) or isinstance(value, agentkit.JsonTool | agentkit.ToolExecutor) or _is_tool_class(value))
        and (listed is not None or value.__module__ == module.__name__)
    ]
    if listed is None and any(isinstance(entry, agentkit.JsonTool) for entry in found):
        found = [entry for entry in found if not isfunction(entry)]
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
    with usage_errors(ImportError):
        return [server for config in configs for server in agentkit.mcp.MCPServer.from_config(config, **settings)]


def load_tools(targets: Sequence[str], configs: Sequence[str]) -> list[Any]:
    """Return what an agent gets: the tools of the targets, and servers; the bundled tools without both."""
    tools = list_tools(load_described(targets)) if targets or not configs else []
    return [*tools, *load_servers(configs)]


@contextmanager
def open_registry(targets: Sequence[str], configs: Sequence[str]) -> "Iterator[agentkit.ToolRegistry]":
    """Yield all tools by name; the servers are open meanwhile."""
    tools, servers = agentkit.extend.split_toolsets(load_tools(targets, configs))
    registry = agentkit.ToolRegistry(tools)
    with agentkit.extend.opened_toolsets(servers):
        yield registry.merged(agentkit.extend.name_toolset_tools(servers, registry))


ATTACH = click.option(
    "--attach",
    "attached",
    multiple=True,
    type=EXISTING_FILE,
    help="Send this image, PDF or sound with the question; several are possible.",
)


def read_attachments(files: Iterable[Path]) -> list[ContentPart]:
    """Return the files as parts of a query; raise `click.UsageError` for one that cannot be read or sent."""
    with usage_errors(OSError):
        return [read_file(file) for file in files]


def join_query(question: str, parts: list[ContentPart]) -> Query | None:
    """Return the question with its parts; None if it is empty and has none."""
    return [question, *parts] if parts else question or None
