"""Claude's extended thinking, and what does not go with it.

Anthropic, "Extended thinking": a reply that thinks cannot be forced to call a tool, and it must be allowed more tokens
than its thinking may take, which are 1,024 at least.
"""

from dataclasses import replace
from typing import Any

from ..model import Request

Json = dict[str, Any]

_LEAST = 1_024
_EFFORTFUL = 8_192
"""litellm makes a budget of up to 4,096 tokens of `reasoning_effort`; a shorter reply than this gets the least."""


def compatible(
    request: Request, options: Json, provider: str, model: str, longest: int | None = None
) -> tuple[Request, Json]:
    """The request and litellm's options for it, as they go together in a reply of at most `longest` tokens.

    There is no more thinking than fits, and a model that thinks is not forced to call a tool.
    """
    if _thinks(options, provider, model):
        options = _fitted(options, longest)
        if _thinks(options, provider, model) and request.tool_choice != "none":
            request = replace(request, tool_choice="auto")
    return request, options


def _thinks(options: Json, provider: str, model: str) -> bool:
    """Whether these options make a Claude think."""
    if provider != "anthropic" and "claude" not in model:
        return False
    effort, kind = options.get("reasoning_effort"), (options.get("thinking") or {}).get("type")
    return kind in ("enabled", "adaptive") or effort not in (None, "none")


def _fitted(options: Json, longest: int | None) -> Json:
    """The options with no more thinking than fits in a reply of `longest` tokens."""
    if longest is None:
        return options
    if longest < 2 * _LEAST:
        return {key: value for key, value in options.items() if key not in ("thinking", "reasoning_effort")}
    if longest < _EFFORTFUL and "reasoning_effort" in options:
        options = {**options, "reasoning_effort": "low"}
    thinking = options.get("thinking") or {}
    if thinking.get("budget_tokens", 0) >= longest:
        options = {**options, "thinking": {**thinking, "budget_tokens": longest // 2}}
    return options
