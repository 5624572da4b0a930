"""What observes whole runs from outside, telemetry for example: a listener and the outermost policy of each run.

An instrument lives in a room above, so this file defines its protocol.  It is found in this order: the agent's own,
that of the run whose tool runs the agent, the default of the process.
"""

import os
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

from ..core.context import enclosing
from ..core.errors import DefinitionError
from ..core.flow import Event, Policy
from ..core.lazy_names import open_door
from ..core.values import frozen
from ..sessions.session import Session

TELEMETRY_VARIABLE = "AGENTKIT_TELEMETRY"
_ON = ("1", "true", "yes", "on")
_OFF = ("", "0", "false", "no", "off")


@frozen
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


@frozen
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
    is_object = hasattr(telemetry, "observe") and not isinstance(telemetry, type)
    if telemetry is not None and telemetry is not False and not is_object:
        wanted = "True, False or an object with a method `observe` (agentkit.telemetry.Telemetry(...))"
        raise DefinitionError(f"telemetry must be {wanted}, got {telemetry!r:.80}")
    return telemetry


def find_instrument(own: Instrument | Literal[False] | None) -> Instrument | None:
    """Return what observes a run that begins here, None if nothing does; `own` is the setting of its agent."""
    if own is not None:
        return own or None
    outer = enclosing(EnclosingObserver)
    return outer.instrument if outer else next(iter(_defaults), None)
