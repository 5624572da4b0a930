"""Tool calls for models without function calling: tools, calls and results are written as text.

Only the requests are rewritten: the history holds calls and results in their usual form, so that any other model can
continue the conversation.  Calls that a model wrote as text unasked are run as tool calls too; small models often
write them so.

In text mode the model writes blocks of its own accord.  In schema mode its whole reply is one JSON object under one
JSON Schema over all tools, which the engine enforces if it can: llama.cpp, vLLM, LM Studio and others take it as
`response_format`, Ollama as `format`, OpenAI as structured outputs.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from ..core.context import RunContext
from ..core.errors import DefinitionError, ModelError
from ..core.flow import Emit, Flow, Hooks, Policy, WarningEvent, around, ask, emit_first, interpret
from ..core.messages import Message, ToolCall, assistant, calls_of, system, text_of, tool_names
from ..core.parts import parts_of
from ..core.portable import parse_json
from ..core.values import frozen
from ..engine.loop import REMINDER
from ..engine.model import AskModel, Delta, Model, Reply, Request, TextDelta, ToolCallDelta
from ..tools.registry import ToolRegistry
from ..tools.text_calls import TextCalls, find_text_calls, read_calls, strip_thoughts, write_call
from .retries import OWN_PROMPTS

_INCOMPLETE = ("length", "content_filter")


@frozen
class TextCallFound(WarningEvent):
    """A reply contained its calls as text; they are run, and stored in the history, as tool calls."""

    calls: tuple[ToolCall, ...]

    @property
    def notice(self) -> str:
        return f"written as text, run as a call: {', '.join(call.name for call in self.calls)}"


def run_text_calls(context: RunContext[Any] | None = None) -> Policy:
    """Run a reply as tool calls when it makes no call but consists, as a whole, of written ones.

    Each must name a known tool and have valid arguments.  A text that mentions or quotes a call is left alone, and so
    is a call that a tool's result contains: that is data.

    Args:
        context: What tools get injected.
    """

    def check(effect: AskModel, reply: Reply) -> Reply | Flow[Reply]:
        if (found := _find_calls(reply, effect.request, context)) is None:
            return reply
        calls = [ToolCall("", call.name, call.arguments) for call in found.calls]  # the loop numbers them
        message = {**reply.message, **assistant(found.lead or None, calls)}
        return emit_first(TextCallFound(tuple(calls)), replace(reply, message=message))

    return around(Hooks(after=check), AskModel)


def _find_calls(reply: Reply, request: Request, context: RunContext[Any] | None) -> TextCalls | None:
    message = reply.message
    if message.get("tool_calls") or reply.finish_reason in _INCOMPLETE or not (text := text_of(message)):
        return None
    found = find_text_calls(text, request.tools)
    if found is None or any(is_quoted(call.source, request.messages) for call in found.calls):
        return None
    bound = (request.tools.bind(ToolCall("", call.name, call.arguments), context) for call in found.calls)
    return found if all(one.problem is None for one in bound) else None


def is_quoted(source: str, messages: Sequence[Message]) -> bool:
    """Return whether a tool's result contains a call as it is written."""
    wanted = _strip_layout(source)
    return any(wanted in _strip_layout(text_of(message)) for message in messages if message["role"] == "tool")


def _strip_layout(text: str) -> str:
    """Return the text without the characters that quoting in JSON, or another layout, would change."""
    return "".join(text.split()).replace("\\", "").replace('"', "").replace("'", "")


PROTOCOL = """\
You have tools. To call one, write a block like this, with the tool's name and its arguments as one JSON object:

<tool_call>
{"name": "TOOL", "arguments": {...}}
</tool_call>

Write several blocks, one after the other, to make several calls at once, and nothing after the last one: the results \
come in the next message, in <tool_result> blocks. Never write a <tool_result> yourself. The end of the task is a call \
too: final_answer.

The tools, each with the JSON Schema of its arguments:
"""
_BLOCK = re.compile(r"<tool_call>(?P<inside>.*?)(?:</tool_call>|\Z)", re.DOTALL)
_NAME = re.compile(r"[\"']?name[\"']?\s*:\s*[\"'](?P<name>[^\"'\n]+)[\"']")
_ARGUMENTS = re.compile(r"[\"']?(?:arguments|parameters)[\"']?\s*:\s*(?P<text>.*)", re.DOTALL)


def _write_blocks(calls: Sequence[ToolCall]) -> str:
    return "\n".join(f"<tool_call>\n{write_call(call.name, call.arguments)}\n</tool_call>" for call in calls)


