"""Workers: runs of agents from a queue in a database, on any number of processes and machines.

DBOS has the queue; the journal in the same database has the steps of each run, so that another worker continues a run
whose worker died.  Needs the packages `dbos` and, for PostgreSQL, `psycopg`.  `import agentkit` loads neither.
"""

from importlib.util import find_spec

from ..extend import lazy_names, missing_package

if find_spec("dbos") is None:
    raise missing_package("agentkit.dbos", "dbos>=3,<4")

__all__, __getattr__, __dir__ = lazy_names(__name__)
