"""Untrusted text is data: the model reads it between delimiters, and calls that may follow from it need approval.

Tools with `trust="untrusted"` return what others may have written.  Their results are labelled (see `core.labels`) and
delimited (see `core.labels`).  The label decides, and the delimiters are a hint for the model.  Once something
untrusted is in the conversation, a consequential call needs approval: one that changes something, or that sends
something outside (`egress=True`).

With "values", a call runs if its arguments come from the user or from trusted tools (see `origins`).  This stops a
page, a mail or a file from making the agent act with destinations of its own: an address to send to, a path to delete.
The words of a text to a trusted destination may be untrusted (see `roles`).  It does not stop a wrong choice among
values that the user gave, or a wrong answer.  With "context", each consequential call waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

from ...core.context import enclosing
from ...core.flow import Flow, Hooks, Policy, interpret
from ...core.labels import DEVELOPER, CallOrigin, Label, delimit, find_delimiter_id, new_delimiter_id
from ...core.messages import Message, text_of
from ...engine.model import AskModel, Reply
from ...tools.execution.call import BoundCall
from ...tools.execution.call_tools import CallTools
from ...tools.json_tool import JsonTool
from ...tools.roles import is_consequential, may_have_effect
from ..pending import PendingInputs
from .origins import EnclosingCall, Origins, list_reading_steps, name_keeper
from .readers import ReaderCheck

UntrustedSetting: TypeAlias = Literal["values", "context", "hidden"]
"""Which consequential calls wait after something untrusted was read: those with values from there, or all.  "hidden" is
as "context", but the model reads handles in the place of untrusted results (see `hidden`)."""


def guard_untrusted(
    history: Sequence[Message],
    delimiter: str | None = None,
    *,
    recorded: Sequence[Message] = (),
    setting: UntrustedSetting = "values",
    inputs: PendingInputs | None = None,
    known: Origins | None = None,
) -> Policy:
    """Delimit untrusted results, label what follows from them, and set `needs_approval` on calls that may.

    Args:
        history: The conversation of the run; untrusted messages of earlier runs count.
        delimiter: The id of the delimiters; a random one by default.
        recorded: The messages of a run that is replayed; its delimiters are used again.
        setting: Which calls need approval.  A run inside a call with "context" or "hidden" is as strict as "context".
        inputs: Has the values that a person allowed from now on.
        known: What earlier runs have read of the history, so that a long one is not read again.
    """

    delimiters: dict[str, str] = {}
    for message in recorded:
        if message["role"] == "tool":
            delimiters[message["tool_call_id"]] = find_delimiter_id(text_of(message))

    def policy(flow: Flow[Any]) -> Flow[Any]:
        outer = enclosing(EnclosingCall)
        is_strict = setting != "values" or (outer is not None and outer.is_strict)
        origins = known if known is not None and outer is None else Origins(history, outer)
        chosen = delimiter or new_delimiter_id()
        guard = _Guard(origins, chosen, delimiters, is_strict, inputs or PendingInputs())

        def check_calls(effect: CallTools) -> CallTools:
            return effect.with_calls(map(guard.check_call, effect.calls))

        checked: Flow[Any] = interpret(flow, Hooks(check_calls), CallTools)
        guarded: Flow[Any] = interpret(checked, Hooks(after=guard.label_reply), AskModel)
        return guarded if outer is None else _report_label(guarded, guard.origins, outer.origin)

    return policy


def _report_label(flow: Flow[Any], origins: Origins, origin: CallOrigin) -> Flow[Any]:
    """Run a flow inside a call, and add what it has read to the label of the call's result, however it ends."""
    try:
        return (yield from flow)
    finally:
        origin.add(origins.whole_label)


@dataclass(frozen=True)
class _Guard:
    """The state of one run."""

    origins: Origins
    delimiter: str
    known: Mapping[str, str]
    """The ids of the delimiters of recorded results, by the ids of the calls; "" for a result without any."""
    is_strict: bool
    inputs: PendingInputs

    @cached_property
    def readers(self) -> ReaderCheck:
        """The check of recipients, which only calls with an effect need."""
        return ReaderCheck(self.origins)

    def check_call(self, bound: BoundCall) -> BoundCall:
        """Return the call; its untrusted result will be delimited, and doubtful arguments need approval."""
        tool = bound.tool if bound.problem is None else None
        if not self.origins.is_untouched:
            inputs = self.origins.label_inputs(bound.call.arguments, tool)
            bound.origin.inputs = bound.origin.inputs.join(inputs)
            if tool is not None and inputs.is_untrusted:
                bound.origin.keeper = name_keeper(tool)
            if tool is not None and not bound.is_answer and may_have_effect(tool):
                bound = self._check_sources(self._check_readers(bound, tool), tool)
        if tool is None or bound.is_answer:
            return bound
        call = EnclosingCall(self.origins, bound.origin, self.is_strict)
        delimiter = self.known.get(bound.call.id, self.delimiter)
        return bound.change(inside=(lambda: call, *bound.inside), shorten=partial(_delimit, bound, delimiter))

    def _check_sources(self, bound: BoundCall, tool: JsonTool[..., Any]) -> BoundCall:
        """Hold a call that untrusted text may have caused."""
        origins = self.origins
        arguments = bound.call.arguments
        if not origins.sources():
            return bound
        untrusted = origins.find_untrusted(arguments, tool)
        is_declared = self.is_strict or is_consequential(tool)
        if not is_declared:
            untrusted = tuple(entry for entry in untrusted if entry.is_destination)
        if self.inputs.grants.cover(tool.name, untrusted) or not (is_declared or untrusted):
            return bound
        doubt = origins.doubt(arguments, tool, untrusted)
        if self.is_strict and not doubt:
            doubt = f"{origins.introduce()}, and in this agent every call with an effect then waits"
        return bound.hold(doubt, untrusted) if doubt else bound

    def _check_readers(self, bound: BoundCall, tool: JsonTool[..., Any]) -> BoundCall:
        """Hold a call that sends data to others than its readers."""
        doubt, values = self.readers.find(bound.call.arguments, tool, is_strict=self.is_strict)
        return bound.hold(doubt, values) if doubt and not self.inputs.grants.cover(tool.name, values) else bound

    def label_reply(self, _: AskModel, reply: Reply) -> Reply:
        """Return a reply with the label of what the model had read, unless that is all trusted."""
        label = self.origins.label
        for name in list_reading_steps(reply.message):
            label = label.join(Label.untrusted(name))
        if label is DEVELOPER:
            return reply
        return replace(reply, message={**reply.message, "label": replace(label, vouched=()).as_dict()})


def _delimit(bound: BoundCall, delimiter: str, text: str) -> str:
    """Truncate a text as the call would, and delimit it if the tool has read something untrusted."""
    shown = bound.shorten(text)
    return delimit(shown, delimiter, bound.call.name) if delimiter and bound.origin.own.is_untrusted else shown