def use_text_mode() -> Policy:
    """Let a model without function calling call tools by writing `<tool_call>` blocks.

    `run_text_calls`, which sees the reply next, reads calls in other forms.
    """

    def handle(effect: AskModel) -> Flow[Any]:
        request = effect.request
        reply: Reply = yield from ask(replace(effect, request=_rewrite_request(request)))
        if reply.finish_reason == "length" or reply.message.get("tool_calls"):
            return reply
        return replace(reply, message=_read_calls(reply.message, request))

    return around(handle, AskModel)


def _rewrite_request(
    request: Request, protocol: str = PROTOCOL, write: Callable[[Sequence[ToolCall]], str] = _write_blocks
) -> Request:
    """Return the request without tools: `protocol` and the tools in the instruction, calls as `write` writes them."""
    _refuse_provider_tools(request)
    messages = list(_write_as_text(request.messages, write))
    protocol += "\n".join(_describe_tools(request.tools))
    if request.tool_choice in request.tools:
        protocol += f"\n\nThe next reply must be a call of {request.tool_choice}."
    if messages and messages[0]["role"] == "system":
        messages[0] = system(f"{text_of(messages[0])}\n\n{protocol}")
    else:
        messages.insert(0, system(protocol))
    return replace(request, messages=messages, tools=ToolRegistry(), tool_choice="auto")


def _refuse_provider_tools(request: Request) -> None:
    if tools := request.tools.provider_tools:
        raise DefinitionError(
            f"{tools[0].name}: a provider runs tools for models with tool calling alone, and this run writes calls as "
            'text or under a schema. Leave the tool out, or set tool_mode="auto" with a model that has tool calling.'
        )


def _describe_tools(tools: ToolRegistry) -> Iterator[str]:
    for tool in tools.values():
        schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
        yield f"\n{tool.name}: {tool.description}\n{schema}"


def _write_as_text(messages: Sequence[Message], write: Callable[[Sequence[ToolCall]], str]) -> Iterator[Message]:
    """Yield the messages with calls and results as text; the results of a turn are one user message."""
    names = tool_names(messages)
    for is_result, group in groupby(messages, lambda message: message["role"] == "tool"):
        if is_result:
            yield _join_parts([part for message in group for part in _write_result(message, names)])
            continue
        for message in group:
            calls = calls_of(message)
            yield assistant("\n".join(filter(None, [text_of(message), write(calls)]))) if calls else message


def _write_result(message: Message, names: Mapping[str, str]) -> list[Message]:
    """Return a tool message as parts of a user message; the result cannot end its own block."""
    name = names.get(message["tool_call_id"], "")
    text = text_of(message).replace("</tool_result", "<\\/tool_result")
    block = f'<tool_result tool="{name}">\n{text}\n</tool_result>'
    return [{"type": "text", "text": block}, *parts_of(message)]


def _join_parts(parts: list[Message]) -> Message:
    """Return a user message of these parts: plain text where there are no images."""
    if all(part["type"] == "text" for part in parts):
        return {"role": "user", "content": "\n".join(part["text"] for part in parts)}
    return {"role": "user", "content": parts, "is_result": True}


def _read_calls(message: Message, request: Request) -> Message:
    """Return the reply with the calls of its text; text after the first block is dropped, as results made up by it."""
    text = strip_thoughts(text_of(message))
    blocks = [block for block in _BLOCK.finditer(text) if not is_quoted(block["inside"], request.messages)]
    calls = [call for block in blocks for call in _read_block(block["inside"], request.tools)]
    return {**message, **assistant(text[: blocks[0].start()].strip() or None, calls)} if calls else message


def _read_block(text: str, tools: ToolRegistry) -> list[ToolCall]:
    """Return the calls of one block; an unreadable one becomes a call too, whose error the model reads."""
    if found := read_calls(text, tools):
        return [ToolCall("", call.name, call.arguments) for call in found]
    name = _NAME.search(text)
    arguments = _ARGUMENTS.search(text)
    written = arguments["text"].rstrip().removesuffix("}") if arguments else text.strip()
    return [ToolCall("", name["name"] if name else "unreadable", written)]


SCHEMA_PROTOCOL = """\
You have tools. Each of your replies is one JSON object with your calls, and nothing else:

{"calls": [{"name": "TOOL", "arguments": {...}}]}

Make several calls at once where they do not depend on each other: the results come in the next message, in \
<tool_result> blocks. The end of the task is a call too, which stands alone: final_answer.

The tools, each with the JSON Schema of its arguments:
"""


def use_schema_mode() -> Policy:
    """Let a model call tools by replies under one JSON Schema over all tools (`Request.reply_schema`)."""
    return lambda flow: interpret(flow, _SchemaMode(always=True).hooks(), AskModel)


def choose_tool_mode() -> Policy:
    """Use schema mode for models without tool calling, and native calls for all others.

    A model's attribute `tool_calling` decides: "none", or "unknown" for a model on an address of the user.  A server
    that refuses tools for a model, and an unknown model whose first reply makes no call, gets schema mode from then on.
    """
    return lambda flow: interpret(flow, _SchemaMode().hooks(), AskModel)


