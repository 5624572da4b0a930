"""Call litellm's `completion` without its decorator's bookkeeping, and await it without a detour through a thread.

This saves a fifth of the CPU of a request. The function that litellm decorates is called directly. With the argument
`acompletion=True` it returns the coroutine of the request; litellm's own `acompletion` calls it so in a thread.
"""

import asyncio
import datetime
from collections.abc import Coroutine, Generator, Sequence
from functools import cache
from inspect import unwrap
from types import FunctionType
from typing import Any, cast

from ...core.messages import Message
from .importing import own_call, report_difference
from .reply_limits import ReplyGuard

_DIRECT_PROVIDERS = frozenset({"openai", "anthropic", "gemini", "groq", "ollama_chat"})
"""Providers whose coroutine is created without blocking."""
_DIRECT_ARGUMENTS = frozenset({
    "model", "messages", "tools", "tool_choice", "stream", "stream_options", "timeout", "max_retries", "drop_params",
    "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed", "user", "frequency_penalty",
    "presence_penalty", "reasoning_effort", "thinking", "parallel_tool_calls", "response_format", "headers",
    "extra_headers", "api_key", "api_base", "base_url", "logger_fn", "litellm_logging_obj", "_skip_mcp_handler",
})  # fmt: skip
"""Arguments that the decorator passes on unchanged. For others (a mock, fallbacks, a prompt id) it may do more."""
AWAITED_PROVIDERS: set[str] = set()
"""Providers that were awaited before. The first request loads modules, so it must not run on the event loop."""


def call_completion(litellm: Any, arguments: dict[str, Any], provider: str, guard: ReplyGuard) -> Any:
    """Return what `litellm.completion(**arguments)` returns."""
    is_direct = _can_call_directly(litellm, arguments, provider)
    with own_call(litellm, guard):
        return (unwrap(litellm.completion) if is_direct else litellm.completion)(**arguments)


async def call_acompletion(litellm: Any, arguments: dict[str, Any], provider: str, guard: ReplyGuard) -> Any:
    """Return what `litellm.acompletion(**arguments)` returns."""
    if provider not in AWAITED_PROVIDERS or not _can_call_directly(litellm, arguments, provider):
        with own_call(litellm, guard):
            answer = await litellm.acompletion(**arguments)
        AWAITED_PROVIDERS.update(_DIRECT_PROVIDERS & {provider})
        return answer
    try:
        with own_call(litellm, guard):
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


def is_untouched(litellm: Any) -> bool:
    """Return whether `completion` and `acompletion` are litellm's own functions, not replaced or wrapped by the host.

    Instrumentation replaces or wraps them, with `functools.wraps` or `wrapt`, at any time, so this is checked for each
    request. The globals of a function are those of the module that defines it; no wrapper can copy them.
    """
    return all(_is_own_function(litellm, name) for name in ("completion", "acompletion"))


def _is_own_function(litellm: Any, name: str) -> bool:
    links = [getattr(litellm, name, None)]
    while (inner := getattr(links[-1], "__wrapped__", None)) is not None:
        links.append(inner)
    is_own = all(type(link) is FunctionType and link.__globals__["__name__"].startswith("litellm.") for link in links)
    return is_own and any(link is getattr(litellm.main, name, None) for link in links)


def _can_call_directly(litellm: Any, arguments: dict[str, Any], provider: str) -> bool:
    """Return whether a direct call is equivalent: no wrapper, no argument and no setting needs litellm's decorator."""
    if provider not in _DIRECT_PROVIDERS or "litellm_logging_obj" not in arguments:
        return False
    if not arguments.keys() <= _DIRECT_ARGUMENTS or not is_untouched(litellm):
        return False
    return not (litellm.model_fallbacks or litellm.num_retries or _has_parts(arguments["messages"]))


def _has_parts(messages: Sequence[Message]) -> bool:
    """Return whether there may be a link to an image, which litellm fetches for some providers, blocking."""
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
"""litellm's settings of callbacks and the like. If one is set, litellm's bookkeeping stays on."""
_OBSERVER_OPTIONS = frozenset(
    {"success_callback", "failure_callback", "callbacks", "metadata", "litellm_metadata", "guardrails"}
)


class _Nothing(Coroutine[Any, Any, None]):
    """A coroutine without work that need not be awaited.

    litellm queues the bookkeeping of a call on the event loop, and old versions drop the queue with the loop.
    """

    cr_running = cr_suspended = False
    cr_frame = None

    def send(self, _: Any) -> Any:
        raise StopIteration

    def throw(self, *_: Any) -> Any:
        raise StopIteration

    def close(self) -> None:
        """Do nothing."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


class _SilentLogging:
    """The methods of litellm's log of one call that have no effect without observers.

    The function that reads the raw reply is kept, which litellm's bridge to the Responses API drops.
    """

    logger_fn: Any = None

    def update_environment_variables(self, *args: Any, **named: Any) -> None:
        kept, log = self.logger_fn, cast(Any, super())
        log.update_environment_variables(*args, **named)
        self.logger_fn = self.logger_fn or kept

    def _response_cost_calculator(self, *_: Any, **__: Any) -> None:
        return None

    def _should_run_sync_callbacks_for_async_calls(self) -> bool:
        return False

    def success_handler(self, *_: Any, **__: Any) -> None:
        return None

    def async_success_handler(self, *_: Any, **__: Any) -> "_Nothing":
        return _Nothing()


def has_observers(litellm: Any) -> bool:
    """Return whether the host has registered an observer with litellm."""
    for name in _OBSERVER_SETTINGS:
        value = getattr(litellm, name, None)
        if value and value != ["cache"]:  # litellm adds this one itself
            return True
    return False


def silence_logging(litellm: Any, arguments: dict[str, Any], *, is_async: bool) -> dict[str, Any]:
    """Return the argument that turns off the bookkeeping of a call; {} with observers, or if litellm was changed."""
    if not _OBSERVER_OPTIONS.isdisjoint(arguments) or has_observers(litellm) or not is_untouched(litellm):
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
            litellm_params={"api_base": "", "logger_fn": arguments.get("logger_fn")},
            stream_options=arguments.get("stream_options"),
        )
    except (TypeError, AttributeError) as error:
        report_difference(f"its bookkeeping stays on: {error}")
        return {}
    return {"litellm_logging_obj": log}


@cache
def _make_silent_class(litellm: Any) -> type[Any]:
    return type("Unread", (_SilentLogging, litellm.litellm_core_utils.litellm_logging.Logging), {})
