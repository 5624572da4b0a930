"""Timeouts of tool calls and replies, and calls that may not overlap."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..core.flow import Hooks, Policy, around
from ..engine.model import AskModel
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools
from .limits import DEFAULT_LIMITS, cap_timeout

DEFAULT_TOOL_SECONDS = DEFAULT_LIMITS.tool_seconds


def limit_tool_time(
    timeout: float | None = DEFAULT_TOOL_SECONDS, *, sequential: bool = False, on_caller: bool = False
) -> Policy:
    """Cancel tool calls at their timeout.

    A tool's own timeout has precedence, and a call with a timeout keeps it.  The answer tool only has its own.

    Args:
        timeout: Seconds; None for no timeout.
        sequential: Whether the calls of a turn run one after the other.
        on_caller: Whether plain functions run on the calling thread: one after the other, and without a timeout.
    """
    limit = partial(set_timeout, timeout=timeout)
    is_plain = not (sequential or on_caller)

    def change(effect: CallTools) -> CallTools:
        effect = effect.with_calls(
            [bound if on_caller and runs_in_thread(bound) else limit(bound) for bound in effect.calls]
        )
        return effect if is_plain else replace(effect, sequential=sequential, on_caller=on_caller)

    return around(Hooks(change), CallTools)


def runs_in_thread(bound: BoundCall) -> bool:
    """Return whether a call runs a plain function of this process, which nothing can stop."""
    return bound.tool is not None and not bound.tool.is_async and bound.tool.isolate is None


def set_timeout(bound: BoundCall, timeout: float | None = DEFAULT_TOOL_SECONDS) -> BoundCall:
    """Return a call with the timeout that it has: its own, its tool's, or `timeout`."""
    if bound.timeout is not None:
        return bound
    own = "agent" if bound.tool is None else bound.tool.timeout
    seconds = own if own != "agent" else None if bound.is_answer else timeout
    return bound if seconds is None else bound.change(timeout=seconds)


def limit_reply_time(seconds: float) -> Policy:
    """Set the timeout of each request to `seconds`, or to its own if that is less; stands outside of retries.

    A model with the attribute `keeps_time` is left alone: `LiteLLMModel` has its own timeout, which counts between the
    pieces of a streamed reply.
    """

    def change(effect: AskModel) -> AskModel:
        if getattr(effect.model, "keeps_time", False):
            return effect
        return replace(effect, request=cap_timeout(effect.request, seconds))

    return around(Hooks(change), AskModel)
