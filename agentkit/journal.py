"""Runs that outlive their process, see `agentkit.sessions.journal`."""

from .sessions.journal import (
    CostSum,
    FoundConversation,
    Journal,
    JournaledRun,
    JournalError,
    LeaseLost,
    RunInfo,
    costs,
    delete,
    find,
    fork,
    prune,
    runs,
    show,
)
from .sessions.recordings.replay import export

__all__ = [
    "CostSum",
    "FoundConversation",
    "Journal",
    "JournalError",
    "JournaledRun",
    "LeaseLost",
    "RunInfo",
    "costs",
    "delete",
    "export",
    "find",
    "fork",
    "prune",
    "runs",
    "show",
]
