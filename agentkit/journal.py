"""The journal: runs that outlive their process.

`JsonAgent(..., journal="runs.db")` records every run; `agent.resume(run_id)` continues a stopped one.  The functions
here list, show, branch and delete runs; their default file is `runs.db`.

A journal stores texts whole, secrets included, because a resumed run must make the calls that it was about to make.
`show` and `agentkit runs` mask secrets, as recordings do.  The file grows linearly with the messages.
"""

from .core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
