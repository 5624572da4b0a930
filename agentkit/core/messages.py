"""The conversation: plain dicts in OpenAI's chat format, which litellm takes; JSON values only, for any store.

The list of messages is the whole state of a run.  A list that ends in unanswered tool calls is a paused run: the loop
continues exactly there when it runs on the list again.
"""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .labels import TRUSTED, Label

Message: TypeAlias = dict[str, Any]
"""One message: `role` (system, user, assistant or tool), `content` and the keys of its role; JSON values only.

`label`, `provider`, `is_result` (of a user message: it holds results of tools) and `ends_turn` (of a reply: a text with
which a model that is known to call tools ended its turn) are for agentkit alone: no provider receives them.
"""


@dataclass(frozen=True, slots=True)
class ReferencedValue:
    """A value of others that a call refers to: its place in the arguments, the reference, the value and its source."""

    where: str
    reference: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model.

    Attributes:
        id: Its id.
        name: The tool's name.
        arguments: The arguments as the JSON text that the model wrote.  Where it waits for a decision, they have the
            values of its references.
        written: Where it waits: the arguments with the references themselves; "" without any.
        references: Where it waits: what others wrote in its arguments, in the place of references.
    """

    id: str
    name: str
    arguments: str = "{}"
    written: str = field(default="", compare=False)
    references: tuple[ReferencedValue, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """What requests used: counts of requests and tokens, and `cost` in dollars (None where a price is unknown).

    The input tokens include those that were read from a cache (`cached_tokens`) and written to one
    (`cache_creation_tokens`); the output tokens include `reasoning_tokens`.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = 0.0
    cache_creation_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            cost,
            self.cache_creation_tokens + other.cache_creation_tokens,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


def system(text: str) -> Message:
    """Return a system message: the agent's instruction, the first message of a conversation."""
    return {"role": "system", "content": text}


def user(content: str | list[dict[str, Any]]) -> Message:
    """Return a user message, a text or parts: from the person, or a reminder from the loop."""
    return {"role": "user", "content": content}


def assistant(content: str | None = None, calls: Iterable[ToolCall] = ()) -> Message:
    """Return an assistant message: text, tool calls, or both."""
    message: Message = {"role": "assistant", "content": content}
    if tool_calls := [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]:
        message["tool_calls"] = tool_calls
    return message


def tool_message(call: ToolCall, content: str, parts: Sequence[Message] = (), *, label: Label | None = None) -> Message:
    """Return the tool message that answers `call`; `parts` are content parts (images) behind its text.

    Without a label, the message counts as untrusted.
    """
    shown = [{"type": "text", "text": content}, *parts] if parts else content
    message: Message = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": shown}
    if label is not None:
        message["label"] = {"integrity": "trusted"} if label is TRUSTED else label.as_dict()
    return message


def calls_of(message: Message) -> list[ToolCall]:
    """Return the tool calls of an assistant message, in order; [] for any other message."""
    return [
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]


def list_call_ids(messages: Iterable[Message]) -> set[str]:
    """Return the ids of all calls in messages."""
    return {call["id"] for message in messages for call in message.get("tool_calls") or ()}


def text_of(message: Message) -> str:
    """Return the text of a message, stripped of surrounding whitespace; parts that are not text are skipped."""
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content if part.get("type") == "text")
    return str(content).strip()


def tool_names(messages: Iterable[Message]) -> dict[str, str]:
    """Return the tool name of every call in `messages`, by call id.

    The `name` of a tool message is optional in OpenAI's format and can be wrong: the call with its id decides.
    """
    return {call.id: call.name for message in messages for call in calls_of(message)}


def pending_calls(history: Sequence[Message]) -> list[ToolCall]:
    """Return the unanswered calls of the last turn of `history`, in call order."""
    answered: set[str] = set()
    for message in reversed(history):
        if message["role"] != "tool":
            return [call for call in calls_of(message) if call.id not in answered]
        answered.add(message["tool_call_id"])
    return []


def sort_results(history: list[Message]) -> None:
    """Sort the results at the end of `history` by the order of their calls; a paused turn gets them in two runs."""
    place = len(history) - 1
    while place >= 0 and history[place]["role"] == "tool":
        place -= 1
    if len(history) - place <= 2:
        return
    order = {call.id: number for number, call in enumerate(calls_of(history[place]))} if place >= 0 else {}
    history[place + 1 :] = sorted(history[place + 1 :], key=lambda message: order.get(message["tool_call_id"], 0))


def normalize_calls(history: list[Message], calls: Iterable[ToolCall]) -> None:
    """Replace the calls in the last turn of `history` by `calls`: resolved names, arguments that are JSON objects.

    Every provider accepts these in later requests, whatever the model wrote.  A message without a difference stays the
    same object; otherwise it is replaced, its other keys kept.
    """
    place = len(history) - 1
    while history[place]["role"] == "tool":
        place -= 1
    message = history[place]
    understood = {call.id: call for call in calls}
    written = [_normalize_call(call, understood.get(call["id"])) for call in message["tool_calls"]]
    if any(map(operator.is_not, written, message["tool_calls"])):
        history[place] = {**message, "tool_calls": written}


def _normalize_call(written: dict[str, Any], call: ToolCall | None) -> dict[str, Any]:
    function = written["function"]
    if call is None or (function["name"], function["arguments"]) == (call.name, call.arguments):
        return written
    return {**written, "function": {**function, "name": call.name, "arguments": call.arguments}}


MAX_SHORT_COUNT = 8


def is_short(messages: Sequence[Message], characters: int) -> bool:
    """Return whether a conversation has few messages, and fewer characters than these; one with images is not short."""
    if len(messages) > MAX_SHORT_COUNT:
        return False
    length = 0
    for message in messages:
        content = message.get("content") or ""
        length += len(content) if isinstance(content, str) else characters
        length += sum(len(call["function"]["arguments"]) for call in message.get("tool_calls") or ())
    return length < characters
