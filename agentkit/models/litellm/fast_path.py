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

_DIRECT_PROVIDERS = frozenset({"openai", "anthropic", "gemini", "groq", "ollama_chat"})
"""Providers whose coroutine is known to be made without waiting for anything."""
_DIRECT_ARGUMENTS = frozenset({
    "model", "messages", "tools", "tool_choice", "stream", "stream_options", "timeout", "max_retries", "drop_params",
    "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed", "user", "frequency_penalty",
    "presence_penalty", "reasoning_effort", "thinking", "parallel_tool_calls", "response_format", "extra_headers",
    "api_key", "api_base", "base_url", "logger_fn", "litellm_logging_obj", "_skip_mcp_handler",
})  # fmt: skip
"""What both hand on as it is; with anything else (a mock, fallbacks, a prompt's id) it may do more."""
_awaited_providers: set[str] = set()
"""Providers that were is_async before: the first request loads modules, for which the event loop should not wait."""


def call_completion(litellm: Any, arguments: dict[str, Any], provider: str) -> Any:
    """What `litellm.completion(**arguments)` gives and raises."""
    return (unwrap(litellm.completion) if _can_call_directly(litellm, arguments, provider) else litellm.completion)(
        **arguments
    )


async def call_acompletion(litellm: Any, arguments: dict[str, Any], provider: str) -> Any:
    """What `litellm.acompletion(**arguments)` gives and raises."""
    if provider not in _awaited_providers or not _can_call_directly(litellm, arguments, provider):
        answer = await litellm.acompletion(**arguments)
        _awaited_providers.update(_DIRECT_PROVIDERS & {provider})
        return answer
    try:
        answer = unwrap(litellm.completion)(**arguments, acompletion=True)
        return await answer if asyncio.iscoroutine(answer) else answer
    except Exception as error:
        raise litellm.exception_type(
            model=arguments["model"],
            original_exception=error,
            custom_llm_provider=provider,
            completion_kwargs=arguments,
            extra_kwargs={},
        ) from error


def _can_call_directly(litellm: Any, arguments: dict[str, Any], provider: str) -> bool:
    """Whether the short way does the same: nothing is arguments for, or set, for which the long way would do more."""
    if (
        provider not in _DIRECT_PROVIDERS
        or "litellm_logging_obj" not in arguments
        or not arguments.keys() <= _DIRECT_ARGUMENTS
    ):
        return False
    return not (litellm.model_fallbacks or litellm.num_retries or _has_parts(arguments["messages"]))


def _has_parts(messages: Sequence[Message]) -> bool:
    """Whether there may be a link to a picture, which litellm fetches for some providers, blocking."""
    return any(isinstance(message.get("content"), list) for message in messages)


_OBSERVER_SETTINGS = (
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
_OBSERVER_OPTIONS = frozenset(
    {"success_callback", "failure_callback", "callbacks", "metadata", "litellm_metadata", "guardrails"}
)


class _SilentLogging:
    """What litellm's log of one call does no more when nobody reads it."""

    def _response_cost_calculator(self, *_: Any, **__: Any) -> None:
        return None

    def _should_run_sync_callbacks_for_async_calls(self) -> bool:
        return False

    def success_handler(self, *_: Any, **__: Any) -> None:
        return None

    async def async_success_handler(self, *_: Any, **__: Any) -> None:
        return None


def has_observers(litellm: Any) -> bool:
    """Whether somebody wants to hear from litellm of every reply."""
    for name in _OBSERVER_SETTINGS:
        value = getattr(litellm, name, None)
        if value and value != ["cache"]:  # litellm adds this one by itself
            return True
    return False


def silence_logging(litellm: Any, arguments: dict[str, Any], *, is_async: bool) -> dict[str, Any]:
    """The argument that saves the bookkeeping of a call; none where somebody reads it, or litellm has changed.

    `arguments` are the arguments of the call, `is_async` says whether it is asynchronous.
    """
    if not _OBSERVER_OPTIONS.isdisjoint(arguments) or has_observers(litellm):
        return {}
    try:
        log = _make_silent_class(litellm)(
            model=arguments["model"],
            messages=arguments["messages"],
            stream=bool(arguments.get("stream")),
            call_type="acompletion" if is_async else "completion",
            start_time=datetime.datetime.now(),
            litellm_call_id="",
            function_id="",
            kwargs=arguments,
        )
        log.update_environment_variables(
            model=arguments["model"],
            user="",
            optional_params={},
            litellm_params={"api_base": ""},
            stream_options=arguments.get("stream_options"),
        )
    except (TypeError, AttributeError):
        return {}
    return {"litellm_logging_obj": log}


@cache
def _make_silent_class(litellm: Any) -> type[Any]:
    return type("Unread", (_SilentLogging, litellm.litellm_core_utils.litellm_logging.Logging), {})
