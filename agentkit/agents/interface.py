"""What the files of this room need of an agent: `JsonAgent` imports them, so they know it by this interface."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

from ..core.context import RunContext
from ..core.flow import Listener
from ..engine.model import Model
from ..sessions.journal.location import JournalLocation
from ..sessions.session import Session
from ..tools.registry import ToolRegistry
from ..tools.toolset import Toolset
from .backends import Backends
from .settings import Settings

ToolSelector: TypeAlias = Callable[[RunContext[Any]], Iterable[Any]]
"""A function of the run that returns the tools for its next step."""


class Runnable(Protocol):
    """An agent, as `JsonAgent` documents it."""

    deps: Any
    description: str
    handoffs: dict[str, Any]
    journal: JournalLocation
    listeners: tuple[Listener, ...]
    memory: bool
    model: Any
    session: Session
    tools: ToolRegistry
    toolsets: tuple[Toolset, ...]
    _backends: Backends
    _instruction: str
    _select: ToolSelector | None
    _settings: Settings
    _text_ends: bool

    @property
    def instruction(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...

    def _extract_value(self, kind: Any, question: str, text: str, run: RunContext[Any]) -> Awaitable[Any]: ...

    def choose_backend(self, model: str | Model | None = None) -> tuple[Model, str]: ...


AgentT = TypeVar("AgentT", bound=Runnable)
