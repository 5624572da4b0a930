"""An agent, and a run while it works, as HTML for a notebook's cell."""

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


def live_view(past: Sequence[tuple[str, str]], running: Sequence[str], usage: str) -> Html:
    """Return the view of the last lines (role, text), the running operations, and the usage in one line."""
    rows = [tag("div", tag("b", role), " ", text, class_="wrong" if role == "error" else "") for role, text in past]
    now = [tag("div", "\N{BLACK RIGHT-POINTING TRIANGLE} ", text, class_="note") for text in running]
    return wrap_view(tag("div", *rows, *now, class_="live"), tag("div", usage, class_="dim"))
