"""Repeated runs of a failed call: the pause before each, and the event."""

import random
from dataclasses import dataclass

from ...core.errors import ExceptionInfo
from ...core.flow import WarningEvent
from ...core.messages import ToolCall

FIRST_RETRY_SECONDS = 0.1
"""Pause before the first retry of a failed call; each further pause is twice as long."""
MAX_RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ToolRetried(WarningEvent):
    """A call failed and runs again; `failures` counts its failures."""

    call: ToolCall
    error: ExceptionInfo
    failures: int

    @property
    def notice(self) -> str:
        return f"{self.call.name}: {self.error}; retrying"


def choose_pause(first: float, failures: int) -> float:
    """Return the seconds before a retry, with random jitter."""
    longest: float = min(MAX_RETRY_SECONDS, first * 2 ** (failures - 1))
    return longest * random.uniform(0.5, 1.0)
