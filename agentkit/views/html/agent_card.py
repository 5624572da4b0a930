"""An agent as HTML for a notebook: its model, its instruction, its tools and what its conversation took by now."""

from collections.abc import Mapping, Sequence
from typing import Any

from .figures import figures, spent
from .markup import Html, block, tag, view
from .tool_catalogue import Tool, folded


def agent_view(
    model: str, instruction: str, tools: Mapping[str, Tool], messages: Sequence[Any], usage: Mapping[str, Any]
) -> Html:
    """The view of an agent; `messages` and `usage` are those of its own conversation."""
    told = figures({"model": model, "tools": len(tools), "messages so far": len(messages), **spent(usage)})
    said = tag("details", tag("summary", "the instruction"), block(instruction, folded=False))
    return view(told, said, *folded(tools))
