"""Calls that a model wrote as text are run as tool calls; small models often write them so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.context import RunContext
from ..core.flow import Emit, Flow, Policy, WarningEvent, around, ask
from ..core.messages import Message, ToolCall, assistant, text_of
from ..engine.model import AskModel, Reply, Request
from ..tools.text_calls.reply import TextCalls, find_text_calls

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
