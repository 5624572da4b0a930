"""Runs that outlive their process, see `agentkit.sessions.journal`."""

from .sessions.journal import (
    CostSum,
    Journal,
    JournaledRun,
    JournalError,
    LeaseLost,
    RunInfo,
    costs,
    delete,
    fork,
    prune,
    runs,
    show,
)
from .sessions.recordings.replay import export

__all__ = [
    "CostSum",
    "Journal",
    "JournalError",
    "JournaledRun",
    "LeaseLost",
    "RunInfo",
    "costs",
    "delete",
    "export",
    "fork",
    "prune",
    "runs",
    "show",
]