@frozen
class SchemaModeUsed(WarningEvent):
    """The rest of a run uses schema mode; `reason` tells why native tool calls are not used."""

    model: str
    reason: str

    @property
    def notice(self) -> str:
        return f'{self.model}: {self.reason}; its replies are read as calls under one JSON Schema (tool_mode="schema")'


_REFUSES_TOOLS = re.compile(
    r"does(?:n't| not) support (?:tools?|functions?|tool[ _-]?(?:use|calling|choice)|function[ _-]?calling)\b"
    r"|tools? (?:param(?:eter)? )?requires? --jinja|requires? --enable-auto-tool-choice"
    r"|(?:tools?|functions?|tool[ _-]?(?:use|calling)|function[ _-]?calling) (?:is|are) not supported",
    re.IGNORECASE,
)
"""Sources: Ollama ("... does not support tools"), llama.cpp's server without `--jinja`, vLLM without a tool parser."""
_REFUSES_RESULTS = re.compile(r"roles must alternate", re.IGNORECASE)
"""What a chat template without tools says of the result of a call; source: that of google/gemma-2-9b-it."""
_REFUSES_SCHEMA = re.compile(r"response[_ ]?(?:format|schema)|json[_ ]?schema|structured|grammar", re.IGNORECASE)


@dataclass(eq=False)
class _SchemaMode:
    """The state of one run: which models, by name, get schema mode, and which of them refused a schema."""

    always: bool = False
    _chosen: set[str] = field(default_factory=set)
    _without_schema: set[str] = field(default_factory=set)

    def hooks(self) -> Hooks:
        return Hooks(before=self._begin, failed=self._find_refusal)

    def _begin(self, effect: AskModel) -> AskModel | Flow[Reply]:
        if not effect.request.tools:
            return effect
        if self.always or effect.model.name in self._chosen:
            return self._ask(effect)
        support = getattr(effect.model, "tool_calling", "native")
        if support == "none":
            return self._choose(effect, "it is known to have no tool calling")
        if support == "unknown" and _began_with_text(effect.request.messages):
            return self._choose(effect, "its first reply made no tool call")
        return effect

    def _find_refusal(self, effect: AskModel, error: Exception) -> Flow[Reply] | None:
        if not effect.request.tools or not isinstance(error, ModelError):
            return None
        if _REFUSES_TOOLS.search(str(error)):
            return self._choose(effect, "the server accepts no tools for it")
        has_results = any(message["role"] == "tool" for message in effect.request.messages)
        if has_results and _REFUSES_RESULTS.search(str(error)):
            return self._choose(effect, "its chat template has no results of tools")
        return None

    def _choose(self, effect: AskModel, reason: str) -> Flow[Reply]:
        name = effect.model.name
        self._chosen.add(name)
        yield from ask(Emit(SchemaModeUsed(name, reason)))
        return (yield from self._ask(effect))

    def _ask(self, effect: AskModel) -> Flow[Reply]:
        """Ask under the schema; a server that refuses the schema gets the request without it, then and later."""
        name = effect.model.name
        if name not in self._without_schema:
            try:
                return (yield from ask(replace(effect, model=SchemaCallModel(effect.model))))
            except ModelError as error:
                if error.kind != "bad_request" or not _REFUSES_SCHEMA.search(str(error)):
                    raise
            self._without_schema.add(name)
        return (yield from ask(replace(effect, model=SchemaCallModel(effect.model, enforced=False))))


def _began_with_text(messages: Sequence[Message]) -> bool:
    """Return whether the conversation's first reply was a text, which was answered by the reminder."""
    first = next((place for place, message in enumerate(messages) if message["role"] == "assistant"), None)
    if first is None or first + 1 == len(messages) or messages[first].get("tool_calls"):
        return False
    return text_of(messages[first + 1]) == REMINDER


