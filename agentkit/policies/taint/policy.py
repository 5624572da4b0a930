"""Untrusted text is data: the model reads it between delimiters, and calls that may follow from it need approval.

Tools with `trust="untrusted"` return what others may have written.  Their results are delimited (see `delimiters`).
Once one of them is in the conversation, a call with `effect="write"` or "danger" needs approval, unless its arguments
come from the user or from trusted tools (see `origins`).

This stops a page, a mail or a file from making the agent act with destinations of its own: an address to send to, a
path to delete.  The words of a text to a trusted destination may be untrusted (see `roles`).  It does not stop a call
of a tool with effect "read", or without an effect, whose arguments carry data out (`fetch_page` of an address with
data in it).  Neither does it stop a wrong choice among values that the user gave, or a wrong answer.  A delimiter
is a hint that models mostly follow; the approval does not depend on it.
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
from ..decisions import Approvals
from ..long_results import READ_MORE
from .origins import ENCLOSING_CALL, EnclosingCall, Origins

GUARDED_EFFECTS = ("write", "danger")


def guard_untrusted(
    history: Sequence[Message],
    tools: ToolRegistry,
    delimiter: str | None = None,
    *,
    approvals: Approvals | None = None,
) -> Policy:
    """Delimit the results of untrusted tools, and set `needs_approval` on the calls that may follow from them.

    Args:
        history: The conversation of the run; untrusted results of earlier runs count.
        tools: The agent's tools; those of later steps are added when they are offered.
        delimiter: The id of the delimiters; a random one by default.
        approvals: Has the values that a person allowed from now on.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        origins = Origins(history, _untrusted_names(tools), ENCLOSING_CALL.get())
        guard = _Guard(origins, delimiter or new_delimiter_id(), approvals or Approvals())
        last = tools

        def handle(effect: Effect[Any]) -> Flow[Any]:
            nonlocal last
            if isinstance(effect, CallTools):
                effect = replace(effect, calls=tuple(map(guard.check_call, effect.calls)))
            elif isinstance(effect, AskModel) and effect.request.tools is not last:
                last = effect.request.tools
                guard.origins.untrusted_tools |= _untrusted_names(last)
            return (yield from ask(effect))

        return interpret(flow, handle, (AskModel, CallTools))

    return policy


def _untrusted_names(tools: ToolRegistry) -> set[str]:
    return {name for name, tool in tools.items() if tool.trust == "untrusted"}


@dataclass(frozen=True)
class _Guard:
    """The state of one run."""

    origins: Origins
    delimiter: str
    approvals: Approvals

    def check_call(self, bound: BoundCall) -> BoundCall:
        """Return the call; its untrusted result will be delimited, and doubtful arguments need approval."""
        tool = bound.tool
        if tool is None or bound.problem is not None or bound.is_answer:
            return bound
        if tool.effect in GUARDED_EFFECTS and (doubt := self.origins.doubt(bound.call.arguments, tool)):
            untrusted = self.origins.find_untrusted(bound.call.arguments, tool)
            if not self.approvals.grants.cover(tool.name, untrusted):
                reasons = "; ".join(filter(None, [bound.needs_approval, doubt]))
                bound = replace(bound, needs_approval=reasons, untrusted=untrusted)
        if tool.trust == "untrusted" or (tool.name == READ_MORE and self._reads_untrusted(bound)):
            bound = replace(bound, shorten=_Delimiting(bound, self.delimiter))
        return bound.with_variable(ENCLOSING_CALL, EnclosingCall(self.origins, bound.call.arguments))

    def _reads_untrusted(self, bound: BoundCall) -> bool:
        """Return whether a call reads on in a truncated untrusted result: its id stands in that result."""
        mark = f'result_id="{json.loads(bound.call.arguments).get("result_id")}"'
        return any(self.origins.is_untrusted(entry) and mark in text_of(entry) for entry in self.origins.history)


@dataclass(frozen=True)
class _Delimiting:
    """Truncates a text as the call would, and delimits it."""

    bound: BoundCall
    delimiter: str

    def __call__(self, text: str) -> str:
        return delimit(self.bound.shorten(text), self.delimiter, self.bound.call.name)
