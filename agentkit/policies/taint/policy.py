"""Untrusted text is data: the model reads it between delimiters, and calls that may follow from it need approval.

Tools with `trust="untrusted"` return what others may have written.  Their results are labelled and delimited
(see `core.messages`).  The label decides, and the delimiters are a hint for the model.  Once something untrusted is in
the conversation, a consequential call needs approval: one that changes something, or that sends something outside
(`egress=True`).

With "values", a call runs if its arguments come from the user or from trusted tools (see `origins`).  This stops a
page, a mail or a file from making the agent act with destinations of its own: an address to send to, a path to delete.
The words of a text to a trusted destination may be untrusted (see `roles`).  It does not stop a wrong choice among
values that the user gave, or a wrong answer.  With "context", each consequential call waits.

What a call sends may go to the readers of the data in its arguments alone.  The rule is the confidentiality policy of
FIDES (arXiv 2505.23643).  The recipients of a call are its destinations, and the tool itself, by its name, in the place
of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any, Literal, TypeAlias

from ...core.context import enclosing
from ...core.flow import Flow, Hooks, Policy, interpret
from ...core.messages import (
    DEVELOPER,
    CallOrigin,
    Label,
    Message,
    delimit,
    find_delimiter_id,
    join_readers,
    label_of,
    new_delimiter_id,
    remove_delimiters,
    text_of,
)
from ...core.pending import UntrustedValue
from ...core.values import frozen
from ...engine.model import AskModel, Reply
from ...tools.execution.call import BoundCall
from ...tools.execution.call_tools import CallTools
from ...tools.json_tool import JsonTool
from ...tools.roles import is_consequential, is_destination, may_have_effect
from ..pending import PendingInputs
from .origins import (
    EnclosingCall,
    Origins,
    Texts,
    Value,
    describe,
    fold_hosts,
    is_rearranged,
    iterate_values,
    list_reading_steps,
    name_keeper,
)

Readers: TypeAlias = tuple[str, ...] | None
Recipients: TypeAlias = list[tuple[str, Value]]
"""The destinations of a call with their places in its arguments."""
Doubt: TypeAlias = tuple[str, tuple[UntrustedValue, ...]]
"""Why a call needs a decision, and its values that do; "" and none if it needs none."""
NOTHING: Doubt = "", ()


def find_recipients(arguments: str, tool: JsonTool[..., Any]) -> Recipients:
    """Return the destinations in the arguments of a call, a parameter's own choices included."""
    return [entry for entry in iterate_values(arguments, {}) if is_destination(tool, entry[0])]


def find_outsiders(readers: Readers, recipients: Recipients, tool: JsonTool[..., Any]) -> Recipients | None:
    """Return the recipients that are not among the readers; None if the call sends to readers alone."""
    if readers is None or tool.name in readers:
        return None
    known = {*map(fold_hosts, readers)}
    outside = [entry for entry in recipients if fold_hosts(str(entry[1])) not in known]
    return outside if outside or not recipients else None


def explain(tool: JsonTool[..., Any], outside: Recipients, readers: Readers, values: Sequence[UntrustedValue]) -> Doubt:
    """Return why a call waits that would send values to others than their readers; and them and these others.

    `readers` are those of a call without values.
    """
    if values:
        readers = reduce(join_readers, [value.readers for value in values])
    places = [where for where, _ in outside]
    receivers = ", ".join(dict.fromkeys(str(value) for _, value in outside)) or tool.name
    allowed = f"only {', '.join(readers)}" if readers else "no recipient"
    others = (UntrustedValue(*entry, is_destination=True, readers=readers) for entry in outside)
    inner = [value for value in values if value.where not in places]
    said = f": {describe(inner)}" if inner else ""
    return f"{allowed} may read what this call sends to {receivers}{said}", (*inner, *others)


@dataclass
class ReaderCheck:
    """The texts of a conversation by who may read them, read when something with limited readers came.

    A value of a call is free if a text contains it as a whole that the recipients may read; any other value may come
    from all that was read.
    """

    origins: Origins
    _read: int = 0
    _last: Message | None = None
    _texts: dict[tuple[Readers, str], Texts] = field(default_factory=dict)
    _outer: ReaderCheck | None = field(init=False)

    def __post_init__(self) -> None:
        outer = self.origins.outer
        self._outer = ReaderCheck(outer.origins) if outer is not None else None

    def find(self, arguments: str, tool: JsonTool[..., Any], *, is_strict: bool) -> Doubt:
        """Return why a call needs a decision; nothing if its recipients may read what it sends.

        Args:
            arguments: The arguments as JSON.
            tool: The tool.
            is_strict: Whether every value counts, and a call without any.
        """
        readers = self.origins.readers
        recipients = find_recipients(arguments, tool) if readers is not None else []
        outside = find_outsiders(readers, recipients, tool)
        if outside is None or not (outside or is_strict or is_consequential(tool)):
            return NOTHING
        sent = [
            self._trace(where, value, readers)
            for where, value in iterate_values(arguments, {} if is_strict else tool.parameters)
            if is_strict or not self._may_read(where, value, recipients, tool)
        ]
        return explain(tool, outside, readers, sent) if sent or is_strict else NOTHING

    def _may_read(self, where: str, value: Value, recipients: Recipients, tool: JsonTool[..., Any]) -> bool:
        contain = Texts.contain_exactly if is_destination(tool, where) else Texts.contain
        return any(
            find_outsiders(readers, recipients, tool) is None and contain(texts, value)
            for (readers, _), texts in self._iterate()
        )

    def _trace(self, where: str, value: Value, readers: Readers) -> UntrustedValue:
        """Return the value with the first text with limited readers that contains it."""
        for (limited, name), texts in self._iterate():
            if limited is not None and (passage := texts.find_passage(value)):
                return UntrustedValue(where, value, name, passage, readers=limited)
        return UntrustedValue(where, value, readers=readers)

    def _iterate(self) -> Iterator[tuple[tuple[Readers, str], Texts]]:
        """Yield the texts of this conversation and of those around it, by their readers and their tool."""
        history = self.origins.history
        if is_rearranged(history, self._read, self._last):
            self._read = 0
            self._texts = {}
        for message in history[self._read :]:
            if message["role"] != "assistant":
                label = label_of(message)
                name = message.get("name") or f"the {message['role']}"
                texts = self._texts.setdefault((label.readers, name), Texts())
                if message["role"] == "tool" and not label.is_untrusted:
                    texts.add_result(message)
                else:
                    texts.add(text_of(message), remove_delimiters)
        self._read = len(history)
        self._last = history[-1] if history else None
        yield from self._texts.items()
        if self._outer is not None:
            yield from self._outer._iterate()


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


@frozen(slots=False)
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
        enclose = partial(EnclosingCall, self.origins, bound.origin, self.is_strict)
        delimiter = self.known.get(bound.call.id, self.delimiter)
        return bound.change(inside=(enclose, *bound.inside), shorten=partial(_delimit, bound, delimiter))

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
