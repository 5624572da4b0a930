"""Hidden results: the model gets a handle instead of an untrusted text, and passes it on without reading it.

The conversation stays free of untrusted text, so what the model writes itself needs no origin.  A value that it passes
on by reference has the origin of the result, and the parameter's role decides.  To decide something by the text, the
model asks another request without tools for a yes or no, a number, a date or one of some choices (`extract_value`).  A
part of the text, or a summary, becomes a hidden text of its own (`extract_text`).  The model can read the text
(`reveal_result`): then the conversation is tainted, and every consequential call waits.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from ...core.approval_question import UntrustedValue
from ...core.context import RunContext
from ...core.errors import ExceptionInfo
from ...core.flow import Effect, Flow, Policy, ask, interpret
from ...core.labels import TRUSTED, CallOrigin, join_labels, join_readers
from ...core.messages import Message
from ...core.roles import Content, Destination, Plain
from ...engine.model import AskModel
from ...tools.arguments.repair import truncate
from ...tools.execution.call import BoundCall, ToolResult
from ...tools.execution.call_tools import CallTools
from ...tools.json_tool import JsonTool
from ...tools.registry import ToolRegistry
from ...tools.results.result_text import render_text
from ...tools.roles import find_role, is_destination, may_have_effect
from ..decisions import Approvals
from ..long_results import TruncatedResults
from .handle_tools import EXTRACT, EXTRACT_TEXT, REVEAL, Extractor, make_handle_tools
from .handles import Handles, Reference, UnknownHandle, describe_handle, is_reference
from .origins import Origins, describe, name_keeper
from .readers import explain, find_outsiders, find_recipients
from .values import PASSAGE_CHARS, find_addresses, iterate_values

NO_VALUE = "the question has no answer of this kind in the text."


def hide_untrusted(
    history: Sequence[Message],
    stored: TruncatedResults,
    extract: Extractor,
    context: RunContext[Any],
    *,
    approvals: Approvals | None = None,
) -> Policy:
    """Replace untrusted results by handles, and resolve references to them in arguments.

    The policy must be inside of `guard_untrusted`, with the setting "context".

    Args:
        history: The conversation of the run.
        stored: Has the hidden texts.
        extract: Answers a question about a text.
        context: The context of the run.
        approvals: Has the values that a person allowed from now on.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        state = _Hidden(Handles(stored), Origins(history), approvals or Approvals(), extract, context)

        def handle(effect: Effect[Any]) -> Flow[Any]:
            if isinstance(effect, CallTools):
                return (yield from state.run_calls(effect))
            return (yield from ask(state.offer_tools(effect) if isinstance(effect, AskModel) else effect))

        return interpret(flow, handle, (AskModel, CallTools))

    return policy


