"""Runs that outlive their process, see `agentkit.sessions.journal`."""

from .sessions.journal import Journal, JournaledRun, JournalError, LeaseLost, RunInfo, delete, fork, prune, runs, show
from .sessions.recordings.replay import export

__all__ = [
    "Journal",
    "JournalError",
    "JournaledRun",
    "LeaseLost",
    "RunInfo",
    "delete",
    "export",
    "fork",
    "prune",
    "runs",
    "show",
]
