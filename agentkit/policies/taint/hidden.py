"""Hidden results: the model gets a handle instead of an untrusted text, and passes it on without reading it.

The conversation stays free of untrusted text, so what the model writes itself needs no origin.  A handle is `#3` for
the third result, `#3.body` for its field, and `{#3.body}` for that field inside a text.  A value that the model passes
on by reference has the origin of the result, and the parameter's role decides.

To decide something by the text, the model asks another request without tools for a yes or no, a number, a date or one
of some choices (`extract_value`).  A part of the text, or a summary, becomes a hidden text of its own (`extract_text`).
The model can read the text (`reveal_result`): then the conversation is tainted, and every consequential call waits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import reduce
from typing import Any, Literal, TypeAlias

from ...core.context import RunContext
from ...core.errors import ExceptionInfo, ToolError
from ...core.flow import Flow, Hooks, Policy, ask, interpret
from ...core.masking import mask
from ...core.messages import (
    TRUSTED,
    UNKNOWN,
    CallOrigin,
    Content,
    Destination,
    Label,
    Message,
    Plain,
    ReferencedValue,
    ToolCall,
    join_labels,
    join_readers,
    label_of,
    remove_delimiters,
    text_of,
)
from ...core.pending import UntrustedValue, digest_call
from ...core.portable import iterate_scalars, parse_json, truncate
from ...core.values import frozen
from ...engine.model import AskModel
from ...schemas.walk import iter_schemas
from ...tools.execution.call import BoundCall, ToolResult
from ...tools.execution.call_tools import CallTools
from ...tools.json_tool import JsonTool
from ...tools.registry import ToolRegistry
from ...tools.results.result_text import render_text
from ...tools.roles import find_role, is_destination, may_have_effect, runs_agent, runs_program
from ..long_results import TruncatedResults
from ..pending import PendingInputs
from .origins import (
    PASSAGE_CHARS,
    Origins,
    Texts,
    Value,
    describe,
    is_public_page,
    iterate_leaves,
    iterate_values,
    name_keeper,
)
from .policy import explain, find_outsiders, find_recipients

MAX_FIELDS_SHOWN = 20
_PATH = r"#\d+(?:\.\w+)*(?:\[\w{3,40}\])?"
_NAMED = re.compile(r"[\w -]+")
_NUMBER = re.compile(r"(?<![\w#])#\d+\b")
_NAME = re.compile(r"\w{1,40}")
_WHOLE = re.compile(_PATH)
_INSIDE = re.compile(rf"\{{({_PATH})\}}")


@frozen
class Reference:
    """A reference in the arguments of a call: its place, what was written, its value and its label."""

    where: str
    written: str
    value: Any
    label: Label

    @property
    def source(self) -> str:
        """The name of the source that is shown."""
        return self.label.sources[0] if self.label.sources else self.written.partition(".")[0]


class UnknownHandle(Exception):
    """A reference to a result or a field that does not exist."""


@frozen
class Handles:
    """The hidden results of a conversation, stored beside its truncated results, by their handles.

    What looks like a handle and stands in a message of the user is the user's own text, such as the number of a ticket.
    """

    stored: TruncatedResults
    history: Sequence[Message] = ()

    def store(self, text: str, label: Label) -> str:
        """Store the text of a result and return its handle."""
        return self.stored.store_next(text, label, self._list_own())

    def _list_own(self) -> set[str]:
        """Return what looks like a handle in the user's messages."""
        messages = (message for message in self.history if message["role"] == "user")
        texts = (text_of(message) for message in messages if not label_of(message).is_untrusted)
        return {found for text in texts if "#" in text for found in _NUMBER.findall(text)}

    def find(self, reference: str) -> tuple[Any, Label]:
        """Return the value of a reference, and its label; raise `UnknownHandle` if it does not exist."""
        reference, _, begin = reference.partition("[")
        handle, *path = reference.split(".")
        if handle not in self.stored.texts:
            known = ", ".join(key for key in self.stored.texts if key.startswith("#")) or "none"
            raise UnknownHandle(f"there is no result {handle}. There are: {known}.")
        value = _read(self.stored.texts[handle])
        label = self.stored.labels.get(handle, UNKNOWN)
        for key in path:
            try:
                value = value[int(key) if isinstance(value, list) else key]
            except (LookupError, TypeError, ValueError):
                raise UnknownHandle(f"{reference}: the result {handle} has no field {key!r} there.") from None
        return (_find_entry(reference, value, begin.rstrip("]")) if begin else value), label

    def is_vouched(self, reference: Reference) -> bool:
        """Return whether the value is one of a trusted field."""
        return isinstance(reference.value, str | int | float) and reference.value in reference.label.vouched

    def is_quoted(self, reference: Reference) -> bool:
        """Return whether a value is a public web address that stands whole in one text: its author wrote it.

        A text that was made of what its tool was given may have been put together.
        """
        value = reference.value
        if not isinstance(value, str) or not is_public_page(value):
            return False
        whole = Texts()
        for key, text in self.stored.texts.items():
            if key[0] == "#" and self.stored.labels.get(key, UNKNOWN).is_original:
                for where, part in iterate_leaves(_read(text)):
                    if isinstance(part, str) and not where.startswith("a name in "):
                        whole.add(part)
        return whole.contain_exactly(value)

    def label_of(self, reference: Reference, tool: JsonTool[..., Any]) -> Label:
        """Return the label that a reference gives to what the tool returns."""
        label = reference.label
        if not self.is_vouched(reference):
            return label
        if tool.trust == "trusted":
            return Label("trusted", (), label.readers)
        return Label("trusted", label.sources, label.readers, kept=label.kept)

    def resolve(self, arguments: Any) -> tuple[Any, list[Reference]]:
        """Return the arguments with values for references, and the references; raise `UnknownHandle`."""
        found: list[Reference] = []
        return self._resolve(arguments, "", found.append), found

    def _resolve(self, data: Any, where: str, note: Callable[[Reference], None]) -> Any:
        if isinstance(data, dict):
            return {key: self._resolve(value, f"{where}.{key}".lstrip("."), note) for key, value in data.items()}
        if isinstance(data, list):
            return [self._resolve(value, f"{where}[{place}]", note) for place, value in enumerate(data)]
        if not isinstance(data, str) or "#" not in data:
            return data
        if _WHOLE.fullmatch(data):
            return data if data in self._list_own() else self._take(data, where, note)
        return _INSIDE.sub(lambda match: render_text(self._take(match[1], where, note)), data)

    def _take(self, written: str, where: str, note: Callable[[Reference], None]) -> Any:
        value, label = self.find(written)
        note(Reference(where, written, value, label))
        return value


