"""A call of litellm without its bookkeeping for loggers, where there is no logger.

For each reply litellm computes a price, builds a record of some hundred fields and starts a task or a thread that hands
it to the callbacks.  Without callbacks that is for nothing, and it is more than a third of the CPU that a call takes.
The means is `litellm_logging_obj`, the object that litellm's own router and proxy hand from call to call.
"""

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any

Log = Callable[[dict[str, Any], bool], dict[str, Any]]
"""From what litellm is asked, and whether it is awaited, to the arguments that are added."""

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


def unlogged(litellm: Any, logging: type[Any]) -> Log:
    """What saves the bookkeeping of a call, given litellm and its class `Logging`."""

    return partial(_log, litellm, type("Unlogged", (_Unread, logging), {}))


def is_observed(litellm: Any) -> bool:
    """Whether somebody wants to hear from litellm of every reply."""
    for name in _WATCHERS:
        value = getattr(litellm, name, None)
        if value and value != ["cache"]:  # litellm adds this one by itself
            return True
    return False


def _log(litellm: Any, kind: type[Any], asked: dict[str, Any], awaited: bool) -> dict[str, Any]:
    if not _OPTIONS.isdisjoint(asked) or is_observed(litellm):
        return {}
    try:
        log = kind(
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
    except (TypeError, AttributeError):  # of another version of litellm: its own log will do
        return {}
    return {"litellm_logging_obj": log}
