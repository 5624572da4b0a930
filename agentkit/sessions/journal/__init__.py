"""The journal: runs that outlive their process.

`JsonAgent(..., journal="runs.db")` records every run; `agent.resume(run_id)` continues a stopped one.  The functions
here list, show, branch and delete runs; their default file is `runs.db`.

A journal stores texts whole, secrets included, because a resumed run must make the calls that it was about to make.
`show` and `agentkit runs` mask secrets, as recordings do.  The file grows linearly with the messages.
"""

from .location import Journal, JournalError, LeaseLost
from .maintenance import delete, fork, prune, runs
from .run_info import RunInfo
from .view import JournaledRun, show

__all__ = ["Journal", "JournalError", "JournaledRun", "LeaseLost", "RunInfo", "delete", "fork", "prune", "runs", "show"]