def _show_call(call: ToolCall, arguments: Any, references: Sequence[Reference]) -> ToolCall:
    """Return a call with these arguments, and with the references in the place of which they stand."""
    if not references:
        return call
    values = tuple(ReferencedValue(entry.where, entry.written, entry.value, entry.source) for entry in references)
    resolved = json.dumps(arguments, ensure_ascii=False)
    return replace(call, arguments=resolved, written=call.arguments, references=values)


def show_waiting(call: ToolCall, digest: str, stored: TruncatedResults, history: Sequence[Message]) -> ToolCall:
    """Return a call that waits with the values of its references, as those who decide about it see it.

    One whose digest is that of a call without any, and one with unknown references, is returned as it is.
    """
    if "#" not in call.arguments or digest_call(call) == digest:
        return call
    try:
        arguments, references = Handles(stored, history).resolve(json.loads(call.arguments))
    except (UnknownHandle, ValueError, RecursionError):
        return call
    return _show_call(call, arguments, references)


def _find_entry(reference: str, value: Any, begin: str) -> str:
    """Return the only text in a list that begins with a word, in any case; raise `UnknownHandle` if it is not one."""
    entries = [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []
    found = [entry for entry in entries if entry.lower().startswith(begin.lower())]
    if len(found) != 1:
        raise UnknownHandle(f"{reference}[{begin}]: not exactly one entry of {reference} begins with {begin!r}.")
    return found[0]


def is_reference(value: Any) -> bool:
    """Return whether an argument is a reference and nothing else."""
    return isinstance(value, str) and _WHOLE.fullmatch(value) is not None


def describe_handle(handle: str, name: str, text: str, tool: JsonTool[..., Any] | None) -> str:
    """Return what the model reads of a hidden result: nothing that others have written.

    The fields are those that the tool's output schema declares; a trusted one is named as such.
    """
    schema = tool.output_schema if tool is not None else None
    declared = {name for part in iter_schemas(schema or {}) for name in part.get("properties", ())}
    value = _read(text)
    shape = f"{len(text):,} characters"
    if isinstance(value, list):
        shape += f", a list of {len(value):,}"
        value = value[0] if value else None
    trusted = tool.trust if tool is not None and isinstance(tool.trust, Mapping) else ()
    keys = [key for key in value if key in declared and _NAME.fullmatch(key)] if isinstance(value, dict) else []
    fields = [f"{key} (trusted)" if key in trusted else key for key in keys[:MAX_FIELDS_SHOWN]]
    if "" in trusted:
        shape += ", trusted values"
    return f"{handle} from {name}, {shape}{', fields: ' if fields else ''}{', '.join(fields)}"


MIN_QUOTED_CHARS = 12
"""Characters that a text has in common with a hidden one to quote it; a shorter hidden text is quoted as a whole."""


def replace_quotes(text: str, hidden: str, name: str) -> str:
    """Return a text with `name` in the place of what it quotes of a hidden one, in any case of letters."""
    wanted = hidden.strip().lower()
    if not wanted:
        return text
    if len(wanted) < MIN_QUOTED_CHARS:
        return re.sub(rf"(?<!\w){re.escape(wanted)}(?!\w)", lambda _: name, text, flags=re.IGNORECASE)
    searched = text.lower() if len(text.lower()) == len(text) else text
    size = MIN_QUOTED_CHARS
    pieces = {searched[place : place + size] for place in range(len(searched) - size + 1)}
    found = {piece for place in range(len(wanted) - size + 1) if (piece := wanted[place : place + size]) in pieces}
    if not found:
        return text
    parts: list[str] = []
    end = 0
    for place in range(len(searched)):
        if searched[place : place + size] in found:
            parts += [text[end:place], name] if place > end or not parts else []
            end = place + size
    return "".join([*parts, text[end:]])


def _read(text: str) -> Any:
    """Return the JSON value of a result that is an object or a list, else the text."""
    return parse_json(text) if text[:1] in ("{", "[") else text


REVEAL = "reveal_result"
EXTRACT = "extract_value"
EXTRACT_TEXT = "extract_text"
HANDLE_TOOLS = (REVEAL, EXTRACT, EXTRACT_TEXT)
"""The names of the tools that `untrusted="hidden"` adds to those of an agent."""
ExtractedKind: TypeAlias = Literal["yes_or_no", "number", "date", "choice"]
Extractor: TypeAlias = Callable[[Any, str, str, RunContext[Any]], Awaitable[Any]]
"""Asks a model without tools: the type of the answer, the question, the text, the run."""


def make_handle_tools(handles: Handles, extract: Extractor) -> Sequence[JsonTool[..., Any]]:
    """Return the tools with which a model uses hidden results.

    Args:
        handles: The hidden results.
        extract: Answers a question about a text.
    """

    def find(reference: str, run: RunContext[Any]) -> Any:
        """Return the value of a reference, and add its label to the run's call."""
        try:
            value, label = handles.find(reference.strip())
        except UnknownHandle as error:
            raise ToolError(str(error)) from None
        run.origin.add(label)
        return value

    def reveal_result(reference: str, run: RunContext[Any]) -> str:
        """Shows the text of a hidden result. Then later calls with effects need a person's decision.

        Where you can, pass it on unread: give #3 or #3.body as an argument of another tool or of the answer, or write
        {#3.body} inside a text. #3[Ann] is the only entry of the list #3 that begins with Ann.

        Args:
            reference: The result or one of its fields, such as #3 or #3.subject.
        """
        return render_text(find(reference, run))

    async def extract_value(
        reference: str, question: str, kind: ExtractedKind, run: RunContext[Any], choices: list[str] | None = None
    ) -> Any:
        """Answers a question about a hidden result, by a value of a limited kind.

        Args:
            reference: The result or one of its fields, such as #3 or #3.subject.
            question: What to find out.
            kind: The kind of the answer.
            choices: The possible answers, if the kind is choice.
        """
        if kind == "choice" and not choices:
            raise ToolError("choices: expected the possible answers.")
        kinds: dict[ExtractedKind, Any] = {"yes_or_no": bool, "number": float, "date": date}
        wanted = Literal[tuple(choices)] if kind == "choice" and choices else kinds[kind]
        return await extract(wanted, question, render_text(find(reference, run)), run)

    async def extract_text(reference: str, question: str, run: RunContext[Any]) -> str:
        """Writes a text from a hidden result, such as an address in it, a list or a summary. The text is hidden, too.

        Pass it on by its own reference, such as #4.

        Args:
            reference: The result or one of its fields, such as #3 or #3.subject.
            question: What to write.
        """
        text = render_text(find(reference, run))
        run.origin.add(Label.untrusted(EXTRACT_TEXT))
        return str(await extract(str, question, text, run))

    return tuple(JsonTool(tool, effect="read") for tool in (reveal_result, extract_value, extract_text))


NO_VALUE = "the question has no answer of this kind in the text."


def hide_untrusted(
    history: Sequence[Message],
    stored: TruncatedResults,
    extract: Extractor,
    context: RunContext[Any],
    *,
    inputs: PendingInputs | None = None,
    keeping: Container[str] = (),
    said: Sequence[Message] | None = None,
) -> Policy:
    """Replace untrusted results by handles, and resolve references to them in arguments.

    The policy must be inside of `guard_untrusted`, with the setting "context".

    Args:
        history: The conversation of the run.
        stored: Has the hidden texts.
        extract: Answers a question about a text.
        context: The context of the run.
        inputs: Has the values that a person allowed from now on.
        keeping: The names of tools that get the references themselves, because the conversation gets their arguments.
        said: Has the messages of the user; default: `history`.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        origins = Origins(history)
        handles = Handles(stored, history if said is None else said)
        state = _Hidden(handles, origins, inputs or PendingInputs(), extract, context, keeping)
        asking: Flow[Any] = interpret(flow, Hooks(state.offer_tools), AskModel)
        return interpret(asking, state.run_calls, CallTools)

    return policy


@dataclass
class _Hidden:
    """The state of one run."""

    handles: Handles
    origins: Origins
    inputs: PendingInputs
    extract: Extractor
    context: RunContext[Any]
    keeping: Container[str] = ()
    offered: tuple[ToolRegistry, ToolRegistry] | None = None
    own: ToolRegistry = field(init=False)
    references: dict[str, list[Reference]] = field(default_factory=dict)
    """The references of the calls of the current turn, by call id."""

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
        self.references = {}
        calls = {bound.call.id: self.resolve(bound).change(rebind=self._rebind) for bound in effect.calls}
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
        if tool is not None and (tool.name in self.keeping or runs_program(tool)):  # a value is no part of a program
            return bound
        if tool is None or tool.trust != "trusted":
            kept = (label for label in self.handles.stored.labels.values() if label.kept)
            bound.origin.inputs = join_labels([bound.origin.inputs, *kept])
        if tool is None or "#" not in bound.call.arguments:
            return self._check_literals(bound)
        try:
            arguments, references = self.handles.resolve(json.loads(bound.call.arguments))
        except UnknownHandle as error:
            return bound.refuse(str(error))
        if not references:
            return self._check_literals(bound)
        found = self._bind(bound, tool, arguments, references)
        if found.problem is not None:  # its text may quote the values
            wrong = ", ".join(f"{entry.where} = {entry.written}" for entry in references)
            return bound.refuse(f"the arguments with these references are not valid for {tool.name}: {wrong}")
        found = self._check_readers(self._check_references(found, tool, references), tool, arguments, references)
        return self._check_literals(found)

    def _bind(
        self, bound: BoundCall, tool: JsonTool[..., Any], arguments: Any, references: list[Reference]
    ) -> BoundCall:
        """Return the call bound to the values of its references; its `problem` says why it cannot be."""
        self.references.setdefault(bound.call.id, []).extend(references)
        again = tool.bind(arguments, bound.context, repair="off")
        if isinstance(again.ready, ExceptionInfo):
            return replace(bound, problem=again.ready)
        is_answer = self.offered is not None and tool is self.offered[0].answer
        resolved = _show_call(bound.call, arguments, references)
        found = replace(bound, run=again.ready, problem=None, is_answer=is_answer, resolved=resolved)
        label = join_labels(self.handles.label_of(entry, tool) for entry in references)
        if is_answer:
            found.origin.add(label)
        else:
            found.origin.inputs = found.origin.inputs.join(label)
            if label.is_untrusted or label.readers is not None:
                found.origin.keeper = name_keeper(tool)
        return found

    def _rebind(self, bound: BoundCall, arguments: Mapping[str, Any]) -> BoundCall:
        """Return the call with the arguments of a person, whose references have their values."""
        try:
            values, references = self.handles.resolve(dict(arguments))
        except UnknownHandle as error:
            return bound.change(problem=ExceptionInfo(ToolError.__name__, str(error)))
        bound = bound.change(rebind=None, resolved=None)
        if bound.tool is None or not references:
            return bound.with_arguments(arguments)
        call = replace(bound.call, arguments=json.dumps(arguments, ensure_ascii=False))
        return self._bind(bound.change(call=call), bound.tool, values, references)

    def _check_references(self, bound: BoundCall, tool: JsonTool[..., Any], references: list[Reference]) -> BoundCall:
        if bound.is_answer or not may_have_effect(tool) or self._is_visit(bound, tool, references):
            return bound
        roles = {entry.where: find_role(tool, entry.where) for entry in references}
        untrusted = [
            entry
            for entry in references
            if entry.label.is_untrusted and not self.handles.is_vouched(entry) and not self._is_begun_by_user(entry)
        ]
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

    def _is_begun_by_user(self, entry: Reference) -> bool:
        """Return whether the value is the only name in a list that begins with a word of the user: `#1[External]`.

        Others chose less than half of it, and it is no address.  Once an extract was answered, others may have chosen
        the word.
        """
        begin = entry.written.partition("[")[2].rstrip("]")
        return (
            bool(begin)
            and len(begin) > len(entry.value) / 2
            and _NAMED.fullmatch(entry.value) is not None
            and not self.origins.has_extracts
            and self.origins.knows_exactly(begin)
        )

    def _is_visit(self, bound: BoundCall, tool: JsonTool[..., Any], references: list[Reference]) -> bool:
        """Return whether a call only visits web addresses that others wrote: it sends them nothing but their own words.

        A reference inside of a longer text, or anything else that the call gives, may carry data to them; so does a
        choice, unless it is the default.
        """
        visited = {entry.written for entry in references if self.handles.is_quoted(entry)}
        own = tool.parameters.get("properties", {})
        given = {
            name: value
            for name, value in json.loads(bound.call.arguments).items()
            if name not in own or "default" not in own[name] or value != own[name]["default"]
        }
        return tool.effect == "read" and visited.issuperset(iterate_scalars(given))

    def _find_addresses(self, entry: Reference) -> list[str]:
        """Return the web and mail addresses in a text that the model without tools wrote, unless they are trusted."""
        if EXTRACT_TEXT not in entry.label.sources:
            return []
        return self.origins.find_unknown_addresses(render_text(entry.value))

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
        return bound if self.inputs.grants.cover(tool.name, values) else bound.hold(doubt, values)

    def _check_literals(self, bound: BoundCall) -> BoundCall:
        """Hold a destination that the model may have from extracts, an address in content, and content made of them.

        Content that is put together from extracts has no words of the model.  It waits as a reference does, in a call
        without a destination.
        """
        tool = bound.tool
        if tool is None or bound.problem is not None or bound.is_answer or not may_have_effect(tool):
            return bound
        values = [*iterate_values(bound.call.arguments, tool.parameters)]
        literal = [(where, value) for where, value in values if not is_reference(value)]
        extracted: list[tuple[str, Value]] = []
        for where, value in literal:
            parts = [value] if is_destination(tool, where) else self.origins.find_unknown_addresses(str(value))
            extracted += [(where, part) for part in parts if self.origins.may_repeat_exactly(part)]
        waiting = [UntrustedValue(where, value, EXTRACT, str(value), is_destination=True) for where, value in extracted]
        if not waiting and tool.effect != "read" and not any(is_destination(tool, where) for where, _ in values):
            texts = [(where, value) for where, value in literal if isinstance(value, str)]
            if texts and all(self.origins.is_made_of_repeated(value) for _, value in texts):
                waiting = [UntrustedValue(where, value, EXTRACT, value) for where, value in texts]
        return self._hold(bound, tool, waiting)

    def _hold(self, bound: BoundCall, tool: JsonTool[..., Any], untrusted: list[UntrustedValue]) -> BoundCall:
        if not untrusted or self.inputs.grants.cover(tool.name, untrusted):
            return bound
        return bound.hold(f"these values come from untrusted text: {describe(untrusted)}", untrusted)

    def _show(self, entry: Reference, role: object) -> UntrustedValue:
        value = entry.value if isinstance(entry.value, str | int | float) else render_text(entry.value)
        passage = truncate(mask(str(value)), 2 * PASSAGE_CHARS)
        return UntrustedValue(entry.where, value, entry.source, passage, isinstance(role, Destination))

    def hide(self, bound: BoundCall, result: ToolResult) -> ToolResult:
        """Return a result with a handle as its content, unless all that may read the conversation may read it.

        An untrusted result is hidden, too.  What `reveal_result` returns is shown, and so is what agentkit, the
        developer or a person says instead of a tool, without what it quotes of the values of references.
        """
        label = result.label
        readers = self.origins.readers
        if result.is_open or result.is_answer or label is None or bound.tool is self.own[REVEAL]:
            return result
        if not label.is_untrusted and join_readers(readers, label.readers) == readers:
            return result
        if result.error is not None and result.error.is_own:
            content = self._hide_quotes(bound, remove_delimiters(result.content))
            return replace(result, content=content, label=self.origins.label_inputs(bound.call.arguments, bound.tool))
        text = result.rendered.text if result.rendered is not None else str(result.value)
        if bound.tool is not None and bound.tool is self.own[EXTRACT]:
            label = replace(label, integrity="trusted")
            return replace(result, content=NO_VALUE if result.error else text, label=label)
        handle = self.handles.store(text, replace(label, is_original=self._is_original(bound, label)))
        shown = describe_handle(handle, result.call.name, text, bound.tool)
        failed = ", an error" if result.error else ""
        notes = [self._hide_quotes(bound, note) for note in result.notes]
        return replace(result, content="\n".join([*notes, f"{shown}{failed}"]), label=TRUSTED, rendered=None)

    def _hide_quotes(self, bound: BoundCall, text: str) -> str:
        """Return a text with the references of the call in the place of what it quotes of their values."""
        for entry in self.references.get(bound.call.id, ()):
            if entry.label.is_untrusted or entry.label.readers is not None:
                parts = (part for _, part in iterate_leaves(entry.value) if isinstance(part, str))
                for value in {render_text(entry.value), *parts}:
                    text = replace_quotes(text, value, f"[{entry.written}]")
        return text

    def _is_original(self, bound: BoundCall, label: Label) -> bool:
        """Return whether a tool returned what others wrote, and was given nothing that may come from others.

        An agent puts texts together.  So does a tool that joins or repeats its arguments.
        """
        tool = bound.tool
        if tool is None or label.sources != (tool.name,) or label.kept:
            return False
        if bound.origin.inputs.is_untrusted or runs_agent(tool):
            return False
        return not any(
            (isinstance(value, str) and (is_reference(value) or _INSIDE.search(value)))
            or self.origins.may_repeat_exactly(value)
            for _, value in iterate_values(bound.call.arguments, {})
        )
