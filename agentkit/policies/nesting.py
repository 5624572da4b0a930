"""Tell the code of each tool call which call it is part of, so that calls inside it have a parent."""

from __future__ import annotations

from typing import Any

from ..core.context import ENCLOSING_AGENTS
from ..core.flow import Flow, Policy, around, ask
from ..core.nesting import PARENT_CALL, ParentCall
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools


def enclose_calls() -> Policy:
    """Set the parent of whatever is called inside a tool call, an agent for example."""

    def handle(effect: CallTools) -> Flow[Any]:
        return (yield from ask(effect.with_calls(map(_enclose, effect.calls))))

    return around(handle, CallTools)


def _enclose(bound: BoundCall) -> BoundCall:
    if bound.context is None or bound.is_answer or bound.problem is not None:
        return bound
    context, outer = bound.context, ENCLOSING_AGENTS.get()

    def set_up() -> None:
        PARENT_CALL.set(ParentCall(bound.call, context))
        ENCLOSING_AGENTS.set((*outer, bound.call.name))

    return bound.with_set_up(set_up)