class SchemaCallModel:
    """A model that makes tool calls in the texts of another one, under one JSON Schema over the tools of a request.

    A model with a method `lead` has a form of its own for its requests: `lead(request)` returns the request in that
    form, or None where the usual one suits.

    Args:
        model: The model that writes the texts.
        enforced: Whether the schema is sent with the request; the instruction describes it in any case.
    """

    takes_provider_tools = True
    """It refuses them itself, with the reason."""

    def __init__(self, model: Model, *, enforced: bool = True) -> None:
        self._model = model
        self._enforced = enforced
        self._lead: Callable[[Request], Request | None] | None = getattr(model, "lead", None) if enforced else None
        self.keeps_time = getattr(model, "keeps_time", False)
        if (worst_case := getattr(model, "worst_case", None)) is not None:
            self.worst_case = lambda request: worst_case(self._rewrite(request))

    @property
    def name(self) -> str:
        """The name of the model that writes the texts."""
        return self._model.name

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Yield the deltas of the calls, if requested, then the reply."""
        reader = _CallReader(request.tools)
        with closing(self._model.ask(self._rewrite(request))) as pieces:
            for piece in pieces:
                yield from reader.read(piece)

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Yield what `ask` yields, on the running event loop."""
        reader = _CallReader(request.tools)
        async with aclosing(self._model.aask(self._rewrite(request))) as pieces:
            async for piece in pieces:
                for read in reader.read(piece):
                    yield read

    def _rewrite(self, request: Request) -> Request:
        if self._lead is not None:
            _refuse_provider_tools(request)
            messages = [one for one in request.messages if one["role"] != "user" or text_of(one) not in OWN_PROMPTS]
            if (led := self._lead(replace(request, messages=messages))) is not None:
                return led
        rewritten = _rewrite_request(request, SCHEMA_PROTOCOL, _write_object)
        schema = request.tools.call_schema(request.tool_choice) if self._enforced else None
        return replace(rewritten, reply_schema=schema)


def _write_object(calls: Sequence[ToolCall]) -> str:
    return f'{{"calls": [{", ".join(write_call(call.name, call.arguments) for call in calls)}]}}'


_CALL_START = re.compile(r'"name"\s*:\s*"(?P<name>[^"\\]{1,200})"\s*,\s*"arguments"\s*:\s*(?=\{)')
_STRUCTURE = re.compile(r'["{}]')
_STRING_END = re.compile(r'(?:[^"\\]|\\.)*+(?P<end>"?)', re.DOTALL)
MAX_CALL_START_CHARS = 2_000
"""Characters between two calls; with more, the rest of the reply is not streamed."""


class _CallReader:
    """From the text of one reply to calls: its deltas become deltas of calls, its message has the calls."""

    def __init__(self, tools: ToolRegistry) -> None:
        self._tools = tools
        self._index = 0
        self._name = ""
        self._raw = ""
        self._depth = 0
        self._in_string = False

    def read(self, piece: Delta | Reply) -> Iterator[Delta | Reply]:
        if isinstance(piece, TextDelta):
            yield from self._read_text(piece.text)
        elif isinstance(piece, ToolCallDelta):
            yield from self._read_text(piece.arguments)
        elif isinstance(piece, Reply):
            yield replace(piece, message=read_call_object(piece, self._tools))
        else:
            yield piece

    def _read_text(self, text: str) -> Iterator[ToolCallDelta]:
        self._raw += text
        while self._raw:
            if not self._name:
                if (start := _CALL_START.search(self._raw)) is None:
                    self._raw = self._raw[-MAX_CALL_START_CHARS:]
                    return
                self._name = start["name"]
                self._raw = self._raw[start.end() :]
            if (end := self._find_end()) == 0:  # half of an escape: the rest comes with the next piece
                return
            yield ToolCallDelta(self._index, self._name, self._raw[:end])
            self._raw = self._raw[end:]
            if self._depth == 0:
                self._name = ""
                self._index += 1

    def _find_end(self) -> int:
        """Return where the arguments end in the text, or the place up to which the text can be passed on."""
        at = 0
        while at < len(self._raw):
            if self._in_string:
                found = _STRING_END.match(self._raw, at)
                assert found is not None  # it matches everywhere
                self._in_string = not found["end"]
                at = found.end()
                if self._in_string:
                    return at
            if (mark := _STRUCTURE.search(self._raw, at)) is None:
                return len(self._raw)
            at = mark.end()
            self._in_string = mark[0] == '"'
            self._depth += {"{": 1, "}": -1}.get(mark[0], 0)
            if self._depth == 0:
                return at
        return at


def read_call_object(reply: Reply, tools: ToolRegistry) -> Message:
    """Return the message of a reply in schema mode, with its calls; one without readable calls is left as it is.

    A reply that the token limit truncated has one call, with the raw text as its arguments, so that it is not
    continued like a text.  Where a provider has no such replies, litellm makes it call one tool with that schema.
    """
    message = reply.message
    forced = [call.arguments for call in calls_of(message) if call.name not in tools]
    text = strip_thoughts(text_of(message) or "".join(forced[:1]))
    if not text or (message.get("tool_calls") and not forced):
        return message
    if reply.finish_reason == "length":
        return {**message, **assistant(None, [ToolCall("", next(iter(tools)), text)])}
    value = parse_json(text)
    entries = value.get("calls", [value]) if isinstance(value, dict) else value
    if not isinstance(entries, list) or not entries or not all(map(_is_call, entries)):
        return message
    calls = [ToolCall("", entry["name"], json.dumps(entry["arguments"], ensure_ascii=False)) for entry in entries]
    return {**message, **assistant(None, calls)}


def _is_call(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("name"), str) and isinstance(entry.get("arguments"), dict)
