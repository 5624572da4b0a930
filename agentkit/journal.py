"""Runs that outlive their process, see `agentkit.sessions.journal`."""

from .sessions.journal import Journal, JournalError, RunInfo, Shown, delete, fork, prune, runs, show

__all__ = ["Journal", "JournalError", "RunInfo", "Shown", "delete", "fork", "prune", "runs", "show"]
