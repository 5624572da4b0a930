"""Text from outside is data: the model reads it in a fence, and what it asks for is not done unasked.

Tools with `trust="untrusted"` return what others may have written.  Their results are fenced (see `fences`), and once
one of them is in the conversation, a call with `effect="write"` or "danger" needs approval, unless its arguments come
from the user or from trusted tools (see `origins`).

What this stops: that a page, a mail or a file has the agent act with values of its own, an address to send to, a path
to delete, a text to post.  What it does not: a call of tools that are declared as "read", or not at all, whose
arguments can carry what the agent knows to the outside (`fetch_page` of an address with data in it); a wrong choice
among values that the user did give; a wrong answer.  A fence is a hint that models mostly heed; the approval does not
depend on it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.delimiters import delimit, new_delimiter_id
from ...core.flow import Effect, Flow, Policy, ask, interpret
from ...core.messages import Message, text_of
from ...engine.model import AskModel
from ...tools.execution.call import BoundCall
from ...tools.execution.call_tools import CallTools
from ...tools.registry import ToolRegistry
from ..long_results import READ_MORE
from .origins import ENCLOSING_CALL, EnclosingCall, Origins

GUARDED_EFFECTS = ("write", "danger")


def guard_untrusted(history: Sequence[Message], tools: ToolRegistry, fence: str | None = None) -> Policy:
    """Fence the results of untrusted tools, and have what may follow from them approved.

    `history` is the conversation of the run: what came from outside in earlier runs counts.  `tools` are the agent's;
    those that are offered later are known when they are.  `fence` is the id of the fences, if it is not left to chance.
    A call that must be approved has the reason in `needs_approval`.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        guard = _Guard(Origins(history, _untrusted_names(tools), ENCLOSING_CALL.get()), fence or new_delimiter_id())
        last = tools

        def handle(effect: Effect[Any]) -> Flow[Any]:
            nonlocal last
            if isinstance(effect, CallTools):
                effect = replace(effect, calls=tuple(map(guard.guarded, effect.calls)))
            elif isinstance(effect, AskModel) and effect.request.tools is not last:
                last = effect.request.tools
                guard.origins.outside |= _untrusted_names(last)
            return (yield from ask(effect))

        return interpret(flow, handle, (AskModel, CallTools))

    return policy


def _untrusted_names(tools: ToolRegistry) -> set[str]:
    return {name for name, tool in tools.items() if tool.trust == "untrusted"}


@dataclass(frozen=True)
class _Guard:
    """What one run has of this policy."""

    origins: Origins
    fence: str

    def guarded(self, bound: BoundCall) -> BoundCall:
        """The call, its result fenced if it comes from outside; held for approval if there is doubt about it."""
        tool = bound.tool
        if tool is None or bound.problem is not None or bound.is_answer:
            return bound
        if tool.effect in GUARDED_EFFECTS and (doubt := self.origins.doubt(bound.call.arguments, tool)):
            bound = replace(bound, needs_approval="; ".join(filter(None, [bound.needs_approval, doubt])))
        if tool.trust == "untrusted" or (tool.name == READ_MORE and self._is_page_from_outside(bound)):
            bound = replace(bound, shorten=_Fencing(bound, self.fence))
        return bound.with_variable(ENCLOSING_CALL, EnclosingCall(self.origins, bound.call.arguments))

    def _is_page_from_outside(self, bound: BoundCall) -> bool:
        """Whether a call reads on in a cut result that came from outside: then its id stands in that result."""
        mark = f'result_id="{json.loads(bound.call.arguments).get("result_id")}"'
        return any(self.origins.is_from_outside(entry) and mark in text_of(entry) for entry in self.origins.history)


@dataclass(frozen=True)
class _Fencing:
    """Cuts a text as it would be cut, and fences what is left of it."""

    bound: BoundCall
    fence: str

    def __call__(self, text: str) -> str:
        return delimit(self.bound.shorten(text), self.fence, self.bound.call.name)
