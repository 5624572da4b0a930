"""The embedded model as a backend: it plans the calls, and when they are answered it composes the final answer."""

import datetime
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from ..messages import Message, ToolCall, assistant, calls_of
from ..model import Reply, Request
from .answer import Answered, answer_text, answer_value
from .planning import plan_calls

FINAL = "final_answer"


class OfflineModel:
    """A deterministic planner in place of a language model: no weights, no key, no network, no randomness.

    It matches the words of the last query with the tools' names, descriptions and parameters, fills the arguments with
    values that the query really mentions, and answers with what the tools returned.  It does not understand language,
    knows nothing of the world and cannot chat.  `today` tells the date that "tomorrow" is counted from.
    """

    def __init__(self, *, today: Callable[[], datetime.date] = datetime.date.today) -> None:
        self._today = today

    @property
    def name(self) -> str:
        """What logs and results call the model."""
        return "offline"

    def ask(self, request: Request) -> Iterator[Reply]:
        """Answer `request`; yields nothing but the reply."""
        yield Reply(self._message(request), finish_reason="stop", model=self.name)

    async def aask(self, request: Request) -> AsyncIterator[Reply]:
        """Answer `request`; it takes no time, so nothing is awaited."""
        for reply in self.ask(request):
            yield reply

    def _message(self, request: Request) -> Message:
        tools = [tool["function"] for tool in request.tools.schemas("openai")]
        offered = [tool for tool in tools if tool["name"] != FINAL]
        query, answered = _turn(request.messages)
        planned = plan_calls(query, offered if request.tool_choice != FINAL else [], self._today())
        known = [(one.name, one.arguments) for one in answered]
        used = {call.id for message in request.messages for call in calls_of(message)}
        if calls := [call for call in planned.calls if call not in known]:
            return assistant(calls=_numbered(calls, used))
        text = answer_text(answered, planned.lacking, [tool["name"] for tool in offered])
        schema: Mapping[str, Any] = next((tool["parameters"] for tool in tools if tool["name"] == FINAL), {})
        arguments = _final_arguments(schema, answered, text)
        if arguments is None:
            return assistant(f"I cannot give the answer in the shape asked for. {text}")
        return assistant(calls=_numbered([(FINAL, arguments)], used))


def _turn(messages: Sequence[Message]) -> tuple[str, list[Answered]]:
    """The last query and its answered calls; a user message that names the answer tool is the loop's, not a query."""
    asked = [i for i, m in enumerate(messages) if m["role"] == "user" and FINAL not in _text(m)]
    start = asked[-1] if asked else len(messages)
    calls = {call.id: call for message in messages[start:] for call in calls_of(message)}
    answers = [m for m in messages[start:] if m["role"] == "tool" and m["tool_call_id"] in calls]
    found = [Answered((c := calls[m["tool_call_id"]]).name, _decoded(c.arguments), _text(m)) for m in answers]
    return (_text(messages[start]) if asked else ""), [one for one in found if one.name != FINAL]


def _text(message: Message) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = " ".join(part.get("text", "") for part in content if isinstance(part, dict))
    return str(content)


def _decoded(arguments: str) -> dict[str, Any]:
    try:
        value = json.loads(arguments)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _final_arguments(schema: Mapping[str, Any], answered: Sequence[Answered], text: str) -> dict[str, Any] | None:
    properties = schema.get("properties") or {}
    if "answer" not in properties:
        return {"text": text}
    wanted = {**properties["answer"], "$defs": schema.get("$defs") or properties["answer"].get("$defs") or {}}
    value = answer_value(wanted, answered, text)
    return None if value is None else {"answer": value}


def _numbered(calls: Sequence[tuple[str, Mapping[str, Any]]], used: set[str]) -> list[ToolCall]:
    free = (f"call_{n}" for n in range(1, len(used) + len(calls) + 1) if f"call_{n}" not in used)
    return [
        ToolCall(identity, name, json.dumps(arguments, ensure_ascii=False))
        for identity, (name, arguments) in zip(free, calls, strict=False)
    ]
