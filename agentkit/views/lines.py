"""What the events of a run say to people, as lines: who speaks, and what.  Every view of a run is made of them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from ..core.ask_person import escape_unprintable
from ..core.context import Progress
from ..core.delimiters import remove_delimiters
from ..core.flow import Event
from ..core.masking import MAX_SECRET_CHARS, mask
from ..core.messages import Message, ToolCall, Usage, calls_of, text_of
from ..engine.model import ModelAsked, ModelReplied
from ..engine.result import RunFinished, RunStarted, SubRun
from ..tools.execution.call import ANSWER_RESULT
from ..tools.execution.call_tools import ToolFinished, ToolStarted
from ..tools.final_answer import FINAL_ANSWER
from ..tools.results.result_text import render_text

Level: TypeAlias = Literal["DEBUG", "INFO", "WARNING"]
LEVELS: tuple[Level, ...] = ("DEBUG", "INFO", "WARNING")
STYLES = {
    "system": "dim",
    "query": "bold",
    "model": "cyan",
    "call": "blue",
    "result": "green",
    "error": "red",
    "note": "",
    "warning": "yellow",
    "answer": "bold green",
    "total": "dim",
    "progress": "dim",
    "request": "dim",
    "reply": "dim",
}
"""Who may speak in a line, and the style of it."""
WIDTH = 1 + max(map(len, STYLES))
"""Characters of the column that says who speaks."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line for people: its level, who speaks (one of `STYLES`), and the text as it is.

    `data` is what stands behind the text as JSON; `inside` names the agents inside tools that it comes from, the
    outermost first.
    """

    level: Level
    role: str
    text: str
    data: Any = None
    inside: tuple[str, ...] = ()

    def shown(self, longest: int | None = None) -> str:
        """What may be shown of it, in one or several lines: without secrets and control characters, and cut."""
        text = self.text if self.data is None else f"{self.text} {json.dumps(self.data, ensure_ascii=False)}"
        return "".join(f"[{name}] " for name in self.inside) + presentable(text, longest)


def presentable(text: str, longest: int | None = None) -> str:
    """A text without secrets and control characters, of a long one the head; line breaks stay."""
    if longest is None or len(text) <= longest:
        shown, rest = mask(text), ""
    else:  # masked first: what is left of a secret that is cut is none
        shown = mask(text[: longest + MAX_SECRET_CHARS])[:longest]
        rest = f"... ({len(text) - longest:,} more characters)"
    rows = shown.expandtabs(4).split("\n")
    return "\n".join(row if row.isprintable() else escape_unprintable(row, len(row)) for row in rows) + rest


def lines(event: Event) -> Iterator[Line]:
    """What `event` says to people; many events say nothing."""
    inside: tuple[str, ...] = ()
    while isinstance(event, SubRun):
        inside, event = (*inside, event.name), event.event
    for line in (*_told(event), *_noted(event)):
        yield replace(line, inside=inside) if inside else line


def watched(event: Event) -> Iterator[Line]:
    """The lines for whoever gets the answer anyway: without it, with the time that the run took."""
    if isinstance(event, RunFinished):
        yield Line("INFO", "total", figures(event.result.usage, event.result.seconds))
        return
    for line in lines(event):
        if line.level != "DEBUG" and not (line.inside and line.role == "total"):
            yield line


def conversation(messages: Iterable[Message]) -> Iterator[Line]:
    """The lines of a conversation that was kept: what the run that it comes from said, but for figures and notes."""
    answers: set[str] = set()
    for message in messages:
        text = remove_delimiters(text_of(message))
        match message["role"]:
            case "tool":
                if message.get("tool_call_id") not in answers or text != ANSWER_RESULT:
                    yield Line("INFO", "result", f"{message.get('name') or 'a tool'}: {text}")
            case role if text:
                yield Line("INFO", {"user": "query", "assistant": "model"}.get(role, "system"), text)
        for call in calls_of(message):
            if call.name == FINAL_ANSWER:
                answers.add(call.id)
            yield _answer(call) if call.name == FINAL_ANSWER else Line("INFO", "call", written(call))


def _answer(call: ToolCall) -> Line:
    """The answer that a call gives: the one argument it has, else the call as it is."""
    try:
        (value,) = json.loads(call.arguments).values()
    except (ValueError, RecursionError, AttributeError):
        return Line("INFO", "call", written(call))
    return Line("INFO", "answer", render_text(value))


def _told(event: Event) -> Iterator[Line]:
    match event:
        case RunStarted(query):
            yield Line("INFO", "query", query) if query else Line("INFO", "note", "going on where it stopped")
        case ModelAsked(model, request):
            told = f"to {model}: {len(request.messages)} messages, {len(request.tools)} tools; the last message:"
            yield Line("DEBUG", "request", told, request.messages[-1] if request.messages else {})
        case ModelReplied(reply):
            told = f"from {reply.model} ({figures(reply.usage)}, {reply.finish_reason or 'no reason to stop'}):"
            yield Line("DEBUG", "reply", told, reply.message)
            if text := text_of(reply.message):
                yield Line("INFO", "model", text)
        case ToolStarted(bound) if not bound.is_answer:
            yield Line("INFO", "call", written(bound.as_written))
        case ToolFinished(result) if result.error is not None:
            yield Line("WARNING", "error", f"{result.call.name}: {remove_delimiters(result.content)}")
        case ToolFinished(result) if not result.is_answer:
            yield Line("INFO", "result", f"{result.call.name}: {remove_delimiters(result.content)}")
        case Progress(call, value):
            yield Line("INFO", "progress", f"{call.name if call else 'a tool'}: {render_text(value)}")
        case RunFinished(result):
            yield Line("INFO", "answer", result.text)
            yield Line("INFO", "total", figures(result.usage))


def _noted(event: Event) -> Iterator[Line]:
    notices = [event.notice]
    if isinstance(event, ToolStarted):
        notices = [f"{event.call.call.name}: {repair}" for repair in event.call.repairs]
    for notice in filter(None, notices):
        yield Line(event.level, "warning" if event.level == "WARNING" else "note", " ".join(notice.split()))


def written(call: ToolCall) -> str:
    """A call as one writes it: `add(a=2, b=3)`."""
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return f"{call.name}({call.arguments})"
    return f"{call.name}({', '.join(f'{key}={json.dumps(value, ensure_ascii=False)}' for key, value in given.items())})"


def figures(usage: Usage, seconds: float | None = None) -> str:
    """What was taken: requests, tokens, dollars, time, as far as there is something to tell."""
    tokens = usage.input_tokens + usage.output_tokens
    cost = "price unknown" if usage.cost is None else f"${usage.cost:.4f}" if usage.cost else ""
    told = [
        f"{usage.requests} request{'' if usage.requests == 1 else 's'}" if usage.requests else "",
        f"{tokens:,} tokens" if tokens else "",
        cost,
        "" if seconds is None else f"{seconds:.1f} s",
    ]
    return ", ".join(filter(None, told))
