"""How a request is sent: by litellm's `completion`, or as a repetition of a call that `completion` made before.

`completion` prepares a request anew each time: the provider, its key and address, the parameters, the tools, the log.
Then it calls one of its handlers, which transforms the messages, sends the request and reads the reply.  That call is
recorded at the first request with the same options and tools, and later requests repeat it with their own messages.
litellm's transformation, its HTTP client and its exceptions are the same, for three tenths less CPU.

litellm belongs to the host: where the host has wrapped `completion`, registered an observer or asked for more, and for
providers that are not tested, litellm's own function is called for each request.
"""

import asyncio
import datetime
import inspect
import logging
import os
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import FunctionType
from typing import Any, TypeAlias

from ...core.messages import Message
from ...core.portable import copy_value
from ...core.values import frozen
from .importing import HANDLER_FLAG, HANDLERS, own_call, report_difference
from .limits import ReplyGuard
from .parameters import NON_MUTATING_PROVIDERS

_litellm_log = logging.getLogger("LiteLLM")
_MAX_PREPARED = 8
"""The prepared calls that a model keeps: one for each list of tools, tool choice, limit of the reply and the like."""
_PREPARED_PROVIDERS = frozenset({"openai", "anthropic", "gemini", "groq", "ollama_chat"})
"""Providers whose repeated calls are tested."""
_PREPARED_ARGUMENTS = frozenset({
    "model", "messages", "tools", "tool_choice", "stream", "stream_options", "timeout", "max_retries", "drop_params",
    "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed", "user", "frequency_penalty",
    "presence_penalty", "reasoning_effort", "thinking", "parallel_tool_calls", "response_format", "headers",
    "extra_headers", "api_key", "api_base", "base_url", "_skip_mcp_handler",
})  # fmt: skip
"""Arguments that do not depend on the messages. For others (a mock, fallbacks, a prompt id) litellm may do more."""
_CHANGING = frozenset({"messages", "timeout"})
"""Arguments of a prepared call that each request has of its own."""
_SCHEMAS = ("tools", "response_format")
"""Arguments with schemas, for which 1 is not true, and the order of properties counts."""
_SETTINGS = (
    "api_key", "api_base", "headers", "organization", "openai_key", "anthropic_key", "groq_key", "ollama_key",
    "vertex_project", "vertex_location", "client_session", "aclient_session", "drop_params", "modify_params",
    "route_all_chat_openai_to_responses", "model_alias_map", "custom_prompt_dict", "ssl_verify",
    "add_function_to_prompt", "enable_preview_features", "use_litellm_proxy", "vertex_ai_safety_settings",
)  # fmt: skip
"""litellm's settings that `completion` reads. When one changes, calls are prepared anew."""
_DEFAULTS = {"openai": "OpenAIConfig", "groq": "GroqChatConfig"}
"""The classes whose attributes `completion` takes for options that are not given; for others the handler does that."""
_VARIABLES = (
    "{}_API_KEY", "{}_API_BASE", "{}_BASE_URL", "GOOGLE_API_KEY", "PALM_API_KEY", "USE_LITELLM_PROXY",
    "LITELLM_ANTHROPIC_DISABLE_URL_SUFFIX", HANDLER_FLAG,
)  # fmt: skip
"""Variables of the environment that `completion` reads, with the provider's name in front."""
_EACH_TIME = (
    "model_fallbacks", "num_retries", "num_retries_per_request", "proxy_auth", "secret_manager_client", "set_verbose",
    "enable_json_schema_validation", "enable_anthropic_prompt_caching", "vector_store_registry",
)  # fmt: skip
"""litellm's settings for which `completion` does something with each request, such as asking for a new token."""


@frozen
class _PreparedCall:
    """A call of one of litellm's handlers, with everything but the messages of a request.

    Attributes:
        given: The arguments of agentkit's call that it was made for.
        settings: litellm's settings and the variables of the environment that it was made with.
        place: The name of the handler in `litellm.main`.
        handler: The handler.
        named: The arguments of its method `completion`.
        make_response: Makes the empty response of litellm that the handler fills.
    """

    given: Mapping[str, Any]
    settings: tuple[Any, ...]
    place: str
    handler: Any
    named: Mapping[str, Any] = field(repr=False)  # the key is one of them
    make_response: Callable[[], Any]

    def repeat(self, messages: Sequence[Message], timeout: float) -> Any:
        """Call the handler again; litellm may change all that it is given, so it gets copies."""
        named = _copy_values(self.named)
        named["messages"] = [*map(dict.copy, messages)]  # they are those of the history
        named["timeout"] = timeout
        named["logging_obj"] = _renew_log(self.named["logging_obj"])
        named["model_response"] = self.make_response()
        return self.handler.completion(**named)


