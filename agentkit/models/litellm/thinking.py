"""Claude's extended thinking, and the request options that conflict with it.

Anthropic, "Extended thinking": a tool call cannot be forced while thinking is on. The reply's token limit must exceed
the thinking budget, which is at least 1,024 tokens. In the middle of a tool loop the last assistant message must begin
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
"""litellm turns `reasoning_effort` into a budget of up to 4,096 tokens; shorter replies than this use "low"."""


def adjust_thinking(
    request: Request, options: Json, provider: str, model: str, longest: int | None = None
) -> tuple[Request, Json]:
    """Resolve conflicts between thinking and the rest of the request; return the request and its options.

    The thinking budget is reduced to fit the reply (`longest` tokens), thinking is off where another model began the
    tool loop, and a thinking model is not forced to call a tool.
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
    """Return whether the options turn on thinking of a Claude model."""
    if provider != "anthropic" and "claude" not in model:
        return False
    effort, kind = options.get("reasoning_effort"), (options.get("thinking") or {}).get("type")
    return kind in ("enabled", "adaptive") or effort not in (None, "none")


def _fit_budget(options: Json, longest: int | None) -> Json:
    """Return the options with a thinking budget that fits a reply of `longest` tokens."""
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
    """Return whether the model may think next: at the start of its turn, or after a message of its own.

    With a budget, that message must contain thinking too. With adaptive thinking it may lack it.
    """
    last = next((message for message in reversed(messages) if message["role"] != "tool"), None)
    if last is None or last["role"] != "assistant":
        return True
    has_budget = (options.get("thinking") or {}).get("type") == "enabled"
    return last.get("provider") == provider and bool(last.get("thinking_blocks") or not has_budget)
