"""agentkit: function-calling agents from plain Python functions.

`import agentkit` loads next to nothing: a name's module is loaded when the name is first used, and so are the public
modules: `agentkit.journal.runs()` needs no further import.
Only public modules and the rooms lie here.  None of them may have a public name (`tool`, `schema`, `log` ...), because
Python binds an imported submodule in the place of the name.
"""

from .core.lazy_names import CLEAN_UPS, DOORS, lazy_names

# what a keyword of a lower room may open
DOORS.update({"telemetry": "agentkit.telemetry:Telemetry", "workers": "agentkit.dbos:Workers"})
# what doors keep beside a journal, by the table that shows it
CLEAN_UPS.update({"queue_versions": "agentkit.dbos.queue_tables:QueueCleanUp"})
_TERMS = {
    **dict.fromkeys(("Agent", "Assistant", "Crew", "CodeAgent", "ToolCallingAgent"), "Use JsonAgent"),
    **dict.fromkeys(("Tool", "BaseTool", "StructuredTool", "FunctionTool"), "Use JsonTool, or @tool for a function"),
    **dict.fromkeys(("function_tool", "tool_plain", "ai_function"), "Use @tool"),
    **dict.fromkeys(
        ("Runner", "AgentExecutor", "run_sync"), "An agent runs itself: JsonAgent([my_function]).run(query)"
    ),
    **dict.fromkeys(("ModelRetry", "ToolException"), "Use ToolError"),
    **dict.fromkeys(("RunContextWrapper", "ToolContext"), "Use RunContext"),
    **dict.fromkeys(("UsageLimits",), "Use Limits"),
}
"""Names of other frameworks, and what to use here."""
__all__, __getattr__, __dir__ = lazy_names(__name__, _TERMS)
