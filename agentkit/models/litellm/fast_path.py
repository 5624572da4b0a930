"""litellm's `completion` and `acompletion` without what stands around them: bookkeeping, and a detour by a thread.

That is a fifth of the CPU of a request.  The function that litellm decorates is called itself; `acompletion=True` is
the argument by which litellm's own `acompletion` has it give, in that thread, the coroutine that asks the provider.
"""

import asyncio
from collections.abc import Sequence
from inspect import unwrap
from typing import Any

from ...core.messages import Message

_TRIED = frozenset({"openai", "anthropic", "gemini", "groq", "ollama_chat"})
"""Providers whose coroutine is known to be made without waiting for anything."""
_PLAIN = frozenset({
    "model", "messages", "tools", "tool_choice", "stream", "stream_options", "timeout", "max_retries", "drop_params",
    "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed", "user", "frequency_penalty",
    "presence_penalty", "reasoning_effort", "thinking", "parallel_tool_calls", "response_format", "extra_headers",
    "api_key", "api_base", "base_url", "logger_fn", "litellm_logging_obj", "_skip_mcp_handler",
})  # fmt: skip
"""What both hand on as it is; with anything else (a mock, fallbacks, a prompt's id) it may do more."""
_loaded: set[str] = set()
"""Providers that were awaited before: the first request loads modules, for which the event loop should not wait."""


def completion(litellm: Any, asked: dict[str, Any], provider: str) -> Any:
    """What `litellm.completion(**asked)` gives and raises."""
    return (unwrap(litellm.completion) if _is_short(litellm, asked, provider) else litellm.completion)(**asked)


async def acompletion(litellm: Any, asked: dict[str, Any], provider: str) -> Any:
    """What `litellm.acompletion(**asked)` gives and raises."""
    if provider not in _loaded or not _is_short(litellm, asked, provider):
        answer = await litellm.acompletion(**asked)
        _loaded.update(_TRIED & {provider})
        return answer
    try:
        answer = unwrap(litellm.completion)(**asked, acompletion=True)
        return await answer if asyncio.iscoroutine(answer) else answer
    except Exception as error:
        raise litellm.exception_type(
            model=asked["model"],
            original_exception=error,
            custom_llm_provider=provider,
            completion_kwargs=asked,
            extra_kwargs={},
        ) from error


def _is_short(litellm: Any, asked: dict[str, Any], provider: str) -> bool:
    """Whether the short way does the same: nothing is asked for, or set, for which the long way would do more."""
    if provider not in _TRIED or "litellm_logging_obj" not in asked or not asked.keys() <= _PLAIN:
        return False
    return not (litellm.model_fallbacks or litellm.num_retries or _has_parts(asked["messages"]))


def _has_parts(messages: Sequence[Message]) -> bool:
    """Whether there may be a link to a picture, which litellm fetches for some providers, blocking."""
    return any(isinstance(message.get("content"), list) for message in messages)
