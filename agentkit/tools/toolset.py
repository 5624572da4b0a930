"""Tools that come and go with a connection, such as those of a server: what an agent needs of their source."""

import asyncio
import warnings
from collections import Counter
from collections.abc import AsyncGenerator, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal, Protocol, runtime_checkable

from ..core.background import run_coroutine
from ..core.context import Extension
from ..core.errors import DefinitionError, RunStopped
from ..core.flow import Done, Event
from ..core.masking import mask
from ..core.portable import find_free_name, to_portable_name
from ..core.values import frozen
from .json_tool import JsonTool


@frozen
class ServerLogged(Event):
    """A server reports something in its log, during calls of its tools by one run.

    While calls of several runs are open, the message may belong to any of them, so it goes to the program's log.

    Attributes:
        server: The server's name.
        severity: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency".
        text: The message.
        logger: The part of the server that reports, "" if it is not named.
    """

    server: str
    severity: str
    text: str
    logger: str = ""

    @property
    def level(self) -> Literal["INFO", "WARNING"]:
        return "INFO" if self.severity in ("debug", "info", "notice") else "WARNING"

    @property
    def notice(self) -> str:
        return f"{self.server}: {self.text}"


@runtime_checkable
class Toolset(Protocol):
    """A source of tools that is opened before it has tools, and closed after use.

    An agent accepts one wherever it accepts tools.  A run opens it, asks for its tools at each step, and closes it.
    """

    name: str
    """What tells its tools from those of other sources with the same names."""

    async def open_tools(self) -> None:
        """Connect, unless another run or the caller has done so; each call is matched by one of `close_tools`."""
        ...

    async def close_tools(self) -> None:
        """Disconnect after the last of the matching calls."""
        ...

    def list_tools(self) -> Sequence[JsonTool[..., Any]]:
        """Return the tools of the next step; the same objects as long as nothing has changed.  Must not block."""
        ...


@frozen
class OpenToolsets:
    """The effect that opens toolsets; the opened ones are appended to `opened`."""

    toolsets: Sequence[Toolset]
    opened: list[Toolset]

    def perform(self) -> Generator[Event, None, None]:
        try:
            run_coroutine(self._open())
        except asyncio.CancelledError as error:  # an `Exception`, so that the runner can tell why
            raise RunStopped("the run was stopped while its servers were opened") from error
        yield from ()

    async def aperform(self) -> AsyncGenerator[Event | Done[None], None]:
        await self._open()
        yield Done(None)

    async def _open(self) -> None:
        """Open all toolsets at the same time; raise the first error after all attempts have ended."""
        opening = (self._open_one(entry) for entry in self.toolsets)
        for outcome in await asyncio.gather(*opening, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _open_one(self, toolset: Toolset) -> None:
        await toolset.open_tools()
        self.opened.append(toolset)


@contextmanager
def closing_toolsets(opened: list[Toolset]) -> Iterator[None]:
    """Close the toolsets that are in the list at the end."""
    try:
        yield
    finally:
        if opened:
            run_coroutine(_close(opened))


@contextmanager
def opened_toolsets(toolsets: Sequence[Toolset]) -> Iterator[None]:
    """Open toolsets for the body, which may have several runs, and close them at its end.

    Raises:
        Exception: What the first toolset raised that could not be opened; the others are closed.
    """
    opened: list[Toolset] = []
    with closing_toolsets(opened):
        for _ in OpenToolsets(toolsets, opened).perform():
            pass
        yield


@asynccontextmanager
async def aclosing_toolsets(opened: list[Toolset]) -> AsyncGenerator[None, None]:
    """Do `closing_toolsets` on the running event loop."""
    try:
        yield
    finally:
        await close_toolsets(opened)


async def close_toolsets(opened: list[Toolset]) -> None:
    """Close the toolsets that a run has opened, to the end even if the task is cancelled."""
    if opened:
        await asyncio.shield(_close(opened))


async def _close(opened: list[Toolset]) -> None:
    """Close toolsets at the same time and empty the list; an error is a warning, because the run has its outcome."""
    toolsets = [*opened]
    opened.clear()
    outcomes = await asyncio.gather(*(toolset.close_tools() for toolset in toolsets), return_exceptions=True)
    for toolset, outcome in zip(toolsets, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            problem = mask(f"{type(outcome).__name__}: {outcome}")
            text = f"{toolset.name} was not closed: {problem}. The outcome of the run is kept."
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def split_toolsets(entries: Iterable[Any]) -> tuple[list[Any], tuple[Toolset, ...]]:
    """Return the entries without the toolsets among them, and the toolsets; nested lists are flattened.

    Raises:
        DefinitionError: An extension is among them.
    """
    found: list[Toolset] = []

    def others(given: Iterable[Any]) -> Iterator[Any]:
        for entry in given:
            if isinstance(entry, Extension):
                raise DefinitionError(f"{entry.name} is an extension, no tool. Write extensions=[{entry.name}(...)].")
            if isinstance(entry, Toolset):
                found.append(entry)
            elif isinstance(entry, Iterable) and not callable(entry) and not isinstance(entry, str | Mapping):
                yield from others(entry)
            else:
                yield entry

    rest = [*others(entries)]
    return rest, tuple(dict.fromkeys(found))


OWN_NAMES = frozenset(
    {"extract_text", "extract_value", "final_answer", "find_tools", "read_more", "reveal_result", "search_conversation"}
)
"""The names of tools that agentkit offers; those of a toolset have others, whether these are offered or not."""


def name_toolset_tools(toolsets: Sequence[Toolset], taken: Container[str]) -> list[JsonTool[..., Any]]:
    """Return the tools of toolsets; one whose name is taken or agentkit's, or occurs twice, becomes `toolset__tool`."""
    listed = [(toolset, tool) for toolset in toolsets for tool in toolset.list_tools()]
    counts = Counter(tool.name for _, tool in listed)
    used: set[str] = set()
    named = []
    for toolset, tool in listed:
        if tool.name in taken or tool.name in OWN_NAMES or counts[tool.name] > 1:
            name = find_free_name(to_portable_name(f"{toolset.name}__{tool.name}"), counts, used, taken)
            tool = tool.renamed(name)
        used.add(tool.name)
        named.append(tool)
    return named
