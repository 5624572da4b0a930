"""A stored conversation or run as lines, the same wherever it is printed: the lines of the run that it comes from."""

import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

from ..core.messages import ToolCall, Usage, calls_of, remove_delimiters, text_of
from ..core.parts import describe_part, parts_of
from ..tools.execution.call import ANSWER_RESULT
from ..tools.final_answer import FINAL_ANSWER
from ..tools.results.result_text import render_text
from .lines import Line, format_call, format_usage
from .log import make_printer

Data = Mapping[str, Any]

ROLES = {"user": "query", "assistant": "model", "tool": "result"}
"""The roles of lines, by the roles of messages; "system" is the same."""


def render_messages(messages: Iterable[Any], trace: Data | None = None) -> Iterator[Line]:
    """Yield the lines of a conversation.

    The trace, as plain data, tells failed calls and repairs.  Without it, each result counts as good.
    """
    spans = {span["call"]: span for span in (trace or {}).get("spans", ()) if span.get("call")}
    answers: set[str] = set()
    for message in messages:
        text = remove_delimiters(text_of(message))
        identity = message.get("tool_call_id")
        if message["role"] == "user":
            text = " ".join(filter(None, [text, *map(describe_part, parts_of(message))]))
        if message["role"] == "tool":
            shown = f"{message.get('name') or 'a tool'}: {text}"
            error = spans.get(identity, {}).get("error", "")
            if message.get("refused"):
                yield Line("WARNING", "refused", shown)
            elif error:
                yield Line("WARNING", "error", shown)
            elif identity not in answers or text != ANSWER_RESULT:
                yield Line("INFO", "result", shown)
        elif text:
            yield Line("INFO", ROLES.get(message["role"], "system"), text)
        for step in message.get("provider_calls") or ():
            found = f", {len(step['sources'])} sources" if step.get("sources") else ""
            yield Line("INFO", "call", f"{step['name']} {step['arguments']}, run by the provider{found}")
        for call in calls_of(message):
            if call.name == FINAL_ANSWER:
                answers.add(call.id)
            yield _call_line(call)
            for repair in spans.get(call.id, {}).get("repairs", ()):
                yield Line("WARNING", "warning", f"{call.name}: {repair}")


def render_result_data(data: Data) -> Iterator[Line]:
    """Yield the lines of the plain data of a result or a saved session, with its error and its usage."""
    yield from render_messages(data["messages"], data.get("trace"))
    if data.get("error"):
        is_paused = data.get("stopped") == "paused"
        text = str(data["error"])
        yield Line("WARNING", "waiting" if is_paused else "error", text.removeprefix("Paused: ") if is_paused else text)
    usage = format_usage(Usage(**data["usage"]), data.get("seconds"))
    yield Line("INFO", "total", f"{usage}, stopped: {data['stopped']}" if data.get("stopped") else usage)


def print_lines(lines: Iterable[Line], file: TextIO | None = None) -> None:
    """Print whole lines to `file` (default: standard output)."""
    out = make_printer(file or sys.stdout, longest=None)
    for line in lines:
        out.write(line)


def format_result(data: Data) -> str:
    """Return the lines of `render_result_data` as one text, with secrets masked."""
    text = io.StringIO()
    print_lines(render_result_data(data), text)
    return text.getvalue().rstrip("\n")


def read_answer(arguments: str) -> Any:
    """Return the one argument of a call of `final_answer`; raise `ValueError` if there is not exactly one."""
    try:
        (value,) = json.loads(arguments).values()
    except (ValueError, RecursionError, AttributeError) as error:
        raise ValueError("not one argument") from error
    return value


def _call_line(call: ToolCall) -> Line:
    if call.name == FINAL_ANSWER:
        try:
            return Line("INFO", "answer", render_text(read_answer(call.arguments)))
        except ValueError:
            pass
    return Line("INFO", "call", format_call(call))
