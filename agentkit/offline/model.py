"""The embedded model as a backend: it plans the calls, and when they are answered it composes the final answer.

The answer is what the tools said, as readable text or in the shape that a schema asks for.
"""

import datetime
import json
import re
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from ..fences import unfenced
from ..messages import Message, ToolCall, assistant, calls_of
from ..model import Reply, Request
from .planning import Reading, plan_calls
from .text import concepts, read_query
from .tools import read_tool, resolve

FINAL = "final_answer"
LONGEST = 2000
"""How many characters of one result an answer quotes."""

_ERROR = re.compile(r"[A-Z]\w*(?:Error|Exception|Timeout|Exceeded|Refused|Denied|Interrupt|Cancelled)\b(?:: |$)")


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
        shape = tools.pop(FINAL, {}).get("parameters") or {}
        query, answered = _turn(request.messages)
        offered = [] if request.tool_choice == FINAL else list(tools.values())
        planned, lacking = plan_calls(query, offered, self._today())
        calls = [call for call in planned if call not in [(one.name, one.arguments) for one in answered]]
        if not calls:
            text = answer_text(answered, lacking, list(tools))
            answer = _arguments(shape, answered, text)
            if answer is None:
                return assistant(f"I cannot give the answer in the shape asked for. {text}")
            calls = [(FINAL, answer)]
        used = {call.id for message in request.messages for call in calls_of(message)}
        free = (name for n in count(1) if (name := f"call_{n}") not in used)
        return assistant(calls=[ToolCall(next(free), name, json.dumps(a, ensure_ascii=False)) for name, a in calls])


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that has its answer: the tool's name, the arguments, and the text that came back."""

    name: str
    arguments: Mapping[str, Any]
    content: str

    @property
    def failed(self) -> bool:
        return bool(_ERROR.match(self.content))


def _arguments(shape: Mapping[str, Any], answered: Sequence[Answered], text: str) -> dict[str, Any] | None:
    """The arguments of the answer tool: the text, the value under `answer`, or the fields that make up the answer."""
    fields = shape.get("properties") or {"text": {}}
    if list(fields) == ["text"]:
        return {"text": text}
    wanted = {"$defs": shape.get("$defs"), **fields["answer"]} if list(fields) == ["answer"] else shape
    value = answer_value(wanted, answered, text)
    return value if wanted is shape or value is None else {"answer": value}


def _turn(messages: Sequence[Message]) -> tuple[str, list[Answered]]:
    """The last query and its answered calls; a user message that names the answer tool is the loop's, not a query."""
    asked = [i for i, m in enumerate(messages) if m["role"] == "user" and FINAL not in _text(m)]
    turn = messages[asked[-1] :] if asked else []
    calls = {call.id: call for message in turn for call in calls_of(message) if call.name != FINAL}
    results = [m for m in turn if m["role"] == "tool" and m["tool_call_id"] in calls]
    answers = [(calls[m["tool_call_id"]], unfenced(_text(m))) for m in results]
    found = [Answered(call.name, _parsed(call.arguments), text) for call, text in answers]
    return (_text(turn[0]) if turn else ""), [one for one in found if isinstance(one.arguments, dict)]


def _text(message: Message) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


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


def answer_value(schema: Mapping[str, Any], answered: Sequence[Answered], text: str) -> Any:
    """A value in the shape of `schema`, taken from the results; None where they do not hold it."""
    definitions = schema.get("$defs") or {}
    shape = resolve(schema, definitions)
    good = [one for one in answered if not one.failed]
    if shape["type"] == "string" and not shape.get("enum"):
        return text if good or not answered else None
    data = [_parsed(one.content) for one in good]
    if good and shape["type"] == "object":
        said: dict[str, Any] = {"": "\n".join(one.content for one in good)}
        for one, value in zip(good, data, strict=True):
            said |= {**one.arguments, **(value if isinstance(value, dict) else {})}
        data = [said]
    return _shaped(shape, data[0] if len(data) == 1 else data, definitions) if good else None


def _shaped(schema: Mapping[str, Any], data: Any, definitions: Mapping[str, Any]) -> Any:
    """`data` as a value of `schema`, or None; an object's properties go by name, or are read from the text in ""."""
    shape = resolve(schema, definitions)
    kind, text = shape["type"], data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    if kind == "array":
        items = [
            _shaped(shape.get("items") or {}, d, definitions) for d in (data if isinstance(data, list) else [data])
        ]
        return None if None in items else items
    if kind == "object" and shape.get("properties"):
        members = {concepts(name): value for name, value in (data if isinstance(data, dict) else {}).items()}
        tool = {"name": "answer", "parameters": {**shape, "required": [], "$defs": definitions}}
        query = read_query(str(members.get((), text)), datetime.date.today())
        read = (Reading.of(read_tool(tool), query).calls(0, LONGEST)[0] or [{}])[0]
        given = {name: members.get(concepts(name), read.get(name)) for name in shape["properties"]}
        found = {n: _shaped(shape["properties"][n], v, definitions) for n, v in given.items() if v is not None}
        return found if found and None not in map(found.get, [*found, *shape.get("required", ())]) else None
    if options := shape.get("enum"):
        return next((option for option in options if str(option).lower() in text.lower()), None)
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.strip().lower())
    if kind in ("integer", "number"):
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text.replace(",", ""))]
        whole = all(number.is_integer() for number in numbers)
        return (
            None if len(numbers) != 1 or (kind == "integer" and not whole) else int(numbers[0]) if whole else numbers[0]
        )
    if isinstance(data, dict):
        return {name: value for name, value in data.items() if name}
    return text if kind == "string" else data
