"""The embedded model as a backend: it plans the calls, and when they are answered it composes the final answer.

The answer is what the tools said: as readable text, or in the shape that a schema asks for.
"""

import datetime
import json
import re
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..answer import FINAL_ANSWER, WRAPPING
from ..fences import unfenced
from ..messages import Message, ToolCall, assistant, calls_of
from ..model import Reply, Request
from ..written.call import value_in
from .fit import schema_at
from .planning import TOLD, plan_calls, read_field
from .text import concepts

Path: TypeAlias = tuple[str | int, ...]

LONGEST = 2000  # characters of one result that an answer quotes
_ERROR = re.compile(r"[A-Z]\w*(?:Error|Exception|Timeout|Exceeded|Refused|Denied|Interrupt|Cancelled)\b(?:: |$)")
_JSON_TYPES = {"integer": int, "number": int | float, "boolean": bool, "string": str}


class OfflineModel:
    """A deterministic planner in place of a language model: no weights, no key, no network, no randomness.

    It matches the words of the last query with the tools' names, descriptions and parameters, fills the arguments with
    values that the query really mentions, and answers with what the tools returned.  It does not understand language,
    knows nothing of the world and cannot chat.  `today` tells the date that "tomorrow" is counted from.
    """

    name = "offline"

    def __init__(self, *, today: Callable[[], datetime.date] = datetime.date.today) -> None:
        self._today = today

    def worst_case(self, _: Request) -> float:
        """What a request can cost: nothing."""
        return 0.0

    def ask(self, request: Request) -> Generator[Reply, None, None]:
        """Answer `request`; yields nothing but the reply."""
        yield Reply(self._message(request), finish_reason="stop", model=self.name)

    async def aask(self, request: Request) -> AsyncGenerator[Reply, None]:
        """Answer `request`; it takes no time, so nothing is awaited."""
        for reply in self.ask(request):
            yield reply

    def _message(self, request: Request) -> Message:
        tools = {tool["function"]["name"]: tool["function"] for tool in request.tools.schemas("openai")}
        shape = tools.pop(FINAL_ANSWER, {}).get("parameters") or {"properties": {"text": {"type": "string"}}}
        query, answered = _turn(request.messages)
        asked = "" if request.tool_choice == FINAL_ANSWER else query
        planned, lacking = plan_calls(asked, list(tools.values()), self._today())
        calls = [call for call in planned if call not in [(one.name, one.arguments) for one in answered]]
        if not calls:
            text, path = answer_text(answered, lacking, list(tools)), tuple(shape.get("properties", ()))
            path = path if path in (("text",), (WRAPPING,)) else ()  # else the fields make up the answer
            answer = answer_value(shape, answered, text, path)
            if answer is None:
                return assistant(f"I cannot give the answer in the shape asked for. {text}")
            calls = [(FINAL_ANSWER, {path[0]: answer} if path else answer)]
        used = {call.id for message in request.messages for call in calls_of(message)}
        free = (f"call_{n}" for n in range(1, len(used) + len(calls) + 1) if f"call_{n}" not in used)
        return assistant(calls=[ToolCall(next(free), name, json.dumps(a, ensure_ascii=False)) for name, a in calls])


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that has its answer: the tool's name, the arguments, and the text that came back."""

    name: str
    arguments: Mapping[str, Any]
    content: str

    @property
    def failed(self) -> bool:
        """Whether the text tells of an error."""
        return bool(_ERROR.match(self.content))


def _turn(messages: Sequence[Message]) -> tuple[str, list[Answered]]:
    """The last query and its answered calls; a user message that names the answer tool is the loop's, not a query."""
    asked = [i for i, m in enumerate(messages) if m["role"] == "user" and FINAL_ANSWER not in _text(m)]
    turn = messages[asked[-1] :] if asked else []
    said = {m["tool_call_id"]: unfenced(_text(m)) for m in turn if m["role"] == "tool"}
    calls = [call for m in turn for call in calls_of(m) if call.name != FINAL_ANSWER and call.id in said]
    answered = [Answered(call.name, value_in(call.arguments), said[call.id]) for call in calls]
    return (_text(turn[0]) if turn else ""), [one for one in answered if isinstance(one.arguments, dict)]


def _text(message: Message) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def answer_text(answered: Sequence[Answered], lacking: Mapping[str, Sequence[str]], names: Sequence[str]) -> str:
    """The answer in words: the results, one line each when there are several; without any, why no tool was called."""
    lines = []
    for one in answered:
        content = one.content if len(one.content) <= LONGEST else one.content[:LONGEST].rsplit(" ", 1)[0] + " ..."
        about = ", ".join(map(str, one.arguments.values()))
        if one.failed:
            content = f"{one.name} could not answer{about and f' for {about}'}: {content}"
        lines.append(content if one.failed or len(answered) == 1 else f"{one.name}{about and f' ({about})'}: {content}")
    lines += [f"I could not call {name}: the query does not say {', '.join(told)}." for name, told in lacking.items()]
    known = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return "\n".join(lines) or f"I found no tool that fits this query. The tools I have: {known or 'none'}."


def answer_value(schema: Mapping[str, Any], answered: Sequence[Answered], text: str, path: Path = ()) -> Any:
    """A value in the shape of the schema at `path`, taken from the results; None where they do not hold it."""
    good, shape = [one for one in answered if not one.failed], schema_at(schema, path)
    if shape["type"] == "string" and not shape.get("enum"):
        return text
    data = [value_in(one.content, one.content) for one in good]
    if shape["type"] == "object":
        parts = [part for one, value in zip(good, data, strict=True) for part in (one.arguments, value)]
        data = [dict(pair for part in parts if isinstance(part, dict) for pair in part.items())]
    said = "\n".join(one.content for one in good)
    return _shaped(schema, path, data[0] if len(data) == 1 else data, said) if good else None


def _shaped(root: Mapping[str, Any], path: Path, data: Any, said: str) -> Any:
    """`data` as a value of the schema at `path`, or None; what an object lacks is read from what was `said`."""
    shape, name = schema_at(root, path), str(path[-1] if path else WRAPPING)
    kind, options, fields = shape["type"], shape.get("enum"), shape.get("properties")
    if data is None:
        return read_field(name, shape, said, TOLD)
    if kind == "array":
        items = [_shaped(root, (*path, 0), one, said) for one in (data if isinstance(data, list) else [data])]
        return None if None in items else items
    if kind == "object" and fields and isinstance(data, dict):
        given = {concepts(key): value for key, value in data.items()}
        found = {key: _shaped(root, (*path, key), given.get(concepts(key)), said) for key in fields}
        held = {key: value for key, value in found.items() if value is not None}
        return held if held and held.keys() >= {*shape.get("required", ())} else None
    if data in options if options else isinstance(data, _JSON_TYPES.get(kind, object)):
        return data
    text = data if isinstance(data, str) else re.sub(r'[][{}"]', " ", json.dumps(data, ensure_ascii=False))
    return text if kind == "string" and not options else read_field(name, shape, text)
