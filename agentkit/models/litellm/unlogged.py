"""A call of litellm without its bookkeeping for loggers, where there is no logger.

For each reply litellm computes a price, builds a record of some hundred fields and starts a task or a thread that hands
it to the callbacks.  Without callbacks that is for nothing, and it is more than a third of the CPU that a call takes.
The means is `litellm_logging_obj`, the object that litellm's own router and proxy hand from call to call.
"""

import datetime
from functools import cache
from typing import Any

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
