"""How long calls may take and whether they overlap, where a tool does not say so itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.flow import Flow, Policy, around, ask, interpret
from ..engine.model import AskModel
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools
from ..tools.isolation.child import check_main
from .limits import cap_timeout

DEFAULT_TOOL_SECONDS = 60.0
"""Seconds that a call may take, if nobody says otherwise."""


def limit_tool_time(timeout: float | None = DEFAULT_TOOL_SECONDS, *, sequential: bool = False) -> Policy:
    """Give a call up after `timeout` seconds (None: never), or what its tool says; the answer's only if its tool does.

    A call that has a timeout already keeps it.  `sequential` makes the calls of a turn one after the other.
    """

    def limited(bound: BoundCall) -> BoundCall:
        if bound.timeout is not None:
            return bound
        own = "agent" if bound.tool is None else bound.tool.timeout
        seconds = own if own != "agent" else None if bound.is_answer else timeout
        return bound if seconds is None else replace(bound, timeout=seconds)

    def handle(effect: CallTools) -> Flow[Any]:
        calls = tuple(limited(bound) for bound in effect.calls)
        return (yield from ask(replace(effect, calls=calls, sequential=sequential or effect.sequential)))

    def policy(flow: Flow[Any]) -> Flow[Any]:
        check_main()
        return interpret(flow, handle, CallTools)

    return policy


def limit_reply_time(seconds: float) -> Policy:
    """Give each request `seconds` as its timeout, or what it has if that is less; further out than what asks again.

    A model of litellm's keeps its own, which for a streamed reply counts between the pieces.
    """

    def handle(effect: AskModel) -> Flow[Any]:
        if not getattr(effect.model, "keeps_time", False):
            effect = replace(effect, request=cap_timeout(effect.request, seconds))
        return (yield from ask(effect))

    return around(handle, AskModel)
