"""agentkit: function-calling agents from plain Python functions.

`import agentkit` loads next to nothing: a name's module is loaded when the name is first used, and so are the public
modules: `agentkit.journal.runs()` needs no further import.
Only public modules and the rooms lie here.  None of them may have a public name (`tool`, `schema`, `log` ...), because
Python binds an imported submodule in the place of the name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core.lazy_names import lazy_names, register_doors

if TYPE_CHECKING:
    from . import events as events
    from . import http as http
    from . import journal as journal
    from . import models as models
    from . import policies as policies
    from . import secrets as secrets
    from . import testing as testing
    from .agents.agent import JsonAgent as JsonAgent
    from .core.context import Injected as Injected
    from .core.context import RunContext as RunContext
    from .core.errors import AgentkitError as AgentkitError
    from .core.errors import DefinitionError as DefinitionError
    from .core.errors import ExceptionInfo as ExceptionInfo
    from .core.errors import LimitExceeded as LimitExceeded
    from .core.errors import ModelError as ModelError
    from .core.errors import NoAnswer as NoAnswer
    from .core.errors import Paused as Paused
    from .core.errors import RunError as RunError
    from .core.errors import RunStopped as RunStopped
    from .core.errors import ToolError as ToolError
    from .core.messages import ToolCall as ToolCall
    from .core.messages import Usage as Usage
    from .core.parts import Audio as Audio
    from .core.parts import Document as Document
    from .core.parts import Image as Image
    from .core.questions import Answers as Answers
    from .core.questions import InputRequired as InputRequired
    from .core.questions import Question as Question
    from .engine.history import Violation as Violation
    from .engine.history import check_history as check_history
    from .engine.history import repair_history as repair_history
    from .engine.result import Result as Result
    from .policies.evidence import evidence as evidence
    from .policies.limits import Limits as Limits
    from .schemas import annotate as annotate
    from .sessions.session import Session as Session
    from .tools.definition import ToolExecutor as ToolExecutor
    from .tools.execution.call import ToolResult as ToolResult
    from .tools.json_tool import JsonTool as JsonTool
    from .tools.json_tool import tool as tool
    from .tools.lint import lint as lint
    from .tools.lock import compare_locks as compare_locks
    from .tools.lock import lock as lock
    from .tools.questions import ask_question as ask_question
    from .tools.registry import ToolRegistry as ToolRegistry
    from .tools.shortcuts import call_function as call_function
    from .tools.shortcuts import function_to_json as function_to_json
    from .tools.shortcuts import schema as schema
    from .views import log as log

_HOMES = {
    "agents.agent": ["JsonAgent"],
    "tools.execution.call": ["ToolResult"],
    "policies.evidence": ["evidence"],
    "core.context": ["Injected", "RunContext"],
    "core.errors": [
        "AgentkitError",
        "DefinitionError",
        "ExceptionInfo",
        "LimitExceeded",
        "ModelError",
        "NoAnswer",
        "Paused",
        "RunError",
        "RunStopped",
        "ToolError",
    ],
    "tools.definition": ["ToolExecutor"],
    "tools.shortcuts": ["call_function", "function_to_json", "schema"],
    "engine.history": ["Violation", "check_history", "repair_history"],
    "tools.lint": ["lint"],
    "views": ["log"],
    "tools.lock": ["compare_locks", "lock"],
    "core.messages": ["ToolCall", "Usage"],
    "core.parts": ["Audio", "Document", "Image"],
    "core.questions": ["Answers", "InputRequired", "Question"],
    "policies.limits": ["Limits"],
    "tools.questions": ["ask_question"],
    "tools.registry": ["ToolRegistry"],
    "engine.result": ["Result"],
    "schemas": ["annotate"],
    "sessions.session": ["Session"],
    "tools.json_tool": ["JsonTool", "tool"],
}
# what a keyword of a lower room may open
register_doors({"telemetry": "agentkit.telemetry:Telemetry", "workers": "agentkit.dbos:Workers"})
_MODULES = (
    "acp", "dbos", "events", "http", "journal", "mcp", "models", "policies", "secrets", "telemetry", "testing", "web",
)  # fmt: skip
__all__, _load, __dir__ = lazy_names(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    return import_module(f"{__name__}.{name}") if name in _MODULES else _load(name)