@dataclass(slots=True)
class _Recording:
    """The calls of handlers that litellm's `completion` made for one request, and what the last one returned."""

    calls: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)
    outcome: Any = None

    def take(self, handler: Any, call: Callable[..., Any], named: dict[str, Any]) -> Any:
        """Make the call; keep its arguments as they are before it."""
        self.calls.append((handler, copy_value({**named, "messages": ()})))
        outcome = call(**named)
        if asyncio.iscoroutine(outcome):
            return _LaterOutcome(self, outcome)
        self.outcome = outcome
        return outcome


@dataclass(slots=True)
class _LaterOutcome(Coroutine[Any, Any, Any]):
    """The coroutine of a handler, whose outcome the recording keeps.

    litellm makes it in a thread, so that a time limit may end before anything awaits it: then it is closed.
    """

    recording: _Recording
    inner: Coroutine[Any, Any, Any]

    def __await__(self) -> Generator[Any, Any, Any]:
        self.recording.outcome = yield from self.inner.__await__()
        return self.recording.outcome

    def send(self, value: Any) -> Any:
        return self.inner.send(value)

    def throw(self, *error: Any) -> Any:
        return self.inner.throw(*error)

    def close(self) -> None:
        self.inner.close()

    def __del__(self) -> None:
        self.inner.close()


_Key: TypeAlias = tuple[dict[str, Any], tuple[Any, ...]]


@frozen
class PlannedCall:
    """The call of litellm for one request.

    Attributes:
        calls: The calls of the model.
        provider: litellm's name of the provider.
        arguments: The arguments of `litellm.completion`.
        key: What a prepared call depends on; None if it may depend on more, so that litellm must prepare it.
        prepared: The prepared call, if there is one.
    """

    calls: "Calls"
    litellm: Any
    provider: str
    arguments: dict[str, Any]
    is_async: bool
    key: _Key | None
    prepared: _PreparedCall | None

    def adapt(self, arguments: dict[str, Any]) -> "PlannedCall":
        """Return the call with other arguments, which litellm prepares each time."""
        return replace(self, arguments=arguments, key=None, prepared=None)

    def send(self, messages: Sequence[Message]) -> "PlannedCall":
        """Return the call with its messages, which are texts."""
        return replace(self, arguments={**self.arguments, "messages": messages})

    def complete(self, guard: ReplyGuard) -> Any:
        """Return what `litellm.completion` returns."""
        if self.prepared is not None:
            try:
                with own_call(self.litellm, guard, is_async=False):
                    return self.prepared.repeat(self.arguments["messages"], self.arguments["timeout"])
            except Exception as error:
                raise self._convert(error) from error
        recording = _Recording()
        with own_call(self.litellm, guard, recording.take if self.key else None, is_async=False):
            answer = self.litellm.completion(**self._complete_arguments())
        if self.key:
            self.calls.keep(self.litellm, self.key, recording, answer)
        return answer

    async def acomplete(self, guard: ReplyGuard) -> Any:
        """Return what `litellm.acompletion` returns.

        litellm runs a part of it in a thread, where the first request to a provider loads modules.
        """
        if self.prepared is not None:
            try:
                with own_call(self.litellm, guard, is_async=True):
                    answer = self.prepared.repeat(self.arguments["messages"], self.arguments["timeout"])
                    return await answer if asyncio.iscoroutine(answer) else answer
            except Exception as error:
                raise self._convert(error) from error
        recording = _Recording()
        with own_call(self.litellm, guard, recording.take if self.key else None, is_async=True):
            answer = await self.litellm.acompletion(**self._complete_arguments())
        if self.key:
            self.calls.keep(self.litellm, self.key, recording, answer)
        return answer

    def _complete_arguments(self) -> dict[str, Any]:
        """Return the arguments with the silent log, if litellm's log may be silent, and tools that it may change."""
        arguments = self.arguments
        if "tools" in arguments and self.provider not in NON_MUTATING_PROVIDERS:
            arguments = {**arguments, "tools": copy_value(arguments["tools"])}
        return {**arguments, **silence_logging(self.litellm, arguments, is_async=self.is_async)}

    def _convert(self, error: Exception) -> Exception:
        """Return litellm's exception for a failure in its handler, as `completion` raises it."""
        converted: Exception = self.litellm.exception_type(
            model=self.arguments["model"],
            original_exception=error,
            custom_llm_provider=self.provider,
            completion_kwargs=self.arguments,
            extra_kwargs={},
        )
        return converted