@dataclass
class _Hidden:
    """The state of one run."""

    handles: Handles
    origins: Origins
    approvals: Approvals
    extract: Extractor
    context: RunContext[Any]
    offered: tuple[ToolRegistry, ToolRegistry] | None = None
    own: ToolRegistry = field(init=False)

    def __post_init__(self) -> None:
        self.own = ToolRegistry(*make_handle_tools(self.handles, self.extract))

    def offer_tools(self, effect: AskModel) -> AskModel:
        """Return the request with the tools for handles, as soon as there is one."""
        tools = effect.request.tools
        if self.offered is None or self.offered[0] is not tools:
            self.offered = tools, tools.merged(self.own)
        if not any(key.startswith("#") for key in self.handles.stored.texts):
            return effect
        return replace(effect, request=replace(effect.request, tools=self.offered[1]))

    def run_calls(self, effect: CallTools) -> Flow[list[ToolResult]]:
        """Run calls with the values of their references, and hide their results, also if the turn is stopped."""
        calls = {bound.call.id: bound for bound in map(self.resolve, effect.calls)}
        try:
            results = yield from ask(effect.with_calls(calls.values()))
        except BaseException:
            for identity, bound in calls.items():
                if (result := effect.finished.get(identity)) is not None:
                    effect.finished[identity] = self.hide(bound, result)
            raise
        return [self.hide(calls[result.call.id], result) for result in results]

    def resolve(self, bound: BoundCall) -> BoundCall:
        """Return the call with the values of its references, and with the reason if it needs a decision."""
        if bound.tool is None and bound.call.name in self.own:
            context = replace(self.context, call=bound.call, origin=CallOrigin())
            return replace(self.own.bind(bound.call, context), begun=bound.begun)
        tool = bound.tool
        if tool is None or tool.trust != "trusted":
            bound.origin.inputs = join_labels([bound.origin.inputs, *self.handles.list_kept()])
        if tool is None or "#" not in bound.call.arguments:
            return self._check_literals(bound)
        try:
            arguments, references = self.handles.resolve(json.loads(bound.call.arguments))
        except UnknownHandle as error:
            return bound.refuse(str(error))
        if not references:
            return self._check_literals(bound)
        again = tool.bind(arguments, bound.context, repair="off")
        if isinstance(again.ready, ExceptionInfo):  # its text may quote the values
            wrong = ", ".join(f"{entry.where} = {entry.written}" for entry in references)
            return bound.refuse(f"the arguments with these references are not valid for {tool.name}: {wrong}")
        is_answer = self.offered is not None and tool is self.offered[0].answer
        found = replace(bound, run=again.ready, problem=None, is_answer=is_answer)
        label = join_labels(self.handles.label_of(entry, tool) for entry in references)
        if is_answer:
            found.origin.add(label)
        else:
            found.origin.inputs = found.origin.inputs.join(label)
            if label.is_untrusted or label.readers is not None:
                found.origin.keeper = name_keeper(tool)
        found = self._check_readers(self._check_references(found, tool, references), tool, arguments, references)
        return self._check_literals(found)

    def _check_references(self, bound: BoundCall, tool: JsonTool[..., Any], references: list[Reference]) -> BoundCall:
        if bound.is_answer or not may_have_effect(tool) or self._is_visit(bound, tool, references):
            return bound
        roles = {entry.where: find_role(tool, entry.where) for entry in references}
        untrusted = [entry for entry in references if entry.label.is_untrusted and not self.handles.is_vouched(entry)]
        places = [where for where, _ in iterate_values(bound.call.arguments, {}) if is_destination(tool, where)]
        is_directed = tool.effect == "read" or not {entry.where for entry in untrusted}.issuperset(places)
        is_directed = is_directed or (not places and self._has_own_words(bound, tool, roles))
        waiting: list[UntrustedValue] = []
        for entry in untrusted:
            role = roles[entry.where]
            if isinstance(role, Content) and is_directed:
                addresses = self._find_addresses(entry)
                waiting += (self._show(replace(entry, value=address), Destination()) for address in addresses)
            elif not (isinstance(role, Plain) and isinstance(entry.value, bool | int | float | None)):
                waiting.append(self._show(entry, role))
        return self._hold(bound, tool, waiting)

    def _is_visit(self, bound: BoundCall, tool: JsonTool[..., Any], references: list[Reference]) -> bool:
        """Return whether a call only visits web addresses that others wrote: it sends them nothing but their own words.

        A reference inside of a longer text, or anything else that the call gives, may carry data to them.
        """
        visited = {(entry.where, entry.written) for entry in references if self.handles.is_quoted(entry)}
        return tool.effect == "read" and visited.issuperset(iterate_values(bound.call.arguments, tool.parameters))

    def _find_addresses(self, entry: Reference) -> list[str]:
        """Return the web and mail addresses in a text that the model without tools wrote, unless they are trusted."""
        if EXTRACT_TEXT not in entry.label.sources:
            return []
        return [one for one in find_addresses(render_text(entry.value)) if not self.origins.knows(one)]

    def _has_own_words(self, bound: BoundCall, tool: JsonTool[..., Any], referring: Container[str]) -> bool:
        """Return whether the model has written a text of the call, and not because an extract said so."""
        return any(
            isinstance(value, str) and where not in referring and not self.origins.may_repeat(value)
            for where, value in iterate_values(bound.call.arguments, tool.parameters)
        )

    def _check_readers(
        self, bound: BoundCall, tool: JsonTool[..., Any], arguments: Any, references: list[Reference]
    ) -> BoundCall:
        """Hold a call that passes results on to others than their readers."""
        if bound.is_answer or not may_have_effect(tool):
            return bound
        recipients = find_recipients(json.dumps(arguments), tool)
        sent = [entry for entry in references if find_outsiders(entry.label.readers, recipients, tool) is not None]
        if not sent:
            return bound
        readers = reduce(join_readers, [entry.label.readers for entry in sent])
        shown = [replace(self._show(entry, Content()), readers=entry.label.readers) for entry in sent]
        doubt, values = explain(tool, find_outsiders(readers, recipients, tool) or [], readers, shown)
        return bound if self.approvals.grants.cover(tool.name, values) else bound.hold(doubt, values)

    def _check_literals(self, bound: BoundCall) -> BoundCall:
        """Hold a destination that the model may have from an extract."""
        tool = bound.tool
        if tool is None or bound.problem is not None or bound.is_answer or not may_have_effect(tool):
            return bound
        extracted = [
            UntrustedValue(where, value, EXTRACT, str(value), is_destination=True)
            for where, value in iterate_values(bound.call.arguments, tool.parameters)
            if is_destination(tool, where) and not is_reference(value) and self.origins.may_repeat(value)
        ]
        return self._hold(bound, tool, extracted)

    def _hold(self, bound: BoundCall, tool: JsonTool[..., Any], untrusted: list[UntrustedValue]) -> BoundCall:
        if not untrusted or self.approvals.grants.cover(tool.name, untrusted):
            return bound
        return bound.hold(f"these values come from untrusted text: {describe(untrusted)}", untrusted)

    def _show(self, entry: Reference, role: object) -> UntrustedValue:
        value = entry.value if isinstance(entry.value, str | int | float) else render_text(entry.value)
        passage = truncate(str(value), 2 * PASSAGE_CHARS)
        source = entry.label.sources[0] if entry.label.sources else entry.written.partition(".")[0]
        return UntrustedValue(entry.where, value, source, passage, isinstance(role, Destination))

    def hide(self, bound: BoundCall, result: ToolResult) -> ToolResult:
        """Return a result with a handle as its content, unless all that may read the conversation may read it.

        An untrusted result is hidden, too.  What `reveal_result` returns is shown.
        """
        label, readers = result.label, self.origins.readers
        if result.is_open or result.is_answer or label is None or bound.call.name == REVEAL:
            return result
        if not label.is_untrusted and join_readers(readers, label.readers) == readers:
            return result
        text = result.rendered.text if result.rendered is not None else str(result.value)
        if bound.tool is not None and bound.tool is self.own[EXTRACT]:
            label = replace(label, integrity="trusted")
            return replace(result, content=NO_VALUE if result.error else text, label=label)
        handle = self.handles.store(text, label)
        shown = describe_handle(handle, result.call.name, text, bound.tool)
        failed = ", an error" if result.error else ""
        return replace(result, content=f"{shown}{failed}", label=TRUSTED, rendered=None)
