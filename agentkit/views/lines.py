"""What the views for people share: a run as lines, a role and a text each, and what the run does now.

Views show the lines of frames, the log those of events.  `Running` has the replies that arrive, the calls that are
running and the usage so far.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from ..core.context import PlanStep, Progress
from ..core.flow import Event
from ..core.masking import MAX_SECRET_CHARS, mask
from ..core.messages import ToolCall, Usage, remove_delimiters, text_of
from ..core.pending import escape_unprintable
from ..core.portable import parse_json
from ..core.values import frozen
from ..engine.model import ModelAsked, ModelReplied
from ..engine.result import RunFinished, RunStarted
from ..tools.execution.turn import ToolFinished, ToolStarted
from ..tools.results.result_text import render_text
from .frames import (
    AnswerPiece,
    AnswerWithdrawn,
    CallClosed,
    CallOpened,
    CallProgress,
    Frame,
    PlanShown,
    Remark,
    ReplyPiece,
    RequestClosed,
    RequestOpened,
    RunClosed,
    RunNotice,
    RunOpened,
    ThoughtPiece,
)

Level: TypeAlias = Literal["DEBUG", "INFO", "WARNING"]
LEVELS: tuple[Level, ...] = ("DEBUG", "INFO", "WARNING")
ROLE_STYLES = {
    "system": "dim",
    "query": "bold",
    "model": "cyan",
    "call": "blue",
    "result": "green",
    "error": "red",
    "refused": "yellow",
    "waiting": "yellow",
    "note": "",
    "warning": "yellow",
    "answer": "bold green",
    "total": "dim",
    "progress": "dim",
    "request": "dim",
    "reply": "dim",
}
"""The roles that a line can have, and their styles."""
ROLE_COLUMN_WIDTH = 1 + max(map(len, ROLE_STYLES))
"""Characters of the column that holds the role."""


@frozen
class Line:
    """One line for people.

    `level` is that of the log, `role` one of `ROLE_STYLES`.  `text` is unmasked and whole; the JSON value `data`
    follows it.  `agents` are the agents inside tools that the line comes from, the outermost first.
    """

    level: Level
    role: str
    text: str
    data: Any = None
    agents: tuple[str, ...] = ()

    def format(self, max_chars: int | None = None) -> str:
        """Return the line as `sanitize` makes it: one or several rows of text, with the agents' names in front."""
        text = self.text if self.data is None else f"{self.text} {json.dumps(self.data, ensure_ascii=False)}"
        return "".join(f"[{name}] " for name in self.agents) + sanitize(text, max_chars)


def sanitize(text: str, max_chars: int | None = None) -> str:
    """Mask secrets, escape control characters except line breaks, and truncate to `max_chars` (None: keep all)."""
    if max_chars is None or len(text) <= max_chars:
        shown = mask(text)
        rest = ""
    else:  # masked before it is truncated: a truncated secret is not recognised
        shown = mask(text[: max_chars + MAX_SECRET_CHARS])[:max_chars]
        rest = f"... ({len(text) - max_chars:,} more characters)"
    rows = shown.expandtabs(4).split("\n")
    return "\n".join(row if row.isprintable() else escape_unprintable(row, len(row)) for row in rows) + rest


