"""What the files of this room need of an agent: `JsonAgent` imports them, so they know it by this interface.

What observes whole runs from outside, telemetry for example: a listener and the outermost policy of each run.

An instrument lives in a room above, so this file defines its protocol.  It is found in this order: the agent's own,
that of the run whose tool runs the agent, the default of the process.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from ..core.context import AgentPath, RunContext
from ..core.enclosing import enclosing
from ..core.errors import DefinitionError
from ..core.flow import Event, Listener, Policy
from ..core.lazy_names import open_door
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


TELEMETRY_VARIABLE = "AGENTKIT_TELEMETRY"
_ON = ("1", "true", "yes", "on")
_OFF = ("", "0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """A run as an instrument gets it, before its first event.

    Attributes:
        run_id: The id of the run, as in its `RunStarted`.
        agent_name: The name under which another agent uses this one; "" for an agent that no other one uses.
        description: The agent's description.
        session: The conversation.
        settings: The agent's settings and its model's options, secrets included: read the ones you need.
    """

    run_id: str
    agent_name: str
    description: str
    session: Session
    settings: Mapping[str, Any]


class RunObserver(Protocol):
    """What an instrument adds to one run."""

    @property
    def policy(self) -> Policy:
        """The policy next to the driver, outside of a journal: it receives what is really performed."""
        ...

    def listen(self, event: Event) -> None:
        """Receive an event of the run; `RunEnded` is the last one."""
        ...


class Instrument(Protocol):
    """Observes runs: `observe` is called once at the beginning of each."""

    def observe(self, run: ObservedRun) -> RunObserver: ...


@dataclass(frozen=True, slots=True)
class EnclosingObserver:
    """What observes the run whose tool is executing, and the id of the tool's call."""

    instrument: Instrument
    observer: RunObserver
    call: str


Telemetry: TypeAlias = bool | Instrument | None
"""The parameter of an agent: True, False, an instrument, or None for what the environment and the process set."""
_defaults: list[Instrument] = []


def set_default_instrument(instrument: Instrument | None) -> None:
    """Observe every run of the process whose agent does not say otherwise; None ends that."""
    _defaults[:] = [] if instrument is None else [instrument]


def resolve_telemetry(telemetry: Telemetry) -> Instrument | Literal[False] | None:
    """Return the instrument for the parameter `telemetry`; False for none, None if the agent leaves it open.

    Raises:
        DefinitionError: The value is neither of these, or the packages of the telemetry are not installed.
    """
    if telemetry is None:
        value = os.environ.get(TELEMETRY_VARIABLE, "").strip().lower()
        if value not in (*_ON, *_OFF):
            raise DefinitionError(f"{TELEMETRY_VARIABLE} must be 1 or 0, got {value!r:.80}")
        telemetry = value in _ON or None
    if telemetry is True:
        instrument: Instrument = open_door("telemetry")()
        return instrument
    if telemetry is not None and telemetry is not False and not hasattr(telemetry, "observe"):
        wanted = "True, False or an object with a method `observe` (agentkit.telemetry.Telemetry(...))"
        raise DefinitionError(f"telemetry must be {wanted}, got {telemetry!r:.80}")
    return telemetry


def observe_run(agent: Runnable, session: Session, run_id: str) -> RunObserver | None:
    """Return the observer of a run that begins, None if nothing observes it."""
    instrument: Instrument | Literal[False] | None = agent._settings.telemetry
    if instrument is None:
        outer = enclosing(EnclosingObserver)
        instrument = outer.instrument if outer else next(iter(_defaults), None)
    if not instrument:
        return None
    path = enclosing(AgentPath)
    name = path.names[-1] if path else ""
    return instrument.observe(ObservedRun(run_id, name, agent.description, session, agent.settings))