class Calls:
    """The prepared calls of one model."""

    def __init__(self) -> None:
        self._prepared: deque[_PreparedCall] = deque(maxlen=_MAX_PREPARED)

    def plan(self, litellm: Any, arguments: dict[str, Any], provider: str, *, is_async: bool) -> PlannedCall:
        """Return the call for a request with these arguments, and messages that it gets later."""
        key = _key_of(litellm, arguments, provider, is_async=is_async)
        prepared = None if key is None else self._find(litellm, *key)
        if key is not None and prepared is None:
            key = _copy_key(*key)
        return PlannedCall(self, litellm, provider, arguments, is_async, key, prepared)

    def _find(self, litellm: Any, given: Mapping[str, Any], settings: tuple[Any, ...]) -> _PreparedCall | None:
        for known in tuple(self._prepared):
            if known.settings != settings or known.given != given:
                continue
            schemas = ((known.given.get(name), given.get(name)) for name in _SCHEMAS)
            if all(one is other or repr(one) == repr(other) for one, other in schemas):
                return known if getattr(litellm.main, known.place) is known.handler else None
        return None

    def keep(self, litellm: Any, key: _Key, recording: _Recording, answer: Any) -> None:
        """Keep the call of a handler, if it was the only one and litellm returned what it returned."""
        if len(recording.calls) != 1 or recording.outcome is not answer:
            return
        handler, named = recording.calls[0]
        place = next((name for name in HANDLERS if getattr(litellm.main, name, None) is handler), None)
        given, settings = key
        silence = silence_logging(litellm, {**given, "messages": []}, is_async=given["acompletion"])
        if place is None or not silence:
            return
        log = silence["litellm_logging_obj"]
        log.update_environment_variables(
            model=named["model"],
            optional_params={},
            litellm_params=named["litellm_params"],
            custom_llm_provider=named.get("custom_llm_provider"),
        )
        response = partial(_make_response, litellm, dict(named["model_response"]._hidden_params))
        named = {**named, "logging_obj": log, "model_response": None}
        self._prepared.append(_PreparedCall(given, settings, place, handler, named, response))


