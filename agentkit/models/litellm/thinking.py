"""Claude's extended thinking, and what does not go with it.

Anthropic, "Extended thinking": a reply that thinks cannot be forced to call a tool, it must be allowed more tokens than
its thinking may take, which are 1,024 at least, and in the middle of a tool loop it goes on from a message that begins
with thinking.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.messages import Message
from ...engine.model import Request

Json = dict[str, Any]

_MIN_BUDGET_TOKENS = 1_024
_MIN_EFFORT_TOKENS = 8_192
"""litellm makes a budget of up to 4,096 tokens of `reasoning_effort`; a shorter reply than this gets the least."""


def adjust_thinking(
    request: Request, options: Json, provider: str, model: str, longest: int | None = None
) -> tuple[Request, Json]:
    """The request and litellm's options for it, as they go together in a reply of at most `longest` tokens.

    There is no more thinking than fits, none where another model began the tool loop, and a model that thinks is not
    forced to call a tool.
    """
    if _is_thinking(options, provider, model):
        options = (
            _fit_budget(options, longest)
            if _can_think_next(request.messages, options, provider)
            else _drop_thinking(options)
        )
        if _is_thinking(options, provider, model) and request.tool_choice != "none":
            request = replace(request, tool_choice="auto")
    return request, options


def _is_thinking(options: Json, provider: str, model: str) -> bool:
    """Whether these options make a Claude think."""
    if provider != "anthropic" and "claude" not in model:
        return False
    effort, kind = options.get("reasoning_effort"), (options.get("thinking") or {}).get("type")
    return kind in ("enabled", "adaptive") or effort not in (None, "none")


def _fit_budget(options: Json, longest: int | None) -> Json:
    """The options with no more thinking than fits in a reply of `longest` tokens."""
    if longest is None:
        return options
    if longest < 2 * _MIN_BUDGET_TOKENS:
        return _drop_thinking(options)
    if longest < _MIN_EFFORT_TOKENS and "reasoning_effort" in options:
        options = {**options, "reasoning_effort": "low"}
    thinking = options.get("thinking") or {}
    if thinking.get("budget_tokens", 0) >= longest:
        options = {**options, "thinking": {**thinking, "budget_tokens": longest // 2}}
    return options


def _drop_thinking(options: Json) -> Json:
    return {key: value for key, value in options.items() if key not in ("thinking", "reasoning_effort")}


def _can_think_next(messages: Sequence[Message], options: Json, provider: str) -> bool:
    """Whether the model may think next: at the beginning of its turn, or after a message of its own.

    With a budget, that one must have thought too; a model that decides by itself may have seen no need to.
    """
    last = next((message for message in reversed(messages) if message["role"] != "tool"), None)
    if last is None or last["role"] != "assistant":
        return True
    has_budget = (options.get("thinking") or {}).get("type") == "enabled"
    return last.get("provider") == provider and bool(last.get("thinking_blocks") or not has_budget)
