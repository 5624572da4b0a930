"""An agent as HTML for a notebook: its model, instruction and tools, and the usage of its conversation."""

from collections.abc import Mapping, Sequence
from typing import Any

from .figures import render_figures, usage_figures
from .markup import Html, render_block, tag, wrap_view
from .tool_catalogue import ToolLike, folded_tools


def agent_view(
    model: str, instruction: str, tools: Mapping[str, ToolLike], messages: Sequence[Any], usage: Mapping[str, Any]
) -> Html:
    """Return the view of an agent; `messages` and `usage` are those of its own conversation."""
    counts = {"model": model, "tools": len(tools), "messages so far": len(messages)}
    folded = tag("details", tag("summary", "the instruction"), render_block(instruction, folded=False))
    return wrap_view(render_figures({**counts, **usage_figures(usage)}), folded, *folded_tools(tools))
