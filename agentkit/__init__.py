"""agentkit: function-calling agents from plain Python functions.

`from agentkit import JsonAgent` loads what the name needs; `import agentkit` alone loads next to nothing.  (No module
here may be called like a public name, `tool` say: Python would put the module in its place.)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import JsonAgent as JsonAgent
    from .calls import ToolResult as ToolResult
    from .checking.evidence import evidence as evidence
    from .context import Injected as Injected
    from .context import RunContext as RunContext
    from .decorator import tool as tool
    from .errors import AgentkitError as AgentkitError
    from .errors import DefinitionError as DefinitionError
    from .errors import ExceptionInfo as ExceptionInfo
    from .errors import LimitExceeded as LimitExceeded
    from .errors import ModelError as ModelError
    from .errors import NoAnswer as NoAnswer
    from .errors import Paused as Paused
    from .errors import RunError as RunError
    from .errors import ToolError as ToolError
    from .executor import ToolExecutor as ToolExecutor
    from .functions import call_function as call_function
    from .functions import function_to_json as function_to_json
    from .functions import schema as schema
    from .histories import Violation as Violation
    from .histories import check_history as check_history
    from .histories import repair_history as repair_history
    from .json_tool import JsonTool as JsonTool
    from .linter import lint as lint
    from .listeners import log as log
    from .lockfile import compare_locks as compare_locks
    from .lockfile import lock as lock
    from .messages import ToolCall as ToolCall
    from .messages import Usage as Usage
    from .policies.purse import Limits as Limits
    from .registry import ToolRegistry as ToolRegistry
    from .run import Result as Result
    from .schemas import annotate as annotate
    from .session import Session as Session

_HOMES = {
    "agent": ["JsonAgent"],
    "calls": ["ToolResult"],
    "checking.evidence": ["evidence"],
    "context": ["Injected", "RunContext"],
    "errors": [
        "AgentkitError",
        "DefinitionError",
        "ExceptionInfo",
        "LimitExceeded",
        "ModelError",
        "NoAnswer",
        "Paused",
        "RunError",
        "ToolError",
    ],
    "executor": ["ToolExecutor"],
    "functions": ["call_function", "function_to_json", "schema"],
    "histories": ["Violation", "check_history", "repair_history"],
    "linter": ["lint"],
    "listeners": ["log"],
    "lockfile": ["compare_locks", "lock"],
    "messages": ["ToolCall", "Usage"],
    "policies.purse": ["Limits"],
    "registry": ["ToolRegistry"],
    "run": ["Result"],
    "schemas": ["annotate"],
    "session": ["Session"],
    "decorator": ["tool"],
    "json_tool": ["JsonTool"],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'agentkit' has no attribute {name!r}")
    if name == "log":
        value: Any = import_module(".listeners.log", __name__)
    else:
        value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