class RunLines:
    """The lines of one run after another, from their frames."""

    def __init__(self) -> None:
        self._agents: dict[str, tuple[str, ...]] = {}
        self._tools: dict[str, str] = {}

    def read(self, frame: Frame) -> Iterator[Line]:
        """Yield the lines of a frame; many frames have none."""
        if isinstance(frame, RunOpened):
            outer = self._agents.get(frame.agent.rpartition("/")[0], ())
            self._agents[frame.agent] = (*outer, frame.name) if frame.agent else ()
        place = frame.id.rpartition("/")[0] if isinstance(frame, CallProgress) else frame.agent
        agents = self._agents.get(place, ())
        for line in self._lines(frame):
            yield replace(line, agents=agents) if agents else line

    def read_progress(self, frame: Frame) -> Iterator[Line]:
        """Yield the lines for a view beside the outcome: without the run's answer or error, which its caller shows."""
        is_end = isinstance(frame, RunClosed) and not frame.agent
        yield from (line for line in self.read(frame) if not is_end or line.role == "total")

    def _lines(self, frame: Frame) -> Iterator[Line]:
        match frame:
            case RunOpened(query=query):
                yield Line("INFO", "query", query) if query else Line("INFO", "note", "continuing the stopped run")
            case Remark(text=text):
                yield Line("INFO", "model", text)
            case CallOpened():
                self._tools[frame.id] = frame.name
                yield Line("INFO", "call", format_call(ToolCall(frame.id, frame.name, frame.arguments)))
            case CallProgress():
                yield Line("INFO", "progress", f"{self._tools.get(frame.id, 'a tool')}: {frame.text}")
            case CallClosed():
                tool = self._tools.pop(frame.id, "a tool")
                if not frame.waits:  # its question, or the decision that it waits for, has a line of its own
                    shown = f"{tool}: {remove_delimiters(frame.content)}"
                    yield Line("WARNING", "error", shown) if frame.is_error else Line("INFO", "result", shown)
            case RunNotice():
                level: Level = "WARNING" if frame.is_warning else "INFO"
                yield Line(level, "warning" if frame.is_warning else "note", " ".join(frame.text.split()))
            case RunClosed():
                if frame.outcome == "answer":
                    yield Line("INFO", "answer", frame.answer)
                elif frame.error and not frame.agent:
                    yield Line("WARNING", "error", frame.error)
                if not frame.agent:
                    yield Line("INFO", "total", format_usage(Usage(**frame.usage), frame.seconds))


def render_event(event: Event) -> Iterator[Line]:
    """Yield the lines of an event for the log; many events have none."""
    match event:
        case RunStarted(query):
            yield Line("INFO", "query", query) if query else Line("INFO", "note", "continuing the stopped run")
        case ModelAsked(model, request):
            counts = f"to {model}: {len(request.messages)} messages, {len(request.tools)} tools; the last message:"
            yield Line("DEBUG", "request", counts, request.messages[-1] if request.messages else {})
        case ModelReplied(reply):
            usage = f"from {reply.model} ({format_usage(reply.usage)}, {reply.finish_reason or 'no finish reason'}):"
            yield Line("DEBUG", "reply", usage, reply.message)
            if text := text_of(reply.message):
                yield Line("INFO", "model", text)
        case ToolStarted(bound) if not bound.is_answer:
            yield Line("INFO", "call", format_call(bound.as_written))
        case ToolFinished(result) if result.is_open:
            pass  # its question, or the decision that it waits for, has a line of its own
        case ToolFinished(result) if result.error is not None:
            yield Line(
                "WARNING",
                "refused" if result.error.is_refusal else "error",
                f"{result.call.name}: {remove_delimiters(result.content)}",
            )
        case ToolFinished(result) if not result.is_answer:
            yield Line("INFO", "result", f"{result.call.name}: {remove_delimiters(result.content)}")
        case Progress(call, value):
            yield Line("INFO", "progress", f"{call.name if call else 'a tool'}: {render_text(value)}")
        case RunFinished(result):
            yield Line("INFO", "answer", result.text)
            yield Line("INFO", "total", format_usage(result.usage))
    notices = [event.notice]
    if isinstance(event, ToolStarted):
        notices = [f"{event.call.call.name}: {repair}" for repair in event.call.repairs]
    for notice in filter(None, notices):
        yield Line(event.level, "warning" if event.level == "WARNING" else "note", " ".join(notice.split()))


def format_call(call: ToolCall) -> str:
    """Return a call in the form `add(a=2, b=3)`."""
    arguments = parse_json(call.arguments)
    if not isinstance(arguments, dict):
        return f"{call.name}({call.arguments})"
    pairs = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items())
    return f"{call.name}({', '.join(pairs)})"


