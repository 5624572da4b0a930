"""agentkit: function-calling agents from plain Python functions.

`import agentkit` loads next to nothing: a name's module is loaded when the name is first used, and so are the public
modules: `agentkit.journal.runs()` needs no further import.
Only public modules and the rooms lie here.  None of them may have a public name (`tool`, `schema`, `log` ...), because
Python binds an imported submodule in the place of the name.
"""

from .core.lazy_names import lazy_names, register_clean_ups, register_doors

# what a keyword of a lower room may open
register_doors({"telemetry": "agentkit.telemetry:Telemetry", "workers": "agentkit.dbos:Workers"})
# what doors keep beside a journal, by the table that shows it
register_clean_ups({"queue_versions": "agentkit.dbos.queue_tables:QueueCleanUp"})
__all__, __getattr__, __dir__ = lazy_names(__name__)
