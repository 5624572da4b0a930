"""From frames to the updates that an editor shows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import Pending
from ..events import PlanStep
from ..extend import (
    AnswerPiece,
    AnswerWithdrawn,
    CallClosed,
    CallOpened,
    CallProgress,
    Frame,
    PlanShown,
    Remark,
    RunClosed,
    RunNotice,
    RunOpened,
    ThoughtPiece,
)
from .api import acp, schema

Update = Any
TOOL_KINDS: Mapping[str, schema.ToolKind] = {"read": "read", "idempotent": "edit", "write": "edit", "danger": "execute"}
"""For each effect of a tool: the kind that an editor chooses an icon by; "other" for a tool without one."""
MAX_TITLE_CHARS = 100
NOT_FINISHED = "The turn ended before this call had a result."
WITHDRAWN = "\n\n(The answer above is void: it starts again.)\n\n"


class UpdateEncoder:
    """Turns the frames of one turn into updates; keep one for all runs of a turn.

    Attributes:
        closed: The end of the last run, once it has ended.
    """

    def __init__(self) -> None:
        self.closed: RunClosed | None = None
        self._names: dict[str, str] = {}
        self._known: set[str] = set()
        self._open: dict[str, None] = {}

    def encode(self, frame: Frame) -> Iterator[Update]:
        """Yield the updates of a frame."""
        match frame:
            case RunOpened():
                self._names[frame.agent] = frame.name
            case AnswerPiece(agent=""):
                yield acp.update_agent_message_text(frame.text)
            case AnswerWithdrawn(agent=""):
                yield acp.update_agent_message_text(WITHDRAWN)
            case Remark(agent=""):
                yield acp.update_agent_message_text(f"{frame.text}\n\n")
            case ThoughtPiece():
                yield acp.update_agent_thought_text(frame.text)
            case Remark() | RunNotice(is_warning=True):
                yield acp.update_agent_thought_text(f"{frame.text}\n\n")
            case CallOpened():
                yield self._open_call(frame)
            case CallProgress():
                yield acp.update_tool_call(frame.id, status="in_progress", content=_texts(frame.text))
            case PlanShown(agent=""):
                yield acp.update_plan(_plan_entries(frame.steps))
            case CallClosed(waits=True):
                yield acp.update_tool_call(frame.id, status="pending")
            case CallClosed():
                status: schema.ToolCallStatus = "failed" if frame.is_error else "completed"
                shown = _texts(frame.content)
                self._open.pop(frame.id, None)
                yield acp.update_tool_call(frame.id, status=status, content=shown, raw_output=frame.content)
            case RunClosed(agent=""):
                self.closed = frame
                if frame.outcome != "paused":
                    yield from self.close()

    def close(self) -> Iterator[Update]:
        """Yield the last updates of the calls that will have no result in this turn."""
        for identity in self._open:
            yield acp.update_tool_call(identity, status="failed", content=_texts(NOT_FINISHED))
        self._open.clear()

    def announce(self, pending: Pending) -> Iterator[Update]:
        """Yield the update that shows a call which waits for a decision, unless it is shown."""
        if pending.id not in self._known:
            self._known.add(pending.id)
            self._open[pending.id] = None
            arguments = _read_arguments(pending.call.arguments)
            shown = {"status": "pending", "raw_input": arguments, "content": write_pending(pending)}
            yield acp.start_tool_call(pending.id, self.title_of(pending), kind="execute", **shown)

    def title_of(self, pending: Pending) -> str:
        """Return the line that an editor shows for a call that waits."""
        call = pending.call
        return self._title(pending.id.rpartition("/")[0], call.name, call.written or call.arguments)

    def _open_call(self, frame: CallOpened) -> Update:
        kind = TOOL_KINDS.get(frame.effect, "other")
        arguments = _read_arguments(frame.arguments)
        title = self._title(frame.agent, frame.name, frame.arguments)
        start = acp.update_tool_call if frame.id in self._known else acp.start_tool_call
        self._known.add(frame.id)
        self._open[frame.id] = None
        return start(frame.id, title=title, kind=kind, status="in_progress", raw_input=arguments)

    def _title(self, agent: str, name: str, arguments: str) -> str:
        outer = self._names.get(agent, "")
        line = f"{outer}: {name} {arguments}" if outer else f"{name} {arguments}"
        return line if len(line) <= MAX_TITLE_CHARS else f"{line[:MAX_TITLE_CHARS]}..."


def write_pending(pending: Pending) -> list[Any]:
    """Return what the editor shows of a call that waits: why, and what others wrote in its arguments."""
    return [part for text in (pending.reason, *pending.references) for part in _texts(text)]


def _plan_entries(steps: Sequence[PlanStep]) -> list[Any]:
    """Return the entries of a plan; the first open step is the one at work."""
    at_work = next((step for step in steps if not step.done), None)
    return [
        acp.plan_entry(step.text, status="completed" if step.done else "in_progress" if step is at_work else "pending")
        for step in steps
    ]


def _texts(text: str) -> list[Any]:
    return [acp.tool_content(acp.text_block(text))]


def _read_arguments(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
