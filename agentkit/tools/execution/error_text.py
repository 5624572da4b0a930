"""The error of a tool as the model reads it."""

from dataclasses import replace

from ...core.errors import ExceptionInfo
from ...core.masking import mask

_OTHER_THREAD = "can only be used in that same thread"
"""Part of the error of a `sqlite3` connection that another thread opened."""
_THREAD_REMEDY = (
    "agentkit runs tools in threads: open the connection with sqlite3.connect(..., check_same_thread=False) and "
    "declare the tool with @tool(sequential=True), or open the connection in the tool."
)


def describe_error(error: BaseException) -> ExceptionInfo:
    """Return the error for the model, with secrets masked; of an exception group, each of its members."""
    info = ExceptionInfo.of(error)
    info = replace(info, message=mask(info.message))
    if _OTHER_THREAD in info.message:
        return replace(info, message=f"{info.message} {_THREAD_REMEDY}")
    if isinstance(error, BaseExceptionGroup):
        return replace(
            info, message=f"{info.message}: {'; '.join(str(describe_error(one)) for one in error.exceptions)}"
        )
    return info
