"""Dry runs: calls of tools that only read are made, all others are listed."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from ..core.flow import Flow, Policy, around, ask
from ..tools.execution.call import NOT_RUN, BoundCall
from ..tools.execution.call_tools import CallTools
from ..tools.json_tool import JsonTool


def dry_run(keeping: Container[str] = ()) -> Policy:
    """Make the calls of tools with `effect="read"`; the result of every other one is `NOT_RUN`.

    A tool without a declared effect counts as one that writes, and so does an agent that is a tool.  No person is asked
    about a call that is not made.  Place the policy next to the loop, so that the others see what it leaves.

    Args:
        keeping: Names of tools whose calls are made all the same, such as those of hand-overs.
    """

    def handle(effect: CallTools) -> Flow[Any]:
        calls = [bound if bound.call.name in keeping else _plan(bound) for bound in effect.calls]
        return (yield from ask(effect.with_calls(calls)))

    return around(handle, CallTools)


def _plan(bound: BoundCall) -> BoundCall:
    """Return the call as it is if it reads, answers or cannot run; else one with no effect."""
    if bound.tool is None or bound.problem is not None or bound.is_answer or bound.tool.effect == "read":
        return bound
    harmless = JsonTool(bound.tool, effect="read", egress=False, isolate=None, retries=0)
    return bound.change(tool=harmless, run=lambda: NOT_RUN, is_stored=True)
