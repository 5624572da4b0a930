"""Import litellm: lazily, without output, and without network requests.  Only this file imports it.

A host that imported litellm before agentkit keeps its settings: agentkit changes no log level and does not freeze the
garbage collector's objects then, unless the host calls `tune()`.

`completion` is called without its decorator's bookkeeping, and awaited without a detour through a thread, which saves a
fifth of the CPU of a request.  The function that litellm decorates is called directly.  With the argument
`acompletion=True` it returns the coroutine of the request; litellm's own `acompletion` calls it so in a thread.
"""

import asyncio
import datetime
import gc
import logging
import os
import sys
from collections.abc import Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from inspect import unwrap
from operator import attrgetter
from threading import Lock
from types import FunctionType
from typing import Any, cast

from ...core.messages import Message
from ...core.threads import Work
from .limits import ReplyGuard, watch_response

_QUIET_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the price table is fetched from GitHub at import
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",  # and a list of headers at the first request to Anthropic
    "LITELLM_MODE": "PRODUCTION",  # else a .env file near litellm's files is loaded
}
_HANDLER_FLAG = "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER"
"""OpenAI through litellm's own HTTP client: 0.4 of the CPU, and less as the history grows.

The OpenAI SDK walks all messages with type look-ups at each request. litellm reads the flag in each call.
"""
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_log = logging.getLogger("agentkit")


@dataclass(frozen=True, slots=True)
class _OwnCall:
    guard: ReplyGuard
    uses_handler: bool


_own_call: ContextVar[_OwnCall | None] = ContextVar("agentkit_own_litellm_call", default=None)
_importing = Lock()


@cache
def load_litellm() -> Any:
    """Return the litellm module, imported without output and without a request; the user's settings are kept."""
    with _importing:
        is_host = "litellm" in sys.modules
        levels = {name: logging.getLogger(name).level for name in _LOGGERS}
        for name, value in _QUIET_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        with _pause_gc(freeze=not is_host):
            import litellm
        litellm.suppress_debug_info = True  # advertisements on stdout
        litellm.disable_hf_tokenizer_download = True  # else streams of Llama models wait for Hugging Face
        # Load now what the first request would load while its time is measured.
        for name in ("encoding", "module_level_client"):
            getattr(litellm, name, None)
        for name in ("litellm.proxy.guardrails.exception_utils", "fastapi.exceptions"):
            with suppress(ImportError):  # else the first failure loads it, maybe in a thread during exit, which hangs
                import_module(name)
        if not is_host and "LITELLM_LOG" not in os.environ:
            for name in (name for name, level in levels.items() if level == logging.NOTSET):
                logging.getLogger(name).setLevel(logging.CRITICAL)
        _install_switch(litellm)
        _install_ollama_fields(litellm)
        _install_guards(litellm)
        return litellm


def begin_import() -> None:
    """Import litellm in the background, which takes seconds; the first request raises the failure, if any."""

    def work() -> None:
        with suppress(Exception):
            load_litellm()

    if "litellm" not in sys.modules:
        Work(work)


def tune() -> None:
    """Import litellm and exclude all objects of the process from later garbage collections (`gc.freeze`).

    Without litellm in the process before, agentkit does this itself if litellm's objects are most of all. For a host
    that imported litellm first, or holds many objects, it is the host's decision. Call it once, after all imports.
    """
    load_litellm()
    gc.collect()
    gc.freeze()


def find_internal(litellm: Any, path: str) -> Any:
    """Return an object inside litellm by its dotted path; None where this version does not have it."""
    try:
        return attrgetter(path)(litellm)
    except AttributeError:
        return None


@cache
def report_difference(difference: str) -> None:
    """Log once, at DEBUG, that a shortcut into litellm is off because its internals differ."""
    _log.debug("litellm: %s", difference)


@contextmanager
def own_call(litellm: Any, guard: ReplyGuard) -> Iterator[None]:
    """Mark litellm's calls in the body as agentkit's own: `guard` limits replies, and OpenAI has litellm's HTTP client.

    A host that set `litellm.client_session` or the environment variable decides about the client itself.
    """
    has_session = litellm.client_session or litellm.aclient_session
    token = _own_call.set(_OwnCall(guard, uses_handler=not has_session))
    try:
        yield
    finally:
        _own_call.reset(token)


def _install_guards(litellm: Any) -> None:
    """Let litellm's HTTP clients limit the replies to agentkit's own calls, by hooks that ignore all other replies."""

    def watch(response: Any) -> None:
        if own := _own_call.get():
            watch_response(response, own.guard)

    async def awatch(response: Any) -> None:
        watch(response)

    for name, hook in (("HTTPHandler", watch), ("AsyncHTTPHandler", awatch)):
        handler = find_internal(litellm, f"llms.custom_httpx.http_handler.{name}")
        if not hasattr(handler, "post"):
            report_difference(f"{name}.post was not found; the bytes of a reply are not limited")
            continue
        handler.post = _add_hook(handler.post, hook)


def _add_hook(post: Any, hook: Any) -> Any:
    @wraps(post)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _own_call.get() and hook not in (hooks := self.client.event_hooks)["response"]:
            self.client.event_hooks = {**hooks, "response": [*hooks["response"], hook]}
        return post(self, *args, **kwargs)

    return hooked


def _install_ollama_fields(litellm: Any) -> None:
    """Send Ollama the ids of tool calls and the tools' names of results, which litellm drops, in agentkit's own calls.

    Source: Ollama's API reference, "Chat", `tool_calls` and `tool_name`.
    """
    transform = find_internal(litellm, "OllamaChatConfig.transform_request")
    if transform is None:
        report_difference("the configuration of Ollama was not found; tool results are sent without names")
        return

    @wraps(transform)
    def transform_request(self: Any, *args: Any, **kwargs: Any) -> Any:
        data = transform(self, *args, **kwargs)
        if _own_call.get():
            for message, sent in zip(kwargs.get("messages") or args[1], data["messages"], strict=False):
                if "name" in message:
                    sent["tool_name"] = message["name"]
                for call, made in zip(message.get("tool_calls") or (), sent.get("tool_calls") or (), strict=False):
                    made["id"] = call["id"]
        return data

    litellm.OllamaChatConfig.transform_request = transform_request


def _install_switch(litellm: Any) -> None:
    """Make litellm's flag true for agentkit's own calls; other calls and other flags are read as before."""
    read = find_internal(litellm, "main.get_secret_bool")
    if read is None:
        report_difference("the switch of the HTTP handler was not found; requests to OpenAI use the OpenAI SDK")
        return

    @wraps(read)
    def read_flag(secret_name: str, *args: Any, **kwargs: Any) -> Any:
        own = _own_call.get()
        if own and own.uses_handler and secret_name == _HANDLER_FLAG and _HANDLER_FLAG not in os.environ:
            return True
        return read(secret_name, *args, **kwargs)

    litellm.main.get_secret_bool = read_flag


@contextmanager
def _pause_gc(*, freeze: bool) -> Iterator[None]:
    """Pause the garbage collector for the body, then exclude the loaded objects from later collections.

    Without collections, 2,600 modules load a third faster. Later collections of their objects take a fifth of the CPU
    of many concurrent agents. `gc.freeze` also freezes all older objects, so it is called only if the body created
    most of the objects of the process, and with `freeze`.
    """
    collecting = gc.isenabled()
    before = len(gc.get_objects())
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
    if freeze and len(gc.get_objects()) > 2 * before:
        gc.freeze()


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
        kept = self.logger_fn
        log = cast(Any, super())
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
