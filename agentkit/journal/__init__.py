"""Runs that outlive their process: what is kept of them, and what can be done with it.

`JsonAgent(..., journal="runs.db")` keeps every run; `agent.resume(run_id)` goes on with one that was stopped.  The
functions here look after the file.
"""

from .managing import delete, fork, prune, runs
from .saved import RunInfo
from .shown import Shown, show
from .store import Journal, JournalError

__all__ = ["Journal", "JournalError", "RunInfo", "Shown", "delete", "fork", "prune", "runs", "show"]
