"""Runs as OpenTelemetry spans and metrics, in the GenAI semantic conventions: a listener and a policy for each run.

The room needs opentelemetry-api alone, which does nothing until the program sets up an SDK with an exporter.
"""

from ..extend import set_default_instrument
from .telemetry import Telemetry

__all__ = ["Telemetry", "instrument", "uninstrument"]


def instrument(telemetry: Telemetry | None = None) -> None:
    """Report every run of this process from now on, except those of agents with a `telemetry=` of their own.

    Args:
        telemetry: The settings; default: `Telemetry()`.
    """
    set_default_instrument(telemetry or Telemetry())


def uninstrument() -> None:
    """Undo `instrument` for runs that begin from now on."""
    set_default_instrument(None)