def format_usage(usage: Usage, seconds: float | None = None) -> str:
    """Return requests, tokens, dollars and seconds in one row of text, without those that are zero or unknown."""
    tokens = usage.input_tokens + usage.output_tokens
    parts = [
        f"{usage.requests} request{'' if usage.requests == 1 else 's'}" if usage.requests else "",
        f"{tokens:,} tokens" if tokens else "",
        "price unknown" if usage.cost is None else f"${usage.cost:.4f}" if usage.cost else "",
        "" if seconds is None else f"{seconds:.1f} s",
    ]
    return ", ".join(filter(None, parts))


MAX_STREAMED_CHARS = 2_000
"""Characters of a text that are kept while it streams."""
MAX_PLAN_ROWS = 8
"""Steps of a plan that are shown."""


@dataclass
class StreamedReply:
    """A reply while it streams, and the time of its request."""

    model: str
    since: float
    text: str = ""
    is_answering: bool = False

    def add(self, piece: str, *, of_answer: bool = False) -> None:
        """Add a piece; the answer replaces what stands before it."""
        before = self.text if self.is_answering == of_answer else ""
        self.is_answering = of_answer
        self.text = (before + piece)[-MAX_STREAMED_CHARS:] if before else piece.lstrip("\n")[-MAX_STREAMED_CHARS:]


class Running:
    """The state of a run.

    Attributes:
        replies: The replies that arrive, by the paths of their agents.
        calls: The calls that are running with the times of their begins, by their paths.
        usage: What the run has used so far, the agents inside it included.
        plan: The plan of the run, which agents inside it do not change.
    """

    def __init__(self) -> None:
        self.replies: dict[str, StreamedReply] = {}
        self.calls: dict[str, tuple[str, float]] = {}
        self.usage = Usage()
        self.plan: tuple[PlanStep, ...] = ()

    def update(self, frame: Frame) -> None:
        """Take a frame into the state."""
        now = time.monotonic()
        match frame:
            case RunOpened(agent=""):
                self._forget("")
                self.usage = Usage()
                self.plan = ()
            case PlanShown(agent=""):
                self.plan = frame.steps
            case RequestOpened():
                self.replies[frame.agent] = StreamedReply(frame.model, now)
            case RequestClosed():
                self.replies.pop(frame.agent, None)
                self.usage += Usage(**frame.usage)
            case CallOpened():
                self.calls[frame.id] = format_call(ToolCall(frame.id, frame.name, frame.arguments)), now
            case CallClosed():
                self.calls.pop(frame.id, None)
                self._forget(frame.id)
            case RunClosed():
                self._forget(frame.agent)
            case ThoughtPiece() | ReplyPiece() if frame.agent in self.replies:
                self.replies[frame.agent].add(frame.text)
            case AnswerPiece() if frame.agent in self.replies:
                self.replies[frame.agent].add(frame.text, of_answer=True)
            case AnswerWithdrawn() if frame.agent in self.replies:
                self.replies[frame.agent].text = ""

    def plan_rows(self) -> list[str]:
        """Return the steps of the plan around the first open one, a row each."""
        is_open = [number for number, step in enumerate(self.plan) if not step.done]
        first = max(0, min((is_open or [0])[0] - 1, len(self.plan) - MAX_PLAN_ROWS))
        shown = self.plan[first : first + MAX_PLAN_ROWS]
        rows = [f"{'☑' if step.done else '☐'} {step.text}" for step in shown]
        left = len(self.plan) - len(shown)
        return [*rows, f"and {left} more, {len(is_open)} open"] if left else rows

    def _forget(self, agent: str) -> None:
        """Remove what an agent was doing when it ended."""
        for known in (self.replies, self.calls):
            for path in [path for path in known if not agent or f"{path}/".startswith(f"{agent}/")]:
                del known[path]
