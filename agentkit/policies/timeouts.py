"""Timeouts of tool calls and replies, and calls that may not overlap."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ..core.flow import Flow, Policy, around, ask
from ..engine.model import AskModel
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools
from .limits import DEFAULT_LIMITS, cap_timeout

DEFAULT_TOOL_SECONDS = DEFAULT_LIMITS.tool_seconds


def limit_tool_time(timeout: float | None = DEFAULT_TOOL_SECONDS, *, sequential: bool = False) -> Policy:
    """Cancel tool calls at their timeout.

    A tool's own timeout has precedence, and a call with a timeout keeps it.  The answer tool only has its own.

    Args:
        timeout: Seconds; None for no timeout.
        sequential: Whether the calls of a turn run one after the other.
    """

    def handle(effect: CallTools) -> Flow[Any]:
        effect = effect.with_calls(map(partial(set_timeout, timeout=timeout), effect.calls))
        return (yield from ask(replace(effect, sequential=True) if sequential else effect))

    return around(handle, CallTools)


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

    def handle(effect: AskModel) -> Flow[Any]:
        if not getattr(effect.model, "keeps_time", False):
            effect = replace(effect, request=cap_timeout(effect.request, seconds))
        return (yield from ask(effect))

    return around(handle, AskModel)
