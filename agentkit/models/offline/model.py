"""The embedded model as a backend: it plans the tool calls, then composes the final answer from their results.

The answer consists of the results: as readable text, or as valid arguments of an answer tool with a type.
"""

import datetime
import json
import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

from ...core.errors import ModelError
from ...core.messages import Message, ToolCall, assistant, calls_of, remove_delimiters, text_of
from ...core.parts import describe_part, parts_of
from ...engine.history.tool_calls import normalize_reply
from ...engine.model import Delta, Reply, Request, split_deltas
from ...schemas.walk import JsonSchema
from ...tools.arguments.binding import bind_arguments
from ...tools.arguments.validation_errors import find_schemas, list_properties
from ...tools.final_answer import ANSWER_KEY, FINAL_ANSWER, takes_text
from ...tools.json_tool import JsonTool
from ...tools.text_calls import parse_value
from .planning import CallPlan, plan_calls, read_fields
from .words import to_concepts

MAX_QUOTED_CHARS = 2000
"""Characters of one result that an answer quotes."""
_ERROR_TEXT = re.compile(r"[A-Z]\w*(?:Error|Exception|Timeout|Exceeded|Refused|Denied|Interrupt|Cancelled)\b(?:: |$)")


class OfflineModel:
    """A deterministic planner in place of a language model: no weights, key, network or randomness.

    It matches the words of the last query with the tools' names, descriptions and parameters, fills the arguments with
    values that the query contains, and answers with the tools' results. It does not understand language, has no world
    knowledge and cannot chat.

    A tool is called only if every word of its part of the query has a place in the call, and no other tool and no other
    filling suits the words as well; and only if the other parts of the query can be done, too. A tool with
    `effect="read"` is called with what fits; the answer names the rest.

    Args:
        today: Returns the date that "tomorrow" is relative to.
    """

    name = "offline"
    finds_tools = False

    def __init__(self, *, today: Callable[[], datetime.date] = datetime.date.today) -> None:
        self._today = today

    def worst_case(self, _: Request) -> float:
        """Return the cost of a request: 0."""
        return 0.0

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Answer `request`; a stream has the words of the reply before it."""
        _check_parts(request.messages)
        message = self._build_message(request)
        if request.stream:
            yield from split_deltas(message)
        yield Reply(message, finish_reason="stop", model=self.name)

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Answer `request`; nothing is awaited, because planning takes milliseconds."""
        for piece in self.ask(request):
            yield piece

    def _build_message(self, request: Request) -> Message:
        answer = request.tools.answer
        offered = request.tools.schemas("openai")
        tools = [tool for tool in offered if tool["function"]["name"] != FINAL_ANSWER]
        query, answered = _read_turn(request.messages)
        effects = {name: request.tools[name].effect for name in request.tools}
        planned = plan_calls("" if request.tool_choice == FINAL_ANSWER else query, tools, self._today(), effects)
        calls = [call for call in planned.calls if call not in [one[:2] for one in answered]]
        if not calls:
            text = compose_text(answered, planned, [tool["function"]["name"] for tool in tools])
            given = compose_arguments(answer, answered, text) if answer else {"text": text}
            if given is None:
                return assistant(f"I cannot give the answer in the shape asked for. {text}")
            calls = [(FINAL_ANSWER, given)]
        used = {call.id for message in request.messages for call in calls_of(message)}
        written = [ToolCall("", name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls]
        return normalize_reply(assistant(calls=written), used)


def _check_parts(messages: Sequence[Message]) -> None:
    """Raise `ModelError` for an image, a document or audio in a query; of a tool's result the text is read."""
    for message in messages:
        if message["role"] == "user" and (part := next(parts_of(message), None)):
            text = f"the embedded model reads text only, and a message has {describe_part(part)}"
            raise ModelError(f"offline: {text}. Name a model that takes it: model=...", kind="bad_request")


class AnsweredCall(NamedTuple):
    """A call with its result: the tool's name, the arguments, and the text of the result."""

    name: str
    arguments: dict[str, Any]
    content: str


def _read_turn(messages: Sequence[Message]) -> tuple[str, list[AnsweredCall]]:
    """Return the last query and its answered calls; user messages that name the answer tool are the loop's own."""
    asked = [i for i, m in enumerate(messages) if m["role"] == "user" and FINAL_ANSWER not in text_of(m)]
    turn = messages[asked[-1] :] if asked else []
    results = {m["tool_call_id"]: remove_delimiters(text_of(m)) for m in turn if m["role"] == "tool"}
    calls = [call for m in turn for call in calls_of(m) if call.name != FINAL_ANSWER and call.id in results]
    answered = [AnsweredCall(call.name, parse_value(call.arguments), results[call.id]) for call in calls]
    return (text_of(turn[0]) if turn else ""), [one for one in answered if isinstance(one.arguments, dict)]


def compose_text(answered: Sequence[AnsweredCall], planned: CallPlan, names: Sequence[str]) -> str:
    """Return the answer as text: the results, one line each if several, then what was not done and why."""
    lines = []
    for name, arguments, content in answered:
        about = ", ".join(map(str, arguments.values()))
        text = content if len(content) <= MAX_QUOTED_CHARS else content[:MAX_QUOTED_CHARS].rsplit(" ", 1)[0] + " ..."
        if _ERROR_TEXT.match(content):
            lines.append(f"{name} could not answer{about and f' for {about}'}: {text}")
        else:
            lines.append(f"{name}{about and f' ({about})'}: {text}" if len(answered) > 1 else text)
    for name, keys in planned.missing.items():
        lines.append(f"I could not call {name}: the query does not say {', '.join(keys)}.")
    for name, keys in planned.unsure.items():
        lines.append(
            f"I did not call {name}, which is not declared as effect='read', because I am not certain of "
            f"{', '.join(keys)}. Please name the tool, put each value in quotes, and leave the rest out."
        )
    if planned.unused and (planned.calls or (lines and not planned.unsure)):
        lines.append(f"I did not use this part of the query: {', '.join(planned.unused)}.")
    known = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return "\n".join(lines) or f"I found no tool that fits this query. The tools I have: {known or 'none'}."


def compose_arguments(answer: JsonTool[..., Any], answered: Sequence[AnsweredCall], text: str) -> dict[str, Any] | None:
    """Return the arguments of the answer tool: the text, or the first valid guess from the results; None without."""
    if takes_text(answer):
        return {"text": text}
    for given in _guess_arguments(
        answer.parameters, [one for one in answered if not _ERROR_TEXT.match(one.content)], text
    ):
        done = bind_arguments(answer.arguments, given, name=FINAL_ANSWER)
        if given and callable(done.ready):
            return dict(json.loads(done.arguments))
    return None


def _guess_arguments(schema: JsonSchema, good: Sequence[AnsweredCall], text: str) -> Iterator[dict[str, Any]]:
    """Yield guesses for an object: the results themselves, their values under its keys, the values in their text."""
    values = [parse_value(one.content, one.content) for one in good]
    parts = [part for part in (*(one.arguments for one in good), *values) if isinstance(part, dict)]
    merged = {key: value for part in parts for key, value in part.items()}
    whole = [*values, values, text] if len(values) == 1 else [values or text, text]
    held = [
        _select_keys(schema, (), {**merged, ANSWER_KEY: one}) for n, one in enumerate(whole) if one not in whole[:n]
    ]
    yield from (named for named in held if len(named) == len(schema["properties"]))
    fields = read_fields(schema, re.sub(r'[][{}"]', " ", "\n".join(one.content for one in good)))
    yield from (fields | held[0], held[0] | fields)


def _select_keys(schema: JsonSchema, path: tuple[str | int, ...], data: Any) -> Any:
    """Return `data` with only the keys that the schema has at `path`, in the schema's spelling."""
    nodes = find_schemas(schema, path)
    if isinstance(data, list) and nodes:
        return [_select_keys(schema, (*path, 0), one) for one in data]
    if not isinstance(data, dict) or not (names := list_properties(nodes)):
        return data
    given = {to_concepts(key): value for key, value in data.items() if value is not None}
    return {
        name: _select_keys(schema, (*path, name), given[to_concepts(name)])
        for name in names
        if to_concepts(name) in given
    }
