"""Tool calls for models without function calling: tools, calls and results are written as text.

Only the requests are rewritten: the history holds calls and results in their usual form, so that any other model can
continue the conversation.  Calls that a model wrote as text unasked are run as tool calls too; small models often
write them so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.context import RunContext
from ..core.flow import Emit, Flow, Policy, WarningEvent, around, ask
from ..core.messages import Message, ToolCall, assistant, calls_of, system, text_of, tool_names
from ..engine.model import AskModel, Reply, Request
from ..tools.registry import ToolRegistry
from ..tools.text_calls import TextCalls, find_text_calls, read_calls, strip_thoughts

_INCOMPLETE = ("length", "content_filter")


@dataclass(frozen=True, slots=True)
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

    def handle(effect: AskModel) -> Flow[Any]:
        reply = yield from ask(effect)
        if (found := _find_calls(reply, effect.request, context)) is None:
            return reply
        calls = [ToolCall("", call.name, call.arguments) for call in found.calls]  # the loop numbers them
        yield from ask(Emit(TextCallFound(tuple(calls))))
        return replace(reply, message={**reply.message, **assistant(found.lead or None, calls)})

    return around(handle, AskModel)


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


def _rewrite_request(request: Request) -> Request:
    messages = list(_write_as_text(request.messages))
    protocol = PROTOCOL + "\n".join(_describe_tools(request.tools))
    if request.tool_choice in request.tools:
        protocol += f"\n\nThe next reply must be a call of {request.tool_choice}."
    if messages and messages[0]["role"] == "system":
        messages[0] = system(f"{text_of(messages[0])}\n\n{protocol}")
    else:
        messages.insert(0, system(protocol))
    return replace(request, messages=messages, tools=ToolRegistry(), tool_choice="auto")


def _describe_tools(tools: ToolRegistry) -> Iterator[str]:
    for tool in tools.values():
        schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
        yield f"\n{tool.name}: {tool.description}\n{schema}"


def _write_as_text(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages with calls and results as text; the results of a turn are one user message."""
    results: list[Message] = []
    names = tool_names(messages)
    for message in messages:
        if message["role"] == "tool":
            results += _write_result(message, names.get(message["tool_call_id"], ""))
            continue
        if results:
            yield _join_parts(results)
            results = []
        yield _write_calls(message) if message.get("tool_calls") else message
    if results:
        yield _join_parts(results)


def _write_calls(message: Message) -> Message:
    blocks = [
        f'<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}\n</tool_call>'
        for call in calls_of(message)
    ]
    return assistant("\n".join(filter(None, [text_of(message), *blocks])))


def _write_result(message: Message, name: str) -> list[Message]:
    """Return a tool message as parts of a user message; the result cannot end its own block."""
    text = text_of(message).replace("</tool_result", "<\\/tool_result")
    parts = message["content"] if isinstance(message["content"], list) else []
    images = [part for part in parts if part["type"] != "text"]
    block = f'<tool_result tool="{name}">\n{text}\n</tool_result>'
    return [{"type": "text", "text": block}, *images]


def _join_parts(parts: list[Message]) -> Message:
    """Return a user message of these parts: plain text where there are no images."""
    if all(part["type"] == "text" for part in parts):
        return {"role": "user", "content": "\n".join(part["text"] for part in parts)}
    return {"role": "user", "content": parts}


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
    return [
        ToolCall(
            "",
            name["name"] if name else "unreadable",
            arguments["text"].rstrip().removesuffix("}") if arguments else text.strip(),
        )
    ]
