"""Runs that outlive their process: what is kept of them, and what can be done with it.

`JsonAgent(..., journal="runs.db")` keeps every run; `agent.resume(run_id)` goes on with one that was stopped.  The
functions here look after the file, `runs.db` if no other is named.

A journal keeps texts whole, secrets included: a run that goes on must make the calls that it was about to make.  What
shows runs (`show`, `agentkit runs`) masks them, as recordings do.  Growth is linear in what was said.
"""

from .maintenance import delete, fork, prune, runs
from .reader import RunInfo
from .store import Journal, JournalError
from .view import JournaledRun, show

__all__ = ["Journal", "JournalError", "JournaledRun", "RunInfo", "delete", "fork", "prune", "runs", "show"]
