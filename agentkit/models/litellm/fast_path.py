"""litellm's `completion` and `acompletion` without what stands around them: bookkeeping, and a detour by a thread.

That is a fifth of the CPU of a request.  The function that litellm decorates is called itself; `acompletion=True` is
the argument by which litellm's own `acompletion` has it give, in that thread, the coroutine that asks the provider.
"""

import asyncio
import datetime
from collections.abc import Sequence
from functools import cache
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


_WATCHERS = (
    "callbacks",
    "input_callback",
    "success_callback",
    "failure_callback",
    "service_callback",
    "_async_input_callback",
    "_async_success_callback",
    "_async_failure_callback",
    "pre_call_rules",
    "post_call_rules",
    "max_budget",
    "cache",
    "custom_provider_map",
)
"""litellm's settings of what may want to know of a reply; each is empty, or else its bookkeeping is left as it is."""
_OPTIONS = frozenset(
    {"success_callback", "failure_callback", "callbacks", "metadata", "litellm_metadata", "guardrails"}
)


class _Unread:
    """What litellm's log of one call does no more when nobody reads it."""

    def _response_cost_calculator(self, *_: Any, **__: Any) -> None:
        return None

    def _should_run_sync_callbacks_for_async_calls(self) -> bool:
        return False

    def success_handler(self, *_: Any, **__: Any) -> None:
        return None

    async def async_success_handler(self, *_: Any, **__: Any) -> None:
        return None


def is_observed(litellm: Any) -> bool:
    """Whether somebody wants to hear from litellm of every reply."""
    for name in _WATCHERS:
        value = getattr(litellm, name, None)
        if value and value != ["cache"]:  # litellm adds this one by itself
            return True
    return False


def unlogged(litellm: Any, asked: dict[str, Any], *, awaited: bool) -> dict[str, Any]:
    """The argument that saves the bookkeeping of a call; none where somebody reads it, or litellm has changed.

    `asked` are the arguments of the call, `awaited` says whether it is asynchronous.
    """
    if not _OPTIONS.isdisjoint(asked) or is_observed(litellm):
        return {}
    try:
        log = _unread(litellm)(
            model=asked["model"],
            messages=asked["messages"],
            stream=bool(asked.get("stream")),
            call_type="acompletion" if awaited else "completion",
            start_time=datetime.datetime.now(),
            litellm_call_id="",
            function_id="",
            kwargs=asked,
        )
        log.update_environment_variables(
            model=asked["model"],
            user="",
            optional_params={},
            litellm_params={"api_base": ""},
            stream_options=asked.get("stream_options"),
        )
    except (TypeError, AttributeError):
        return {}
    return {"litellm_logging_obj": log}


@cache
def _unread(litellm: Any) -> type[Any]:
    return type("Unread", (_Unread, litellm.litellm_core_utils.litellm_logging.Logging), {})
