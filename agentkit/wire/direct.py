"""litellm's `acompletion` without its detour: a thread of a pool that makes the coroutine, and bookkeeping around it.

That is a quarter of the CPU of a request.  `acompletion=True` is the argument by which litellm's own `acompletion` has
`completion` give the coroutine that asks the provider.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from ..messages import Message

_TRIED = frozenset({"openai", "anthropic", "gemini", "groq", "ollama_chat"})
"""Providers whose coroutine is known to be made without waiting for anything."""
_PLAIN = frozenset({
    "model", "messages", "tools", "tool_choice", "stream", "stream_options", "timeout", "max_retries", "drop_params",
    "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed", "user", "frequency_penalty",
    "presence_penalty", "reasoning_effort", "thinking", "parallel_tool_calls", "response_format", "extra_headers",
    "api_key", "api_base", "base_url", "logger_fn", "litellm_logging_obj", "_skip_mcp_handler",
})  # fmt: skip
"""What `acompletion` hands on as it is; with anything else (a mock, fallbacks, a prompt's id) it may do more."""
_loaded: set[str] = set()
"""Providers that were asked before: the first request loads modules, for which the event loop should not wait."""


async def acompletion(litellm: Any, asked: dict[str, Any], provider: str) -> Any:
    """What `litellm.acompletion(**asked)` gives and raises; in its own way where the short one may not do the same."""
    is_plain = "litellm_logging_obj" in asked and asked.keys() <= _PLAIN and not litellm.model_fallbacks
    if provider not in _loaded or not is_plain or _has_parts(asked["messages"]):
        answer = await litellm.acompletion(**asked)
        _loaded.update(_TRIED & {provider})
        return answer
    try:
        answer = litellm.completion(**asked, acompletion=True)
        return await answer if asyncio.iscoroutine(answer) else answer
    except Exception as error:
        raise litellm.exception_type(
            model=asked["model"],
            original_exception=error,
            custom_llm_provider=provider,
            completion_kwargs=asked,
            extra_kwargs={},
        ) from error


def _has_parts(messages: Sequence[Message]) -> bool:
    """Whether there may be a link to a picture, which litellm fetches for some providers, blocking."""
    return any(isinstance(message.get("content"), list) for message in messages)
