"""Runs that outlive their process, see `agentkit.sessions.journal`."""

from .sessions.journal import Journal, JournaledRun, JournalError, RunInfo, delete, fork, prune, runs, show

__all__ = ["Journal", "JournalError", "JournaledRun", "RunInfo", "delete", "fork", "prune", "runs", "show"]
