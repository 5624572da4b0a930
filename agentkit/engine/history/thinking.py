"""Find thinking blocks that a tool loop needs and that are lost; they cannot be restored."""

from collections.abc import Sequence
from typing import Any

from .violations import ANTHROPIC, Findings, is_from_anthropic


def find_lost_thinking(messages: Sequence[Any], found: Findings) -> None:
    """Report replies of the tool loop at the end that lost their thinking blocks, which Anthropic requires first.

    The loss is certain where the thinking is there as text alone (litellm writes both), or without its signature
    (Anthropic, "Extended thinking", preserving thinking blocks).  A reply without any thinking may never have had some.
    """
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if not isinstance(message, dict) or message.get("role") == "user":
            return
        if not is_from_anthropic(message) or not message.get("tool_calls"):
            continue
        blocks = message.get("thinking_blocks")
        if not blocks and not message.get("reasoning_content"):
            continue
        if not isinstance(blocks, list) or not blocks or not all(_is_signed(block) for block in blocks):
            text = "the signed thinking blocks in front of the calls are lost"
            found.add(place, "lost_thinking", text, ANTHROPIC)


def _is_signed(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    return bool(block.get("data") if block.get("type") == "redacted_thinking" else block.get("signature"))
