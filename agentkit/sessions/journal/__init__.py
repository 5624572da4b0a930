"""The journal: runs that outlive their process.

`JsonAgent(..., journal="runs.db")` records every run; `agent.resume(run_id)` continues a stopped one.  The functions
here list, show, branch and delete runs; their default file is `runs.db`.

A journal stores texts whole, secrets included, because a resumed run must make the calls that it was about to make.
`show` and `agentkit runs` mask secrets, as recordings do.  The file grows linearly with the messages.
"""

from typing import TYPE_CHECKING

from ...core.lazy_names import lazy_names

if TYPE_CHECKING:
    from .location import Journal as Journal
    from .location import JournalError as JournalError
    from .location import LeaseLost as LeaseLost
    from .maintenance import JournaledRun as JournaledRun
    from .maintenance import delete as delete
    from .maintenance import fork as fork
    from .maintenance import prune as prune
    from .maintenance import runs as runs
    from .maintenance import show as show
    from .run_info import RunInfo as RunInfo

_HOMES = {
    "sessions.journal.location": ["Journal", "JournalError", "LeaseLost"],
    "sessions.journal.maintenance": ["JournaledRun", "delete", "fork", "prune", "runs", "show"],
    "sessions.journal.run_info": ["RunInfo"],
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