def _copy_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, those that are dicts and lists copied."""
    return {key: value.copy() if type(value) in (dict, list) else value for key, value in values.items()}


def _make_response(litellm: Any, hidden: Mapping[str, Any]) -> Any:
    """Return an empty response with a new id, as `completion` makes it."""
    response = litellm.ModelResponse()
    response.usage = litellm.Usage()
    response._hidden_params.update(hidden)
    return response


def _key_of(litellm: Any, arguments: dict[str, Any], provider: str, *, is_async: bool) -> _Key | None:
    """Return what a prepared call depends on; None if it may depend on more, so that litellm must prepare it."""
    if provider not in _PREPARED_PROVIDERS or not arguments.keys() <= _PREPARED_ARGUMENTS:
        return None
    settings = vars(litellm).get
    if any(map(settings, _EACH_TIME)) or not is_silent(litellm, arguments):
        return None
    if settings("modify_params") and "max_tokens" in arguments:  # the messages decide about the limit
        return None
    given = {key: value for key, value in arguments.items() if key not in _CHANGING}
    given["acompletion"] = is_async
    name = arguments["model"]
    rows = map(litellm.model_cost.get, (name, name.partition("/")[2]))
    defaults = vars(getattr(litellm, _DEFAULTS[provider])).copy() if provider in _DEFAULTS else None
    variables = map(os.environ.get, _list_variables(provider))
    return given, (*map(settings, _SETTINGS), *rows, defaults, *variables)


@cache
def _list_variables(provider: str) -> tuple[str, ...]:
    prefix = provider.removesuffix("_chat").upper()
    return tuple(name.format(prefix) for name in _VARIABLES)


def _copy_key(given: Mapping[str, Any], settings: tuple[Any, ...]) -> _Key:
    """Return a key that litellm and the host cannot change; the tools stay one object, which no one changes."""
    kept = {key: value if key == "tools" else copy_value(value) for key, value in given.items()}
    return kept, tuple(map(copy_value, settings))


def is_untouched(litellm: Any) -> bool:
    """Return whether `completion` and `acompletion` are litellm's own functions, not replaced or wrapped by the host.

    Instrumentation replaces or wraps them, with `functools.wraps` or `wrapt`, at any time, so this is checked for each
    request. The globals of a function are those of the module that defines it; no wrapper can copy them.
    """
    return all(_is_own_function(litellm, name) for name in ("completion", "acompletion"))


def _is_own_function(litellm: Any, name: str) -> bool:
    link = getattr(litellm, name, None)
    is_original = False
    while link is not None:
        if type(link) is not FunctionType or not link.__globals__["__name__"].startswith("litellm."):
            return False
        is_original = is_original or link is getattr(litellm.main, name, None)
        link = getattr(link, "__wrapped__", None)
    return is_original


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
    {"success_callback", "failure_callback", "callbacks", "metadata", "litellm_metadata", "guardrails", "logger_fn"}
)


class _Nothing(Coroutine[Any, Any, None]):
    """A coroutine without work that need not be awaited.

    litellm queues the bookkeeping of a call on the event loop, and old versions drop the queue with the loop.
    """

    cr_running = cr_suspended = False
    cr_frame = None
    cr_state = inspect.CORO_CLOSED  # what Python 3.15 reads in place of the others

    def send(self, _: Any) -> Any:
        raise StopIteration

    def throw(self, *_: Any) -> Any:
        raise StopIteration

    def close(self) -> None:
        """Do nothing."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


class _SilentLogging:
    """The methods of litellm's log of one call that have no effect without observers."""

    def pre_call(self, *_: Any, **__: Any) -> None:
        return None

    post_call = _response_cost_calculator = success_handler = pre_call

    def _should_run_sync_callbacks_for_async_calls(self) -> bool:
        return False

    def async_success_handler(self, *_: Any, **__: Any) -> "_Nothing":
        return _Nothing()


def _renew_log(log: Any) -> Any:
    """Return a log for another call: litellm writes into the dicts and lists of each."""
    renewed = object.__new__(type(log))
    vars(renewed).update(_copy_values(vars(log)))
    return renewed


def has_observers(litellm: Any) -> bool:
    """Return whether the host has registered an observer with litellm."""
    for name in _OBSERVER_SETTINGS:
        value = getattr(litellm, name, None)
        if value and value != ["cache"]:  # litellm adds this one itself
            return True
    return False


def is_silent(litellm: Any, options: Mapping[str, Any]) -> bool:
    """Return whether no observer misses litellm's bookkeeping: none of the host, none in the options, no debug log."""
    if not _OBSERVER_OPTIONS.isdisjoint(options) or has_observers(litellm) or not is_untouched(litellm):
        return False
    return not _litellm_log.isEnabledFor(logging.DEBUG)


def silence_logging(litellm: Any, arguments: Mapping[str, Any], *, is_async: bool) -> dict[str, Any]:
    """Return the argument that turns off the bookkeeping of a call; {} with observers, or if litellm was changed."""
    if not is_silent(litellm, arguments):
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
            kwargs=dict(arguments),
        )
        log.update_environment_variables(
            model=arguments["model"],
            user="",
            optional_params={},
            litellm_params={"api_base": ""},
            stream_options=arguments.get("stream_options"),
        )
    except (TypeError, AttributeError) as error:
        report_difference(f"its bookkeeping stays on: {error}")
        return {}
    return {"litellm_logging_obj": log}


@cache
def _make_silent_class(litellm: Any) -> type[Any]:
    return type("Unread", (_SilentLogging, litellm.litellm_core_utils.litellm_logging.Logging), {})
