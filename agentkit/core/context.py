"""What a tool may ask of the run that calls it: parameters that the model never sees."""

from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar

from .errors import DefinitionError
from .flow import Event
from .messages import ToolCall, Usage

Deps = TypeVar("Deps")
T = TypeVar("T")
ENCLOSING_AGENTS: ContextVar[tuple[str, ...]] = ContextVar("inside", default=())
"""The names of the agents inside tools that the code is part of, the outermost first."""


@dataclass(frozen=True, slots=True)
class Progress(Event):
    """What a tool tells of its work while it is at it."""

    call: ToolCall | None
    value: Any


class Channel:
    """The way from a tool to whoever watches its run; open while a turn's calls run, else what comes is dropped."""

    def __init__(self) -> None:
        self.send: Callable[[Event], object] | None = None

    def put(self, event: Event) -> None:
        """Send `event` on; may be called from any thread."""
        if send := self.send:
            send(event)


@dataclass(frozen=True)
class RunContext(Generic[Deps]):
    """The run that calls a tool; a parameter of this type, under any name, is filled by the agent.

    `deps` is what the agent was given as such, `state` a dict that lives as long as the run, `usage` a function that
    tells what the run has taken so far, `call` the model's call, `stream` whether the run is streamed.
    """

    deps: Deps
    state: dict[str, Any] = field(default_factory=dict)
    usage: Callable[[], Usage] = Usage
    call: ToolCall | None = None
    stream: bool = False
    inbox: deque[str] = field(default_factory=deque, repr=False)
    channel: Channel = field(default_factory=Channel, repr=False)

    def say(self, text: str) -> None:
        """Add a message for the model, which reads it with its next request; from any thread."""
        self.inbox.append(text)

    def emit(self, value: Any) -> None:
        """Tell whoever watches how far the tool is: an event, or any value, as `Progress`; from any thread."""
        self.channel.put(value if isinstance(value, Event) else Progress(self.call, value))


class _Mark:
    """Marks a parameter as the agent's to fill."""

    def __repr__(self) -> str:
        return "Injected"


MARK = _Mark()
Injected = Annotated[T, MARK]
"""`db: Injected[Database]` (or `Annotated[Database, Injected]`): filled from the agent's `deps`, by its type."""


def is_injected(annotation: Any) -> bool:
    """Whether a parameter of this annotation is hidden from the model and filled by the agent."""
    metadata = getattr(annotation, "__metadata__", ())
    inner = getattr(annotation, "__origin__", annotation)
    return any(mark is MARK or mark is Injected for mark in metadata) or inner is RunContext or annotation is RunContext


def wants_run(injected: Iterable[Any]) -> bool:
    """Whether one of these annotations is filled by the run's context itself."""
    return any(_class_to_inject(annotation) is RunContext for annotation in injected)


def find_injected(annotation: Any, context: RunContext[Any]) -> Any:
    """What fills a parameter of `annotation`: the context itself, or of `deps` what has that type.

    `deps` may be the value itself, a mapping, or an object: then it is the one entry or attribute of that type.  Raises
    `DefinitionError` when there is none, or more than one.
    """
    wanted = _class_to_inject(annotation)
    if wanted is RunContext:
        return context
    deps = context.deps
    if wanted is Any or isinstance(deps, wanted):
        return deps
    entries = deps.values() if isinstance(deps, dict) else vars(deps).values() if hasattr(deps, "__dict__") else ()
    found = [value for value in entries if isinstance(value, wanted)]
    if len(found) != 1:
        name = getattr(wanted, "__name__", wanted)
        raise DefinitionError(
            f"a tool wants a {name} injected, and deps hold {len(found)} of that type: "
            f"give it with JsonAgent(..., deps=my_{str(name).lower()}) or an object that has exactly one"
        )
    return found[0]


def _class_to_inject(annotation: Any) -> Any:
    """The class in an annotation: without the mark, and without what a generic class is filled with."""
    unmarked = getattr(annotation, "__origin__", annotation)
    return getattr(unmarked, "__origin__", unmarked)
