"""The extensions of an agent: what is checked when it is made, and what they add to its tools and its runs."""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.context import RunContext
from ..core.errors import DefinitionError
from ..core.extension import Extension
from ..core.flow import Policy
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry
from ..tools.toolset import Toolset, split_toolsets


def check_extensions(given: Any) -> tuple[Extension, ...]:
    """Return extensions as a tuple; raise `DefinitionError` for anything else, and for two with the same name."""
    if isinstance(given, Extension | str) or not isinstance(given, Iterable):
        raise DefinitionError(f"extensions must be a list of extensions, got {given!r:.80}. Write extensions=[...].")
    found = tuple(given)
    names = set[str]()
    for entry in found:
        if isinstance(entry, type) and issubclass(entry, Extension):
            name = entry.__name__
            raise DefinitionError(f"extensions: got the class {name}. Give an object of it: extensions=[{name}()].")
        if not isinstance(entry, Extension):
            remedy = "Derive its class from agentkit.extend.Extension; tools and servers stand among the tools."
            raise DefinitionError(f"extensions: expected objects of Extension, got {entry!r:.80}. {remedy}")
        for method in (entry.open, entry.close):
            if not inspect.iscoroutinefunction(method):
                name = f"{type(entry).__name__}.{method.__name__}"
                raise DefinitionError(f"{name} must be a coroutine function. Write: async def {method.__name__}(...)")
        if entry.name in names:
            remedy = "Leave one out, or give its class a name of its own: name = '...'"
            raise DefinitionError(f"two extensions are called {entry.name!r}. {remedy}.")
        names.add(entry.name)
    return found


def add_tools(tools: ToolRegistry, extensions: Iterable[Extension]) -> tuple[ToolRegistry, tuple[Toolset, ...]]:
    """Return tools with those of extensions after them, and the toolsets of the extensions.

    Raises:
        DefinitionError: The tools of an extension are no list of tools, or a name is taken.
    """
    owners = dict.fromkeys(tools, "a tool of the agent")
    added: list[ToolRegistry] = []
    toolsets: list[Toolset] = []
    for extension in extensions:
        given = extension.tools
        if isinstance(given, str) or callable(given) or not isinstance(given, Iterable):
            remedy = "Set it to a list, or write it as a property."
            raise DefinitionError(f"{extension.name}.tools must be a list of tools, got {given!r:.80}. {remedy}")
        entries, sources = split_toolsets(given)
        own = ToolRegistry(tool.offered() for tool in ToolRegistry(entries).own_tools)
        for name in own:
            if name in owners:
                remedy = "Rename one: @tool(name='...')"
                raise DefinitionError(
                    f"extension {extension.name}: its tool {name!r} has the name of {owners[name]}. {remedy}."
                )
            owners[name] = f"a tool of the extension {extension.name}"
        added.append(own)
        toolsets += sources
    return (tools.merged(added) if any(added) else tools), tuple(toolsets)


def write_instruction(extension: Extension, context: RunContext[Any]) -> str:
    """Return what an extension adds to the instruction of a run; raise `DefinitionError` for anything but a text."""
    text = extension.instruction(context)
    if not isinstance(text, str):
        remedy = "Return '' for none."
        raise DefinitionError(f"{extension.name}.instruction must return a text, got {text!r:.80}. {remedy}")
    return text.strip()


def list_policies(extension: Extension, context: RunContext[Any]) -> Sequence[Policy]:
    """Return the policies of an extension for a run; raise `DefinitionError` for anything else."""
    given = extension.policies(context)
    if callable(given) or not isinstance(given, Iterable) or not all(map(callable, found := tuple(given))):
        raise DefinitionError(f"{extension.name}.policies must return a list of functions, got {given!r:.80}.")
    return found


def opens(extension: Extension) -> bool:
    """Return whether an extension has an `open` or a `close` of its own."""
    kind = type(extension)
    return kind.open is not Extension.open or kind.close is not Extension.close


@dataclass
class OpenedExtension:
    """Open an extension for a run as a toolset is opened."""

    name: str
    extension: Extension
    context: RunContext[Any] = field(compare=False)

    async def open_tools(self) -> None:
        await self.extension.open(self.context)

    async def close_tools(self) -> None:
        await self.extension.close(self.context)

    def list_tools(self) -> Sequence[JsonTool[..., Any]]:
        return ()
