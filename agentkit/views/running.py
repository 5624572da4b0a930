"""What a run does now, from its frames: the replies that arrive, the calls that are running, the usage so far."""

import time
from dataclasses import dataclass

from ..core.context import PlanStep
from ..core.messages import ToolCall, Usage
from .frames import (
    AnswerPiece,
    AnswerWithdrawn,
    CallClosed,
    CallOpened,
    Frame,
    PlanShown,
    ReplyPiece,
    RequestClosed,
    RequestOpened,
    RunClosed,
    RunOpened,
    ThoughtPiece,
)
from .lines import format_call

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
