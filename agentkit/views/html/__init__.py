"""Runs, conversations and tools as HTML: one file that loads nothing else, complete without its script."""

from .evals import eval_page, format_eval_figures
from .markup import write_page
from .run import (
    agent_view,
    compare_page,
    live_view,
    prose_view,
    result_markdown,
    result_page,
    result_view,
    session_markdown,
    session_page,
    session_view,
    tools_markdown,
)
from .tool_catalogue import catalogue_page, registry_view, tool_view

__all__ = [
    "agent_view",
    "catalogue_page",
    "compare_page",
    "eval_page",
    "format_eval_figures",
    "live_view",
    "prose_view",
    "registry_view",
    "result_markdown",
    "result_page",
    "result_view",
    "session_markdown",
    "session_page",
    "session_view",
    "tool_view",
    "tools_markdown",
    "write_page",
]
